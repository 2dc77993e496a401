"""Trained models, exported, in a process that has never heard of this project."""

import json
import os
import subprocess
import sys
from pathlib import Path

import peers
import pytest
import torch
from portables import padded_batch
from tiny import ROWS, fit, make_task

from pretrain.commands.export import run as export
from pretrain.data.tokenizer import Tokenizer
from pretrain.data.tokenizer_training import TokenizerRule, train_tokenizer
from pretrain.tasks import Encoder, save_task

CORPUS = [
    "the cat sat on the mat, and the dog sat by the door.",
    "A café in Zürich — naïve, isn't it? 42 €!",
    "你好，世界。 emoji 😀 and ﬁne ligatures",
]
# None holds the name of a special token: a corpus can't forge one here, elsewhere it can.
TEXTS = [
    "", " ", "the cat", "  leading and trailing  ", "tab\tand\nline", "CRLF\r\nnext",
    "a\u2028b\u2029c", "cafe\u0301 is café", "Z\u0351\u036b\u0343algo", "x" * 300, "ﬁne ﬂow",
    "\U0001f600 \U0001f469\u200d\U0001f467\ufe0f \U0001f3f3\ufe0f\u200d\U0001f308",
    "你好世界", "日本語テキスト", "\u0627\u0644\u0639\u064c", "\u00a0non\u2003breaking\u200bspaces",
    "\ufeffbom", "CamelCase_and-dashes!!!", "I'm, we've; it's", "null \x00 bell \x07 \ufffd",
    "\u0130stanbul \u01c5 \u1e9e", "[MAS K] <|end|>",
]  # fmt: skip
LLAMA = {"activation": "swiglu", "embedding_norm": False, "qk_norm": False, "norm_gain": True}
MODELS = {
    "bert": ("mlm", "wordpiece", {**peers.BERT, "d_model": 16, "n_heads": 2}),
    "eurobert": ("mlm", "wordpiece", LLAMA),
    "gpt": ("clm", "bpe", {"init": "normal"}),
    "gpt2": ("clm", "bpe", peers.GPT2),
    "llama-tied": ("clm", "char", {**LLAMA, "tie_embeddings": True, "n_kv_heads": 1}),
    "encoder": ("encoder", "wordpiece", peers.BERT),
}


def tokenizer_of(kind):
    return train_tokenizer(CORPUS, TokenizerRule(kind, vocab_size=300))


def trained(objective, network, tokenizer, path):
    """A task after a few steps, as a checkpoint at ``path``."""
    network = {**network, "vocab_size": tokenizer.vocab_size + 5}
    if objective == "encoder":
        task = Encoder(make_task("mlm", network=network).config, pooler=True)
        task.configure_model()
    else:
        task = make_task(objective, network=network)
    task.tokenizer_json, task.trained_len = tokenizer.to_json(), 24
    if objective == "encoder":
        save_task(task, path)
    else:
        fit(task, [ROWS[objective]([9, 7])] * 5).save_checkpoint(path)
    return task.eval()


def case_of(task, tokenizer):
    ids, mask = padded_batch(tokenizer.vocab_size)
    with torch.no_grad():
        states = task(ids, mask)
    return {"objective": task.objective, "input_ids": ids, "attention_mask": mask,
            "states": states, "texts": TEXTS}  # fmt: skip


@pytest.fixture(scope="module")
def exchange(tmp_path_factory):
    """(our tokenizers, our tasks, what the other process says of each export)."""
    folder = tmp_path_factory.mktemp("exports")
    tokenizers, tasks, cases = {}, {}, {}
    for name, (objective, kind, network) in MODELS.items():
        tokenizers[name] = tokenizer_of(kind)
        checkpoint = folder / f"{name}.ckpt"
        tasks[name] = trained(objective, network, tokenizers[name], checkpoint)
        export([str(checkpoint), str(folder / name)])
        cases[name] = case_of(tasks[name], tokenizers[name])
    torch.save(cases, folder / "exchange.pt")
    script = Path(__file__).with_name("load_exports.py")
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-I", str(script), str(folder)],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**environment, "HF_HUB_OFFLINE": "1"},
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    answer = json.loads(done.stdout.splitlines()[-1])
    assert not answer["knows_us"]
    return tokenizers, tasks, answer["cases"]


@pytest.mark.parametrize("name", MODELS)
def test_it_loads_completely_and_computes_the_same(name, exchange):
    _, tasks, found = exchange
    assert found[name]["loading"] == {}
    assert found[name]["difference"] < 1e-5
    if tasks[name].objective != "encoder":
        assert found[name]["tied"] == tasks[name].config.tie_embeddings
    assert found[name]["longest"] == 24


@pytest.mark.parametrize("name", MODELS)
def test_its_tokenizer_gives_the_same_ids(name, exchange):
    tokenizers, _, found = exchange
    ours: Tokenizer = tokenizers[name]
    for text, theirs in zip(TEXTS, found[name]["ids"], strict=True):
        ids = ours.encode_prompt(text)
        framed = ids if ours.cls_id is None else [ours.cls_id, *ids, ours.sep_id]
        assert theirs == framed, repr(text)
        if ours.cls_id is None:
            assert ours.encode_documents([text])[0].tolist() == ids


@pytest.mark.parametrize("name", MODELS)
def test_its_configuration_names_the_special_tokens(name, exchange):
    tokenizers, _, found = exchange
    ours, config = tokenizers[name], found[name]["config"]
    assert config["mask_token_id"] == ours.mask_id
    assert config["eos_token_id"] == ours.eos_id
    assert config["pad_token_id"] == (ours.eos_id if ours.pad_id is None else ours.pad_id)


def test_the_usual_pipelines_work(exchange):
    _, _, found = exchange
    for name, (objective, _, _) in MODELS.items():
        if objective == "mlm":
            assert len(found[name]["filled"]) == 3
        if objective == "clm":
            assert [text[:1] for text in found[name]["written"]] == ["t", "a"]
