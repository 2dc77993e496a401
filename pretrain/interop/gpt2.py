"""GPT-2 (Radford et al. 2019): ``GPT2LMHeadModel`` and ``GPT2ForSequenceClassification``.

Its matrices are ``(inputs, outputs)``. Its classifier reads the last token that is no filler by
its id, so that rows must not end with the token that fills.
"""

import re
from collections.abc import Iterator
from typing import Any

from pretrain.interop.bert import ACTIVATIONS, ACTIVATIONS_READ
from pretrain.interop.family import Family
from pretrain.interop.fields import Fields
from pretrain.interop.portable import CLASSIFIER
from pretrain.interop.rules import TRANSPOSED, Filler, Rule, linear, norm
from pretrain.model import TransformerConfig


def _write(config: TransformerConfig, length: int) -> dict[str, Any]:
    attention_dropout = config.attention_dropout
    return {
        "n_embd": config.d_model,
        "n_layer": config.n_layers,
        "n_head": config.n_heads,
        "n_inner": config.hidden_dim,
        "n_positions": config.max_len,
        "activation_function": ACTIVATIONS[config.activation],
        "layer_norm_epsilon": config.norm_eps,
        "embd_pdrop": config.dropout,
        "resid_pdrop": config.dropout,
        "attn_pdrop": config.dropout if attention_dropout is None else attention_dropout,
    }


def _read(fields: Fields) -> dict[str, Any]:
    fields.only("scale_attn_weights", True)
    fields.only("scale_attn_by_inverse_layer_idx", False)
    fields.only("add_cross_attention", False)
    dropout = fields.get("resid_pdrop", 0.1)
    fields.only("embd_pdrop", dropout)
    d_model = fields.size("n_embd")
    return {
        "d_model": d_model,
        "n_layers": fields.size("n_layer"),
        "n_heads": fields.size("n_head"),
        "d_ff": fields.get("n_inner", 4 * d_model),
        "max_len": fields.size("n_positions"),
        "activation": fields.choice("activation_function", "gelu_new", ACTIVATIONS_READ),
        "norm_eps": fields.get("layer_norm_epsilon", 1e-5),
        "dropout": dropout,
        "attention_dropout": fields.get("attn_pdrop", 0.1),
        "tie_embeddings": fields.get("tie_word_embeddings", True),
        "position": "learned",
        "norm": "layernorm",
        "norm_position": "pre",
        "norm_gain": True,
        "norm_bias": True,
        "embedding_norm": False,
        "qk_norm": False,
        "linear_bias": True,
        "init": "scaled_residual",
    }


def _rules(config: TransformerConfig, objective: str, pooler: bool) -> Iterator[Rule | Filler]:
    d_model = config.d_model
    yield Rule("transformer.embeddings.token.weight", ("transformer.wte.weight",))
    yield Rule("transformer.embeddings.position.weight", ("transformer.wpe.weight",))
    for i in range(config.n_layers):
        here, there = f"transformer.blocks.{i}", f"transformer.h.{i}"
        yield from norm(f"{here}.attention_norm", f"{there}.ln_1", config)
        yield from norm(f"{here}.feed_forward_norm", f"{there}.ln_2", config)
        for ours, theirs, size in (
            ("attention.qkv", "attn.c_attn", 3 * d_model),
            ("attention.output", "attn.c_proj", d_model),
            ("feed_forward.up", "mlp.c_fc", config.hidden_dim),
            ("feed_forward.down", "mlp.c_proj", d_model),
        ):
            yield from linear(
                f"{here}.{ours}",
                f"{there}.{theirs}",
                TRANSPOSED,
                bias_here=config.linear_bias,
                zeros=(size,),
            )
    yield from norm("transformer.final_norm", "transformer.ln_f", config)
    if objective == "classification":
        yield Rule(CLASSIFIER, ("score.weight",))
    elif not config.tie_embeddings:
        yield Rule("head.decoder.weight", ("lm_head.weight",))


FAMILY = Family(
    model_type="gpt2",
    classes={"clm": "GPT2LMHeadModel", "classification": "GPT2ForSequenceClassification"},
    prefix="transformer.",
    lm_head="lm_head.",
    needs={
        "position": ("learned",),
        "position_scale": (None, 1.0),
        "n_segments": (0,),
        "norm": ("layernorm",),
        "norm_position": ("pre",),
        "embedding_norm": (False,),
        "qk_norm": (False,),
        "activation": tuple(ACTIVATIONS),
        "n_kv_heads": lambda config: (None, config.n_heads),
        "head_transform": (False,),
        "head_bias": (False,),
    },
    write=_write,
    read=_read,
    rules=_rules,
    tied={"lm_head.weight": "transformer.wte.weight"},
    other_heads=("score.", "classifier.", "qa_outputs.", "multiple_choice_head."),
    # Its causal mask was once saved with the weights.
    ignored=re.compile(r"\.attn\.(bias|masked_bias)$"),
    pooling="last",
)
