"""BERT (Devlin et al. 2019): ``BertForMaskedLM``, ``BertForSequenceClassification``, and
``BertModel`` without a head.
"""

import re
from collections.abc import Iterator
from typing import Any

from pretrain.interop.family import Family
from pretrain.interop.fields import Fields
from pretrain.interop.rules import Copied, Filler, Rule, head_rows, linear, norm
from pretrain.model import TransformerConfig

# Ours to theirs; the activation's table is read both ways.
ACTIVATIONS = {"gelu": "gelu", "relu": "relu", "gelu_tanh": "gelu_new", "relu2": "relu2"}
ACTIVATIONS_READ = {theirs: ours for ours, theirs in ACTIVATIONS.items()} | {
    "gelu_python": "gelu",
    "gelu_pytorch_tanh": "gelu_tanh",
}
_PREDICTIONS = "cls.predictions"


def _write(config: TransformerConfig, length: int) -> dict[str, Any]:
    attention_dropout = config.attention_dropout
    return {
        "hidden_size": config.d_model,
        "num_hidden_layers": config.n_layers,
        "num_attention_heads": config.n_heads,
        "intermediate_size": config.hidden_dim,
        "hidden_act": ACTIVATIONS[config.activation],
        "hidden_dropout_prob": config.dropout,
        "attention_probs_dropout_prob": (
            config.dropout if attention_dropout is None else attention_dropout
        ),
        "max_position_embeddings": config.max_len,
        "position_embedding_type": "absolute",
        "type_vocab_size": max(config.n_segments, 1),
        "layer_norm_eps": config.norm_eps,
    }


def _read(fields: Fields) -> dict[str, Any]:
    fields.only("position_embedding_type", "absolute")
    fields.only("is_decoder", False)
    fields.only("add_cross_attention", False)
    return {
        "d_model": fields.size("hidden_size"),
        "n_layers": fields.size("num_hidden_layers"),
        "n_heads": fields.size("num_attention_heads"),
        "d_ff": fields.size("intermediate_size"),
        "max_len": fields.size("max_position_embeddings"),
        "n_segments": fields.get("type_vocab_size", 2),
        "norm_eps": fields.get("layer_norm_eps", 1e-12),
        "activation": fields.choice("hidden_act", "gelu", ACTIVATIONS_READ),
        "dropout": fields.get("hidden_dropout_prob", 0.1),
        "attention_dropout": fields.get("attention_probs_dropout_prob", 0.1),
        "tie_embeddings": fields.get("tie_word_embeddings", True),
        "position": "learned",
        "norm": "layernorm",
        "norm_position": "post",
        "norm_gain": True,
        "norm_bias": True,
        "embedding_norm": True,
        "qk_norm": False,
        "linear_bias": True,
        "head_transform": True,
        "head_bias": True,
        "init": "normal",
    }


def _rules(config: TransformerConfig, objective: str, pooler: bool) -> Iterator[Rule | Filler]:
    here, there = "transformer.embeddings", "bert.embeddings"
    d_model = config.d_model
    yield Rule(f"{here}.token.weight", (f"{there}.word_embeddings.weight",))
    yield Rule(f"{here}.position.weight", (f"{there}.position_embeddings.weight",))
    if config.n_segments:
        yield Rule(f"{here}.segment.weight", (f"{there}.token_type_embeddings.weight",))
    else:
        yield Filler(f"{there}.token_type_embeddings.weight", (1, d_model), 0.0)
    yield from norm(f"{here}.norm", f"{there}.LayerNorm", config)
    for i in range(config.n_layers):
        yield from _block(f"transformer.blocks.{i}", f"bert.encoder.layer.{i}", config)
    if pooler:
        yield from linear("pooler.dense", "bert.pooler.dense", bias_here=True)
    if objective == "mlm":
        yield from _head(config)
    if objective == "classification":
        yield from linear("classifier", "classifier", bias_here=True)


def _block(here: str, there: str, config: TransformerConfig) -> Iterator[Rule | Filler]:
    bias, rows = config.linear_bias, head_rows(config)
    d_model = config.d_model
    parts = tuple(f"{there}.attention.self.{part}" for part in ("query", "key", "value"))
    yield from linear(f"{here}.attention.qkv", parts, rows, rows, bias, zeros=rows.sizes)
    for ours, theirs, size in (
        ("attention.output", "attention.output.dense", d_model),
        ("feed_forward.up", "intermediate.dense", config.hidden_dim),
        ("feed_forward.down", "output.dense", d_model),
    ):
        yield from linear(f"{here}.{ours}", f"{there}.{theirs}", bias_here=bias, zeros=(size,))
    yield from norm(f"{here}.attention_norm", f"{there}.attention.output.LayerNorm", config)
    yield from norm(f"{here}.feed_forward_norm", f"{there}.output.LayerNorm", config)


def _head(config: TransformerConfig) -> Iterator[Rule | Filler]:
    yield from linear("head.transform.0", f"{_PREDICTIONS}.transform.dense", bias_here=True)
    yield from norm("head.transform.2", f"{_PREDICTIONS}.transform.LayerNorm", config)
    biases: tuple[str, ...] = (f"{_PREDICTIONS}.bias",)
    if not config.tie_embeddings:
        # Tying covers the bias too: without it the decoder has its own, which is the one used.
        biases = (f"{_PREDICTIONS}.decoder.bias", *biases)
        yield Rule("head.decoder.weight", (f"{_PREDICTIONS}.decoder.weight",))
    if config.head_bias:
        yield Rule("head.decoder.bias", biases, Copied(len(biases)))
    else:
        assert config.vocab_size is not None
        for name in biases:
            yield Filler(name, (config.vocab_size,), 0.0)


FAMILY = Family(
    model_type="bert",
    classes={
        "mlm": "BertForMaskedLM",
        "encoder": "BertModel",
        "classification": "BertForSequenceClassification",
    },
    prefix="bert.",
    lm_head=f"{_PREDICTIONS}.",
    needs={
        "position": ("learned",),
        "position_scale": (None, 1.0),
        "norm": ("layernorm",),
        "norm_position": ("post",),
        "embedding_norm": (True,),
        "qk_norm": (False,),
        "activation": tuple(ACTIVATIONS),
        "n_kv_heads": lambda config: (None, config.n_heads),
        "head_transform": (True,),
    },
    write=_write,
    read=_read,
    rules=_rules,
    tied={
        f"{_PREDICTIONS}.decoder.weight": "bert.embeddings.word_embeddings.weight",
        f"{_PREDICTIONS}.decoder.bias": f"{_PREDICTIONS}.bias",
    },
    other_heads=("bert.pooler.", "cls.seq_relationship.", "classifier.", "qa_outputs."),
    ignored=re.compile(r"embeddings\.(position_ids|token_type_ids)$"),
    takes_segments=True,
    pooling="cls",
)
