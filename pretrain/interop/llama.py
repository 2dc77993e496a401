"""Llama (Touvron et al. 2023): ``LlamaForCausalLM`` and ``LlamaForSequenceClassification``."""

from collections.abc import Iterator
from typing import Any

from pretrain.interop.family import Family
from pretrain.interop.fields import Fields
from pretrain.interop.portable import CLASSIFIER
from pretrain.interop.rotary import read_rotary, write_rotary
from pretrain.interop.rules import Filler, Rule, head_rows, linear, norm
from pretrain.model import TransformerConfig

# What the block stacks of Llama and its kin have in common.
NEEDS = {
    "position": ("rotary",),
    "n_segments": (0,),
    "norm": ("rmsnorm",),
    "norm_position": ("pre",),
    "head_transform": (False,),
}
HEADS = ("score.", "classifier.", "qa_outputs.")
TIED = {"lm_head.weight": "model.embed_tokens.weight"}


def write_shape(config: TransformerConfig, length: int) -> dict[str, Any]:
    """The fields that Llama, EuroBERT and NanoChat share.

    Dropout outside of attention has none; it changes nothing that the trained network computes.
    """
    attention_dropout = config.attention_dropout
    return {
        "hidden_size": config.d_model,
        "num_hidden_layers": config.n_layers,
        "num_attention_heads": config.n_heads,
        "num_key_value_heads": config.kv_heads,
        "intermediate_size": config.hidden_dim,
        "max_position_embeddings": length,
        "rms_norm_eps": config.norm_eps,
        "attention_dropout": config.dropout if attention_dropout is None else attention_dropout,
        **write_rotary(config),
    }


def read_shape(fields: Fields, eps: float) -> dict[str, Any]:
    """The same as fields of our configuration; ``eps`` is the class's own ``rms_norm_eps``."""
    # A window that is given but switched off is none.
    if fields.values.get("use_sliding_window") is not False:
        fields.only("sliding_window")
    d_model, n_heads = fields.size("hidden_size"), fields.size("num_attention_heads")
    fields.only("head_dim", d_model // n_heads)
    kv_heads = fields.optional("num_key_value_heads")
    return {
        "d_model": d_model,
        "n_heads": n_heads,
        "n_kv_heads": None if kv_heads == n_heads else kv_heads,
        "n_layers": fields.size("num_hidden_layers"),
        "d_ff": fields.size("intermediate_size"),
        "max_len": fields.size("max_position_embeddings"),
        "norm_eps": fields.get("rms_norm_eps", eps),
        "dropout": 0.0,
        "attention_dropout": fields.get("attention_dropout", 0.0),
        "tie_embeddings": fields.get("tie_word_embeddings", False),
        "norm": "rmsnorm",
        "norm_position": "pre",
        "init": "normal",
        **read_rotary(fields),
    }


def write_llama(config: TransformerConfig, length: int) -> dict[str, Any]:
    """The fields of Llama and EuroBERT, whose block stacks are the same."""
    return {
        **write_shape(config, length),
        "hidden_act": "silu",
        "head_dim": config.head_dim,
        "attention_bias": config.linear_bias,
        "mlp_bias": config.linear_bias,
    }


def read_llama(fields: Fields, eps: float = 1e-6) -> dict[str, Any]:
    """The same as fields of our configuration."""
    fields.choice("hidden_act", "silu", {"silu": "swiglu", "swish": "swiglu"})
    bias, mlp_bias = fields.get("attention_bias", False), fields.get("mlp_bias", False)
    if bias != mlp_bias:
        fields.refuse("attention_bias", bias, f"{mlp_bias}, as mlp_bias is")
    return {
        **read_shape(fields, eps),
        "activation": "swiglu",
        "norm_gain": True,
        "embedding_norm": False,
        "qk_norm": False,
        "linear_bias": bias,
    }


def llama_rules(config: TransformerConfig, objective: str, pooler: bool) -> Iterator[Rule | Filler]:
    """The tensors of Llama and EuroBERT."""
    bias, rows = config.linear_bias, head_rows(config)
    yield Rule("transformer.embeddings.token.weight", ("model.embed_tokens.weight",))
    for i in range(config.n_layers):
        here, there = f"transformer.blocks.{i}", f"model.layers.{i}"
        yield from norm(f"{here}.attention_norm", f"{there}.input_layernorm", config)
        yield from norm(f"{here}.feed_forward_norm", f"{there}.post_attention_layernorm", config)
        parts = tuple(f"{there}.self_attn.{part}_proj" for part in "qkv")
        yield from linear(f"{here}.attention.qkv", parts, rows, rows, bias)
        for ours, theirs in (
            ("attention.output", "self_attn.o_proj"),
            ("feed_forward.gate", "mlp.gate_proj"),
            ("feed_forward.up", "mlp.up_proj"),
            ("feed_forward.down", "mlp.down_proj"),
        ):
            yield from linear(f"{here}.{ours}", f"{there}.{theirs}", bias_here=bias)
    yield from norm("transformer.final_norm", "model.norm", config)
    if objective == "classification":
        yield Rule(CLASSIFIER, ("score.weight",))
    elif objective != "encoder" and not config.tie_embeddings:
        yield Rule("head.decoder.weight", ("lm_head.weight",))


LLAMA_NEEDS: dict[str, Any] = {  # EuroBERT's too
    **NEEDS,
    "embedding_norm": (False,),
    "qk_norm": (False,),
    "activation": ("swiglu",),
}
FAMILY = Family(
    model_type="llama",
    classes={"clm": "LlamaForCausalLM", "classification": "LlamaForSequenceClassification"},
    prefix="model.",
    lm_head="lm_head.",
    needs={
        **LLAMA_NEEDS,
        "head_bias": (False,),
    },
    write=write_llama,
    read=read_llama,
    rules=llama_rules,
    tied=TIED,
    other_heads=HEADS,
    pooling="last",
)
