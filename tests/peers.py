"""The same network here and in ``transformers``: configurations and weights side by side."""

import torch
import transformers

from pretrain.model import TransformerConfig

VOCAB, D, LAYERS, HEADS, MAX_LEN = 97, 32, 2, 4, 24

BERT = {
    "vocab_size": VOCAB, "d_model": D, "n_layers": LAYERS, "n_heads": HEADS, "max_len": MAX_LEN,
    "position": "learned", "n_segments": 2, "norm": "layernorm", "norm_position": "post",
    "norm_eps": 1e-12, "norm_gain": True, "norm_bias": True, "qk_norm": False,
    "activation": "gelu", "linear_bias": True, "tie_embeddings": True, "head_transform": True,
    "head_bias": True, "init": "normal",
}  # fmt: skip
GPT2 = {
    "vocab_size": VOCAB, "d_model": D, "n_layers": LAYERS, "n_heads": HEADS, "max_len": MAX_LEN,
    "position": "learned", "norm": "layernorm", "norm_eps": 1e-5, "norm_gain": True,
    "norm_bias": True, "embedding_norm": False, "qk_norm": False, "activation": "gelu_tanh",
    "linear_bias": True, "tie_embeddings": True, "init": "scaled_residual",
}  # fmt: skip


def bert_config():
    return TransformerConfig(**BERT)


def gpt2_config():
    return TransformerConfig(**GPT2)


def peer_bert(**options):
    """A BertForMaskedLM of that shape, without dropout, its weights large enough to matter."""
    config = transformers.BertConfig(
        vocab_size=VOCAB, hidden_size=D, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
        intermediate_size=4 * D, max_position_embeddings=MAX_LEN, hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0, initializer_range=0.1, pad_token_id=None, **options,
    )  # fmt: skip
    torch.manual_seed(3)
    return transformers.BertForMaskedLM(config)


def peer_gpt2(**options):
    """A GPT2LMHeadModel of that shape, without dropout."""
    config = transformers.GPT2Config(
        vocab_size=VOCAB, n_embd=D, n_layer=LAYERS, n_head=HEADS, n_positions=MAX_LEN,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, initializer_range=0.1,
        bos_token_id=None, eos_token_id=None, **options,
    )  # fmt: skip
    torch.manual_seed(3)
    return transformers.GPT2LMHeadModel(config)


def _llama_shape(**options):
    return {
        "vocab_size": VOCAB, "hidden_size": D, "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS, "intermediate_size": 3 * D,
        "max_position_embeddings": MAX_LEN, "initializer_range": 0.1, "pad_token_id": None,
        "bos_token_id": None, "eos_token_id": None, **options,
    }  # fmt: skip


def peer_llama(**options):
    """A LlamaForCausalLM; options such as ``num_key_value_heads`` go to its configuration."""
    torch.manual_seed(3)
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**_llama_shape(**options)))


def peer_nanochat(**options):
    """A NanoChatForCausalLM without its cap on the logits, which nothing here computes."""
    options = {"final_logit_softcapping": None, **options}
    torch.manual_seed(3)
    config = transformers.NanoChatConfig(**_llama_shape(**options))
    return transformers.NanoChatForCausalLM(config)


def peer_eurobert(**options):
    """A EuroBertForMaskedLM."""
    torch.manual_seed(3)
    config = transformers.EuroBertConfig(**_llama_shape(**options))
    return transformers.EuroBertForMaskedLM(config)


def weights_of_bert(peer):
    """The peer's tensors under our names, for a task's ``load_state_dict(strict=True)``."""
    theirs = peer.state_dict()
    ours = {
        "transformer.embeddings.token.weight": "bert.embeddings.word_embeddings.weight",
        "transformer.embeddings.position.weight": "bert.embeddings.position_embeddings.weight",
        "transformer.embeddings.segment.weight": "bert.embeddings.token_type_embeddings.weight",
        "head.decoder.weight": "bert.embeddings.word_embeddings.weight",
        "head.decoder.bias": "cls.predictions.bias",
    }
    for kind in ("weight", "bias"):
        transform = "cls.predictions.transform"
        ours[f"transformer.embeddings.norm.{kind}"] = f"bert.embeddings.LayerNorm.{kind}"
        ours[f"head.transform.0.{kind}"] = f"{transform}.dense.{kind}"
        ours[f"head.transform.2.{kind}"] = f"{transform}.LayerNorm.{kind}"
    weights = {our: theirs[their] for our, their in ours.items()}
    pairs = {
        "attention.output": "attention.output.dense",
        "attention_norm": "attention.output.LayerNorm",
        "feed_forward.up": "intermediate.dense",
        "feed_forward.down": "output.dense",
        "feed_forward_norm": "output.LayerNorm",
    }
    for i in range(LAYERS):
        here, there = f"transformer.blocks.{i}", f"bert.encoder.layer.{i}"
        for kind in ("weight", "bias"):
            qkv = [theirs[f"{there}.attention.self.{n}.{kind}"] for n in ("query", "key", "value")]
            weights[f"{here}.attention.qkv.{kind}"] = torch.cat(qkv)
            for our, their in pairs.items():
                weights[f"{here}.{our}.{kind}"] = theirs[f"{there}.{their}.{kind}"]
    return weights


def weights_of_gpt2(peer):
    """The same for GPT-2, whose matrices stand transposed (inputs x outputs)."""
    theirs = peer.state_dict()
    weights = {
        "transformer.embeddings.token.weight": theirs["transformer.wte.weight"],
        "head.decoder.weight": theirs["transformer.wte.weight"],
        "transformer.embeddings.position.weight": theirs["transformer.wpe.weight"],
    }
    pairs = {
        "attention_norm": "ln_1",
        "attention.qkv": "attn.c_attn",
        "attention.output": "attn.c_proj",
        "feed_forward_norm": "ln_2",
        "feed_forward.up": "mlp.c_fc",
        "feed_forward.down": "mlp.c_proj",
    }
    for kind in ("weight", "bias"):
        weights[f"transformer.final_norm.{kind}"] = theirs[f"transformer.ln_f.{kind}"]
        for i in range(LAYERS):
            for our, their in pairs.items():
                tensor = theirs[f"transformer.h.{i}.{their}.{kind}"]
                tensor = tensor.mT if tensor.ndim == 2 else tensor
                weights[f"transformer.blocks.{i}.{our}.{kind}"] = tensor
    return weights
