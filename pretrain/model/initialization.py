"""Initial weights. Biases start at 0 and gains at 1 in every scheme.

===============  ==========  =========================  =====================  ==============
``init``         embeddings  inner matrices             output projections     head
===============  ==========  =========================  =====================  ==============
normal           N(0, 0.02)  N(0, 0.02)                 N(0, 0.02)             N(0, 0.02)
scaled_residual  N(0, 0.02)  N(0, 0.02)                 N(0, 0.02/√(2 layers)) N(0, 0.02)
zero_output      N(0, 1)     U(±√(3 / d_model))         0                      0
xavier           N(0, 0.02)  U(±√(6 / (in + out)))      as inner               as inner
kaiming          N(0, 0.02)  N(0, √(gain / in))         as inner               as inner
orthogonal       N(0, 0.02)  orthonormal rows, columns  as inner               as inner
===============  ==========  =========================  =====================  ==============

The second number of N is a standard deviation; ``in`` and ``out`` are a matrix's inputs and
outputs. Embeddings are those of tokens, learned positions and segments. Inner matrices are q, k, v,
the first of the feed-forward layer (SwiGLU's gate too), the router of a mixture of experts and the
head's transform. Output projections are the last matrices of the attention and feed-forward
sublayers, each expert's included: what they write is added to the residual stream. A tied head is
the token embedding.

- ``normal``: BERT (Devlin et al. 2019). ``scaled_residual``: GPT-2 (Radford et al. 2019, 2.3).
- ``zero_output``: ours; every block starts as the identity. U has the deviation 1/√d_model.
- ``xavier``: Glorot & Bengio 2010, equation 16. q, k and v are three matrices here, though stored
  as one: each has its own number of outputs.
- ``kaiming``: He et al. 2015, equation 10, which keeps the variance from layer to layer. Its gain
  of 2 makes up for what a ReLU cuts off, so the matrices of the feed-forward layer have it (the
  first one too, as in the paper, with any activation); all others have a gain of 1.
- ``orthogonal``: Saxe et al. 2014, with q, k and v apart. The shorter side is orthonormal.
"""

import math

import torch
from torch import Tensor, nn

from pretrain.model.config import TransformerConfig
from pretrain.model.heads import LanguageModelHead
from pretrain.model.transformer import Transformer

STD = 0.02


@torch.no_grad()
def initialize(transformer: Transformer, head: LanguageModelHead | None = None) -> None:
    """Set every weight of ``transformer`` and ``head`` by the configuration's scheme."""
    config = transformer.config
    for name, module in transformer.named_modules():
        if isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=config.embedding_std)
        elif isinstance(module, nn.Linear):
            _initialize_linear(module, name.rpartition(".")[2], config)
    if head is None:
        return
    for module in head.transform.modules():
        if isinstance(module, nn.Linear):
            _initialize_linear(module, "transform", config)
    if not config.tie_embeddings:
        _initialize_linear(head.decoder, "head", config)
    elif head.decoder.bias is not None:
        nn.init.zeros_(head.decoder.bias)


def _initialize_linear(linear: nn.Linear, role: str, config: TransformerConfig) -> None:
    if linear.bias is not None:
        nn.init.zeros_(linear.bias)
    sizes = [len(linear.weight)]
    if role == "qkv":
        sizes = [config.d_model, *2 * [config.kv_heads * config.head_dim]]
    for matrix in linear.weight.split(sizes):
        _fill(matrix, role, config)


def _fill(matrix: Tensor, role: str, config: TransformerConfig) -> None:
    """Draw ``matrix`` ``(out, in)`` by the table's row."""
    writes_to_residual = role in ("output", "down")
    match config.init:
        case "normal":
            nn.init.normal_(matrix, std=STD)
        case "scaled_residual":
            scale = math.sqrt(2 * config.n_layers) if writes_to_residual else 1.0
            nn.init.normal_(matrix, std=STD / scale)
        case "zero_output" if writes_to_residual or role == "head":
            nn.init.zeros_(matrix)
        case "zero_output":
            bound = math.sqrt(3 / config.d_model)
            nn.init.uniform_(matrix, -bound, bound)
        case "xavier":
            nn.init.xavier_uniform_(matrix)
        case "kaiming":
            gain = 2.0 if role in ("gate", "up", "down") else 1.0
            nn.init.normal_(matrix, std=math.sqrt(gain / matrix.shape[1]))
        case "orthogonal":
            nn.init.orthogonal_(matrix)
