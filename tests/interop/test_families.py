"""Each family against ``transformers`` on the same weights, float32, in both directions."""

import json

import peers
import pytest
import torch
import transformers
from portables import PEERS, exported, largest_difference, padded_batch, shaken, task_of
from safetensors.torch import load_file
from tiny import make_task

from pretrain.interop import export_folder, read_folder
from pretrain.interop.families import FAMILIES
from pretrain.interop.family import choose
from pretrain.interop.rules import to_theirs


@pytest.fixture(scope="module", params=PEERS)
def exchange(request, tmp_path_factory):
    """(the peer, its folder, our task from it, the folder that our export makes of that)."""
    folder = tmp_path_factory.mktemp("exchange")
    peer = shaken(PEERS[request.param]())
    peer.save_pretrained(folder / "theirs")
    model, _ = read_folder(folder / "theirs")
    assert export_folder(model, folder / "ours", {}) == type(peer).__name__
    return peer, folder / "theirs", model, folder / "ours"


def test_what_is_imported_computes_the_same(exchange):
    peer, _, model, _ = exchange
    task = task_of(model)
    ids, mask = padded_batch()
    with torch.no_grad():
        theirs = peer(ids, attention_mask=mask.long(), output_hidden_states=True)
        hidden = task.transformer(ids, mask)
        logits = task(ids, mask)
    assert largest_difference(hidden[mask], theirs.hidden_states[-1][mask]) < 1e-5
    assert largest_difference(logits[mask], theirs.logits[mask]) < 1e-5


def test_gradients_of_every_weight_agree(exchange):
    peer, _, model, _ = exchange
    task = task_of(model)
    ids, mask = padded_batch()
    peer.zero_grad()
    peer(ids, attention_mask=mask.long()).logits[mask].square().mean().backward()
    task(ids, mask)[mask].square().mean().backward()
    # The same rules that name weights name their gradients.
    rules = choose(model, FAMILIES).rules(model.config, model.objective, False)
    ours = to_theirs(rules, {name: p.grad for name, p in task.named_parameters()})
    theirs = {name: p.grad for name, p in peer.named_parameters() if p.grad is not None}
    assert theirs.keys() <= ours.keys()
    for name, gradient in theirs.items():
        assert largest_difference(ours[name], gradient) < 1e-4, name


def test_what_is_exported_loads_completely_and_computes_the_same(exchange):
    peer, _, _, folder = exchange
    back, info = type(peer).from_pretrained(folder, output_loading_info=True)
    assert not any(info.values())
    assert back.config.tie_word_embeddings == peer.config.tie_word_embeddings
    tied = back.get_output_embeddings().weight is back.get_input_embeddings().weight
    assert tied == peer.config.tie_word_embeddings
    ids, mask = padded_batch()
    with torch.no_grad():
        here = back.eval()(ids, attention_mask=mask.long()).logits
        there = peer(ids, attention_mask=mask.long()).logits
    assert torch.equal(here[mask], there[mask])


def test_there_and_back_again_every_bit_is_the_same(exchange, tmp_path):
    _, theirs, _, ours = exchange
    again = tmp_path / "again"
    export_folder(read_folder(ours)[0], again, {})
    first, second, original = (
        load_file(folder / "model.safetensors") for folder in (ours, again, theirs)
    )
    assert first.keys() == second.keys() >= original.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)
    if "cls.predictions.decoder.bias" in original:
        del original["cls.predictions.bias"]  # the class keeps it, and computes with the other
    assert all(torch.equal(first[name], original[name]) for name in original)
    assert (ours / "config.json").read_text() == (again / "config.json").read_text()


def test_a_tied_head_is_not_saved_a_second_time(exchange):
    peer, _, _, folder = exchange
    names = load_file(folder / "model.safetensors").keys()
    heads = [name for name in names if name in ("lm_head.weight", "cls.predictions.decoder.weight")]
    assert len(heads) == (0 if peer.config.tie_word_embeddings else 1)
    assert not any("_orig_mod" in name for name in names)


@pytest.mark.parametrize(
    ("kind", "network", "class_name"),
    [
        # Without biases, gains and segments: what only the peer has leaves its result alone.
        ("mlm", {"norm_bias": False, "norm_gain": False, "linear_bias": False, "n_segments": 0,
                 "head_bias": False}, "BertForMaskedLM"),
        ("mlm", {"activation": "gelu_tanh", "norm_eps": 1e-6, "d_ff": 40}, "BertForMaskedLM"),
        ("mlm", {"tie_embeddings": False, "head_bias": False}, "BertForMaskedLM"),
    ],
)  # fmt: skip
def test_a_bert_of_another_shape_computes_the_same_there(kind, network, class_name, tmp_path):
    task = shaken(make_task(kind, network={**peers.BERT, **network}))
    assert exported(task, tmp_path / "x") == class_name
    compare(task, tmp_path / "x")


@pytest.mark.parametrize(
    ("network", "class_name"),
    [
        # Our default GPT.
        ({}, "NanoChatForCausalLM"),
        ({"rotary_scaling": "linear", "rotary_factor": 4.0, "d_ff": 24}, "NanoChatForCausalLM"),
        ({"activation": "gelu", "n_kv_heads": 2, "rotary_base": 100.0}, "NanoChatForCausalLM"),
        ({"activation": "swiglu", "embedding_norm": False, "qk_norm": False}, "LlamaForCausalLM"),
        ({"activation": "swiglu", "embedding_norm": False, "qk_norm": False, "norm_gain": True,
          "rotary_scaling": "ntk", "rotary_factor": 2.0}, "LlamaForCausalLM"),
        ({"position": "learned", "norm": "layernorm", "embedding_norm": False, "qk_norm": False},
         "GPT2LMHeadModel"),
    ],
)  # fmt: skip
def test_a_gpt_of_our_own_shape_computes_the_same_there(network, class_name, tmp_path):
    shape = {"vocab_size": 97, "d_model": 32, "n_heads": 4}
    task = shaken(make_task("clm", network={**shape, **network}))
    assert exported(task, tmp_path / "x") == class_name
    compare(task, tmp_path / "x")


def test_the_modern_bert_that_exports_computes_the_same_there(tmp_path):
    network = {"vocab_size": 97, "norm_gain": True, "embedding_norm": False, "qk_norm": False,
               "activation": "swiglu"}  # fmt: skip
    task = shaken(make_task("mlm", network=network))
    assert exported(task, tmp_path / "x") == "EuroBertForMaskedLM"
    compare(task, tmp_path / "x")


def compare(task, folder):
    name = json.loads((folder / "config.json").read_text())["architectures"][0]
    peer, info = getattr(transformers, name).from_pretrained(folder, output_loading_info=True)
    assert not any(info.values())
    ids, mask = padded_batch()
    with torch.no_grad():
        theirs = peer.eval()(ids, attention_mask=mask.long(), output_hidden_states=True)
        hidden, logits = task.transformer(ids, mask), task(ids, mask)
    assert largest_difference(hidden[mask], theirs.hidden_states[-1][mask]) < 1e-5
    assert largest_difference(logits[mask], theirs.logits[mask]) < 1e-5
