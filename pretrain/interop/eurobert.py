"""EuroBERT (Boizard et al. 2025): ``EuroBertForMaskedLM``, Llama's block stack read both ways.

It is the standard class nearest to our modern BERT: rotary positions, RMSNorm and a plain head,
but SwiGLU, and no norm on the embeddings or on queries and keys. Its class for classification puts
a dense layer with GELU between pooling and classifier, which ours has not.
"""

from collections.abc import Iterator
from typing import Any

from pretrain.interop.family import Family
from pretrain.interop.fields import Fields
from pretrain.interop.llama import HEADS, LLAMA_NEEDS, TIED, llama_rules, read_llama, write_llama
from pretrain.interop.rules import Filler, Rule
from pretrain.model import TransformerConfig


def _read(fields: Fields) -> dict[str, Any]:
    network = read_llama(fields, eps=1e-5)
    return {**network, "head_bias": network["linear_bias"]}  # one switch there


def _rules(config: TransformerConfig, objective: str, pooler: bool) -> Iterator[Rule | Filler]:
    yield from llama_rules(config, objective, pooler)
    if objective == "encoder" or not config.linear_bias:
        return
    if config.head_bias:
        yield Rule("head.decoder.bias", ("lm_head.bias",))
    else:
        assert config.vocab_size is not None
        yield Filler("lm_head.bias", (config.vocab_size,), 0.0)


FAMILY = Family(
    model_type="eurobert",
    classes={"mlm": "EuroBertForMaskedLM", "encoder": "EuroBertModel"},
    prefix="model.",
    lm_head="lm_head.",
    needs={
        **LLAMA_NEEDS,
        "head_bias": lambda config: (False, True) if config.linear_bias else (False,),
    },
    write=write_llama,
    read=_read,
    rules=_rules,
    tied=TIED,
    other_heads=(*HEADS, "dense."),
)
