"""The one description that every Transformer of this package is built from."""

import math
from dataclasses import dataclass, fields
from typing import Literal, get_args, get_origin


@dataclass(frozen=True)
class TransformerConfig:
    """Shape and parts of a Transformer; the defaults are our modern recipe.

    Whether attention is causal is not written here: that is the objective's fact.

    Attributes:
        vocab_size: Rows of the embedding; None until the tokenizer is known.
        d_model: Width of the residual stream.
        n_layers: Number of blocks.
        n_heads: Attention heads per block; must divide ``d_model``.
        n_kv_heads: Heads of keys and values, each shared by a group of query heads (Ainslie et
            al. 2023, "GQA"); None means ``n_heads``; must divide ``n_heads``.
        d_ff: Hidden width of the feed-forward layer; None means ``4 * d_model``.
        max_len: Length of the table where positions are learned, and so of the longest sequence;
            other positions set no bound.
        position: ``rotary`` (Su et al. 2021), ``xpos`` (rotary that fades with distance, for
            causal attention; Sun et al. 2022), ``alibi`` (a penalty on distance; Press et al.
            2022), ``learned`` (a table added to the token embedding), ``sinusoidal`` (a fixed
            one; 2017 paper, section 3.5) or ``none``.
        position_scale: Factor on learned and sinusoidal positions; None brings sinusoids to the
            size of freshly initialised token embeddings and leaves learned ones as they are.
        rotary_base: Base of the rotary frequencies.
        rotary_scaling: How a context longer than the trained one is fitted in: ``linear``
            (positions divided by the factor; Chen et al. 2023) or ``ntk`` (a larger base, which
            keeps short distances sharp; "NTK-aware", bloc97 2023).
        rotary_factor: By how much the context grows; 1 means no scaling.
        sliding_window: Each token sees only keys nearer than this many positions, itself
            included ("restricted" attention, 2017 paper, section 4); None means all.
        n_segments: Segment embeddings (sentence A / B of BERT); 0 means none.
        norm: ``layernorm`` (Ba et al. 2016) or ``rmsnorm`` (Zhang & Sennrich 2019).
        norm_position: ``pre`` (norm inside the residual branch, one more before the head) or
            ``post`` (norm after the addition, as in the 2017 paper).
        parallel_blocks: Attention and feed-forward read the same norm and are added together
            (Wang & Komatsuzaki 2021, "GPT-J"); needs pre-norm.
        norm_eps: Added to the variance inside each norm.
        norm_gain: Whether norms learn a gain.
        norm_bias: Whether norms learn a bias (LayerNorm only).
        embedding_norm: A norm right after the embeddings.
        qk_norm: RMS norm over each head of query and key, before the rotation
            (Henry et al. 2020; Dehghani et al. 2023).
        activation: ``relu``, ``relu2`` (So et al. 2021), ``gelu``, ``gelu_tanh`` or ``swiglu``
            (Shazeer 2020; its gate adds a third matrix).
        n_experts: Feed-forward layers per block among which a router chooses for each token;
            0 means one, without a router. See ``experts.py``.
        experts_per_token: How many of them each token goes through.
        load_balance_weight: Weight of the load-balancing loss in the training objective.
        linear_bias: Whether linear layers inside the blocks have biases.
        dropout: Rate on the embedding sum and on each sublayer's output (2017 paper, 5.4).
        attention_dropout: Rate on the attention weights; None means the same as ``dropout``.
        tie_embeddings: Whether the head's matrix is the token embedding (Press & Wolf 2017).
        head_transform: BERT's dense + activation + norm in front of the head's matrix.
        head_bias: Whether the head's matrix has a bias.
        init: Initialisation scheme; see the table in ``initialization.py``.

    Raises:
        ValueError: One sentence, for every combination that cannot work.
    """

    vocab_size: int | None = None
    d_model: int = 256
    n_layers: int = 4
    n_heads: int = 4
    n_kv_heads: int | None = None
    d_ff: int | None = None
    max_len: int = 512
    position: Literal["rotary", "xpos", "alibi", "learned", "sinusoidal", "none"] = "rotary"
    position_scale: float | None = None
    rotary_base: float = 10_000.0
    rotary_scaling: Literal["linear", "ntk"] = "linear"
    rotary_factor: float = 1.0
    sliding_window: int | None = None
    n_segments: int = 0
    norm: Literal["rmsnorm", "layernorm"] = "rmsnorm"
    norm_position: Literal["pre", "post"] = "pre"
    parallel_blocks: bool = False
    norm_eps: float = 1e-6
    norm_gain: bool = False
    norm_bias: bool = False
    embedding_norm: bool = True
    qk_norm: bool = True
    activation: Literal["relu", "relu2", "gelu", "gelu_tanh", "swiglu"] = "relu2"
    n_experts: int = 0
    experts_per_token: int = 2
    load_balance_weight: float = 0.01
    linear_bias: bool = False
    dropout: float = 0.0
    attention_dropout: float | None = None
    tie_embeddings: bool = False
    head_transform: bool = False
    head_bias: bool = False
    init: Literal["zero_output", "normal", "scaled_residual", "xavier", "kaiming", "orthogonal"] = (
        "zero_output"
    )

    def __post_init__(self) -> None:
        self._check_choices()
        self._check_sizes()
        self._check_attention()
        self._check_combinations()

    @property
    def head_dim(self) -> int:
        """Width of one attention head."""
        return self.d_model // self.n_heads

    @property
    def kv_heads(self) -> int:
        """Number of heads of keys and values."""
        return self.n_heads if self.n_kv_heads is None else self.n_kv_heads

    @property
    def hidden_dim(self) -> int:
        """Width of the feed-forward layer's hidden units."""
        return self.d_ff if self.d_ff is not None else 4 * self.d_model

    @property
    def embedding_std(self) -> float:
        """Standard deviation of fresh token embeddings; see the table in ``initialization.py``."""
        return 1.0 if self.init == "zero_output" else 0.02

    def _check_choices(self) -> None:
        for field in fields(self):
            value, choices = getattr(self, field.name), get_args(field.type)
            if get_origin(field.type) is Literal and value not in choices:
                raise ValueError(f"{field.name} is {value!r}; it must be {' or '.join(choices)}.")
            if isinstance(value, float) and not math.isfinite(value):
                raise ValueError(f"{field.name} is {value}; it must be a finite number.")

    def _check_sizes(self) -> None:
        for name in ("vocab_size", "d_model", "n_layers", "n_heads", "n_kv_heads", "d_ff",
                     "max_len", "sliding_window"):  # fmt: skip
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} is {value}; it must be at least 1.")
        for name in ("n_segments", "n_experts"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be 0 (none) or more.")
        for name in ("norm_eps", "rotary_base"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be greater than 0.")
        if self.rotary_factor < 1:
            raise ValueError(f"rotary_factor is {self.rotary_factor}; it must be at least 1.")
        if self.load_balance_weight < 0:
            raise ValueError(f"load_balance_weight is {self.load_balance_weight}; it must be >= 0.")
        for name in ("dropout", "attention_dropout"):
            rate = getattr(self, name)
            if rate is not None and not 0 <= rate < 1:
                raise ValueError(f"{name} is {rate}; a rate lies in [0, 1).")

    def _check_attention(self) -> None:
        if self.d_model % self.n_heads:
            raise ValueError(
                f"d_model ({self.d_model}) is not divisible by n_heads ({self.n_heads})."
            )
        if self.n_heads % self.kv_heads:
            raise ValueError(
                f"n_heads ({self.n_heads}) is not divisible by n_kv_heads ({self.n_kv_heads})."
            )
        if self.position in ("rotary", "xpos") and self.head_dim % 2:
            raise ValueError(
                f"Rotary positions turn pairs, so the head size d_model / n_heads "
                f"({self.head_dim}) must be even."
            )
        if self.rotary_factor > 1 and self.position not in ("rotary", "xpos"):
            raise ValueError(
                f"rotary_factor {self.rotary_factor} needs rotary positions, not {self.position}."
            )
        if self.rotary_factor > 1 and self.rotary_scaling == "ntk" and self.head_dim < 4:
            raise ValueError(f"rotary_scaling ntk needs a head size of 4, not {self.head_dim}.")
        if self.position == "sinusoidal" and self.d_model % 2:
            raise ValueError(f"Sinusoidal positions need an even d_model, not {self.d_model}.")

    def _check_combinations(self) -> None:
        if self.parallel_blocks and self.norm_position == "post":
            raise ValueError("parallel_blocks need norm_position pre.")
        if self.n_experts and not 1 <= self.experts_per_token <= self.n_experts:
            raise ValueError(
                f"experts_per_token ({self.experts_per_token}) must be between 1 and n_experts "
                f"({self.n_experts})."
            )
        if self.norm == "rmsnorm" and self.norm_bias:
            raise ValueError("RMSNorm has no bias: set norm_bias to false or norm to layernorm.")
        if self.norm_bias and not self.norm_gain:
            raise ValueError("norm_bias without norm_gain is not a known norm: set both or none.")
        if self.tie_embeddings and self.init == "zero_output":
            raise ValueError(
                "init zero_output sets the head to zero, which would zero a tied embedding: "
                "set tie_embeddings to false or init to normal or scaled_residual."
            )
