"""The norm that a configuration asks for."""

from torch import nn

from pretrain.model.config import TransformerConfig


def build_norm(config: TransformerConfig) -> nn.Module:
    """LayerNorm or RMSNorm over the last dimension, ``(..., d_model)`` to the same shape."""
    if config.norm == "rmsnorm":
        return nn.RMSNorm(config.d_model, config.norm_eps, elementwise_affine=config.norm_gain)
    return nn.LayerNorm(
        config.d_model,
        config.norm_eps,
        elementwise_affine=config.norm_gain,
        bias=config.norm_bias,
    )
