"""What training a block stack costs."""

from pretrain.model.transformer import Transformer


def blocks_flops_per_token(transformer: Transformer, seq_len: int) -> float:
    """Useful floating-point operations in the blocks per input token (forward and backward).

    6 per weight of the blocks' matrices that a token goes through (of experts, those chosen) and
    12·n_layers·keys·d_model for attention (Kaplan et al. 2020, section 2.1; Chowdhery et al. 2022,
    appendix B). ``keys`` is how many a token sees on average: all seq, half of them where attention
    is causal, fewer under a sliding window.
    """
    config = transformer.config
    blocks = 0.0
    for name, weight in transformer.blocks.named_parameters():
        chosen = config.experts_per_token / config.n_experts if ".experts." in name else 1.0
        blocks += chosen * weight.numel() if weight.ndim == 2 else 0.0
    reach = min(seq_len, config.sliding_window or seq_len)
    past = reach - reach**2 / (2 * max(seq_len, 1))  # the first tokens have fewer behind them
    keys = past if transformer.causal else 2 * past
    return 6 * blocks + 12 * config.n_layers * keys * config.d_model
