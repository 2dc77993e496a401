"""Trained models, exported, in a process that has never heard of this project."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import peers
import pytest
import torch
from portables import padded_batch, shaken
from tiny import ROWS, fit, make_task

from pretrain.commands.classify import run as classify
from pretrain.commands.export import run as export
from pretrain.data.framing import Framing
from pretrain.data.labelled import Example
from pretrain.data.labels import Labels
from pretrain.data.tokenizer import Tokenizer
from pretrain.data.tokenizer_training import TokenizerRule, train_tokenizer
from pretrain.tasks import Classification, Encoder, save_task

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

# causal, its tokenizer, shape, whether it compares two texts, and its class there
CLASSIFIERS = {
    "bert-texts": (False, "wordpiece", peers.BERT, False, "BertForSequenceClassification"),
    "bert-pairs": (False, "wordpiece", peers.BERT, True, "BertForSequenceClassification"),
    "gpt2-texts": (True, "bpe", peers.GPT2, False, "GPT2ForSequenceClassification"),
    "gpt2-pairs": (True, "bpe", peers.GPT2, True, "GPT2ForSequenceClassification"),
}
SHORT = ["the cat", "a dog sat by the mat", "naïve café", "the door"]
SECONDS = ["the dog sat", "a", "the cat and the door", "a mat"]
NAMES = ("bad", "good", "so-so")


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


def classified(name, folder):
    """An exported classifier's case, and what ``pretrain classify`` says of each row."""
    causal, kind, network, pairs, _ = CLASSIFIERS[name]
    tokenizer = tokenizer_of(kind)
    torch.manual_seed(0)
    network = {**network, "vocab_size": tokenizer.vocab_size, "max_len": 64}
    labels = Labels("single", NAMES).to_dict()
    task = Classification(network, causal=causal, labels=labels, reads_pairs=pairs)
    task.configure_model()
    task.tokenizer_json, task.trained_len = tokenizer.to_json(), 64
    checkpoint = folder / f"{name}.ckpt"
    save_task(shaken(task), checkpoint)
    export([str(checkpoint), str(folder / name)])
    rows = [{"text": a, "pair": b} for a, b in zip(SHORT, SECONDS, strict=True)]
    (folder / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    field = ["--pair_field", "pair"] if pairs else []
    out = folder / f"{name}.jsonl"
    classify([str(checkpoint), "--file", str(folder / "rows.jsonl"), "--out", str(out), *field])
    said = [json.loads(line) for line in out.read_text().splitlines()]
    framing = Framing(tokenizer, 64, pairs)
    logits = []
    for a, b in zip(SHORT, SECONDS, strict=True):
        row = framing.rows([Example(a, "", b if pairs else None)])
        parts = row.padded(np.array([0]), int(row.lengths[0]), 0)
        batch = {key: torch.from_numpy(part) for key, part in parts.items()}
        if not (pairs and framing.has_frame):
            del batch["segment_ids"]
        with torch.no_grad():
            logits.append(task(**batch))
    case = {"objective": "classification", "texts": SHORT, "seconds": SECONDS if pairs else None,
            "logits": torch.cat(logits)}  # fmt: skip
    return case, said


@pytest.fixture(scope="module")
def exchange(tmp_path_factory):
    """What is known of each export: our tokenizers, our tasks (of a classifier what ``pretrain
    classify`` says), and what the other process says.
    """
    folder = tmp_path_factory.mktemp("exports")
    tokenizers, tasks, cases = {}, {}, {}
    for name, (objective, kind, network) in MODELS.items():
        tokenizers[name] = tokenizer_of(kind)
        checkpoint = folder / f"{name}.ckpt"
        tasks[name] = trained(objective, network, tokenizers[name], checkpoint)
        export([str(checkpoint), str(folder / name)])
        cases[name] = case_of(tasks[name], tokenizers[name])
    said = {}
    for name in CLASSIFIERS:
        cases[name], said[name] = classified(name, folder)
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
    return tokenizers, {**tasks, **said}, answer["cases"]


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


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_classifier_says_the_same_there(name, exchange):
    _, said, found = exchange
    there = found[name]
    assert there["loading"] == {}
    assert there["class"] == CLASSIFIERS[name][-1]
    assert there["names"] == list(NAMES)
    assert there["difference"] < 1e-5  # of a padded batch there from each row alone here
    for way in ("one by one", "in batches"):
        for theirs, ours in zip(there[way], said[name], strict=True):
            assert theirs["label"] == ours["label"]
            expected = ours["probabilities"][ours["label"]]
            assert theirs["score"] == pytest.approx(expected, abs=1e-5)
