"""The position-wise feed-forward layer and its activations."""

from torch import Tensor, nn

from pretrain.model.config import TransformerConfig


class SquaredReLU(nn.Module):
    """max(0, x)² (So et al. 2021, "Primer", section 3)."""

    def forward(self, x: Tensor) -> Tensor:
        """Elementwise; the shape stays."""
        return x.relu().square()


def build_activation(name: str) -> nn.Module:
    """The elementwise function behind an activation's name; SwiGLU's is the gate's SiLU."""
    if name == "gelu_tanh":
        return nn.GELU(approximate="tanh")
    return {"relu": nn.ReLU, "relu2": SquaredReLU, "gelu": nn.GELU, "swiglu": nn.SiLU}[name]()


class FeedForward(nn.Module):
    """activation(x W₁) W₂ ("Attention Is All You Need", equation 2).

    With SwiGLU (Shazeer 2020, equation 6): (SiLU(x W_gate) ⊙ x W₁) W₂. What enters
    ``activation`` is the pre-activation of the hidden units in every variant.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        d_model, d_ff, bias = config.d_model, config.hidden_dim, config.linear_bias
        gated = config.activation == "swiglu"
        self.gate = nn.Linear(d_model, d_ff, bias=bias) if gated else None
        self.up = nn.Linear(d_model, d_ff, bias=bias)
        self.activation = build_activation(config.activation)
        self.down = nn.Linear(d_ff, d_model, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        """``(batch, seq, d_model)`` to the same shape."""
        if self.gate is None:
            hidden = self.activation(self.up(x))
        else:
            hidden = self.activation(self.gate(x)) * self.up(x)
        return self.down(hidden)
