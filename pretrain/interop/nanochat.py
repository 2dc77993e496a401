"""NanoChat (Karpathy 2025): ``NanoChatForCausalLM``, the shape of our default GPT.

It turns queries and keys by the opposite angle, before the norm on them instead of after it. A
turn keeps the length of a vector, so a norm without gain gives the same on either side.
"""

from collections.abc import Iterator
from typing import Any

from pretrain.interop.bert import ACTIVATIONS, ACTIVATIONS_READ
from pretrain.interop.family import Family
from pretrain.interop.fields import Fields
from pretrain.interop.llama import HEADS, NEEDS, TIED, read_shape, write_shape
from pretrain.interop.rules import Filler, Rule, head_rows, linear
from pretrain.model import TransformerConfig


def _write(config: TransformerConfig, length: int) -> dict[str, Any]:
    return {
        **write_shape(config, length),
        "hidden_act": ACTIVATIONS[config.activation],
        "attention_bias": False,
        "final_logit_softcapping": None,
    }


def _read(fields: Fields) -> dict[str, Any]:
    # Its class caps the logits unless the file says null.
    if fields.values.get("final_logit_softcapping", 15.0) is not None:
        value = fields.values.get("final_logit_softcapping", "left out (15.0)")
        fields.refuse("final_logit_softcapping", value, "null")
    fields.only("attention_bias", False)
    return {
        **read_shape(fields, eps=1e-6),
        "activation": fields.choice("hidden_act", "relu2", ACTIVATIONS_READ),
        "norm_gain": False,
        "embedding_norm": True,
        "qk_norm": True,
    }


def _rules(config: TransformerConfig, objective: str, pooler: bool) -> Iterator[Rule | Filler]:
    yield Rule("transformer.embeddings.token.weight", ("model.embed_tokens.weight",))
    for i in range(config.n_layers):
        here, there = f"transformer.blocks.{i}", f"model.layers.{i}"
        parts = tuple(f"{there}.self_attn.{part}_proj" for part in "qkv")
        yield from linear(f"{here}.attention.qkv", parts, head_rows(config, turned_back=True))
        yield from linear(f"{here}.attention.output", f"{there}.self_attn.o_proj")
        yield from linear(f"{here}.feed_forward.up", f"{there}.mlp.fc1")
        yield from linear(f"{here}.feed_forward.down", f"{there}.mlp.fc2")
    if not config.tie_embeddings:
        yield Rule("head.decoder.weight", ("lm_head.weight",))


FAMILY = Family(
    model_type="nanochat",
    classes={"clm": "NanoChatForCausalLM"},
    prefix="model.",
    lm_head="lm_head.",
    needs={
        **NEEDS,
        "norm_gain": (False,),
        "embedding_norm": (True,),
        "qk_norm": (True,),
        "activation": tuple(ACTIVATIONS),
        "linear_bias": (False,),
        "head_bias": (False,),
    },
    write=_write,
    read=_read,
    rules=_rules,
    tied=TIED,
    other_heads=HEADS,
)
