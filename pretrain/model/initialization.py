"""Initial weights. Biases start at 0 and gains at 1 in every scheme.

==================  ===================  =======================  ==========================
tensor              normal (BERT)        scaled_residual (GPT-2)  zero_output (ours)
==================  ===================  =======================  ==========================
embeddings          N(0, 0.02)           N(0, 0.02)               N(0, 1)
q, k, v; first ff   N(0, 0.02)           N(0, 0.02)               U(-√(3/d_model), √(3/d_model))
output projections  N(0, 0.02)           N(0, 0.02/√(2 n_layers)) 0
head's transform    N(0, 0.02)           N(0, 0.02)               U(-√(3/d_model), √(3/d_model))
head (untied)       N(0, 0.02)           N(0, 0.02)               0
==================  ===================  =======================  ==========================

Output projections are the last matrices of the attention and feed-forward sublayers: what they
write is added to the residual stream (Radford et al. 2019, section 2.3). The uniform bound gives
a standard deviation of 1/√d_model. A tied head is the token embedding.
"""

import math

from torch import nn

from pretrain.model.heads import LanguageModelHead
from pretrain.model.transformer import Transformer

STD = 0.02


def initialize(transformer: Transformer, head: LanguageModelHead | None = None) -> None:
    """Set every weight of ``transformer`` and ``head`` by the configuration's scheme."""
    config = transformer.config
    zero_output = config.init == "zero_output"
    bound = math.sqrt(3 / config.d_model)
    output_std = STD
    if config.init == "scaled_residual":
        output_std = STD / math.sqrt(2 * config.n_layers)

    for name, module in transformer.named_modules():
        if isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=1.0 if zero_output else STD)
        elif isinstance(module, nn.Linear):
            _initialize_linear(
                module,
                uniform_bound=bound if zero_output else None,
                std=output_std if name.endswith((".output", ".down")) else STD,
                zero=zero_output and name.endswith((".output", ".down")),
            )
    if head is None:
        return
    for module in head.transform.modules():
        if isinstance(module, nn.Linear):
            _initialize_linear(module, uniform_bound=bound if zero_output else None)
    if config.tie_embeddings:
        if head.decoder.bias is not None:
            nn.init.zeros_(head.decoder.bias)
    else:
        _initialize_linear(head.decoder, zero=zero_output)


def _initialize_linear(
    linear: nn.Linear,
    uniform_bound: float | None = None,
    std: float = STD,
    zero: bool = False,
) -> None:
    if zero:
        nn.init.zeros_(linear.weight)
    elif uniform_bound is not None:
        nn.init.uniform_(linear.weight, -uniform_bound, uniform_bound)
    else:
        nn.init.normal_(linear.weight, std=std)
    if linear.bias is not None:
        nn.init.zeros_(linear.bias)
