"""Classifiers against the classes of ``transformers``, on batches that its own tokenizer makes."""

import json

import peers
import pytest
import torch
import transformers
from portables import exported, largest_difference, portable_of, shaken, task_of

from pretrain.data.framing import Framing
from pretrain.data.labelled import Example
from pretrain.data.labels import Labels
from pretrain.data.tokenizer_training import TokenizerRule, train_tokenizer
from pretrain.errors import UserError
from pretrain.interop import read_folder
from pretrain.tasks import Classification, FinetuningConfig
from pretrain.tasks.labelling import label_examples

TEXTS = ["the cat sat on the mat", "a dog", "the cat, the dog and the mat sat by the door", "door"]
SECONDS = ["the dog sat", "by the mat the cat sat, and the dog sat by the door", "a", "the mat"]
LENGTH = 96
SINGLE = Labels("single", ("negative", "neutral", "positive"))
MULTI = Labels("multi", ("a", "b"))
NUMBER = Labels("regression")
LLAMA = {"position": "rotary", "norm": "rmsnorm", "norm_gain": True, "embedding_norm": False,
         "qk_norm": False, "activation": "swiglu", "d_model": 32, "n_heads": 4, "n_layers": 2,
         }  # fmt: skip
FAMILIES = {
    "bert": ({**peers.BERT}, False, "wordpiece", "BertForSequenceClassification"),
    "gpt2": ({**peers.GPT2}, True, "bpe", "GPT2ForSequenceClassification"),
    "gpt2 framed": ({**peers.GPT2}, True, "wordpiece", "GPT2ForSequenceClassification"),
    "llama": ({**LLAMA, "n_kv_heads": 2}, True, "char", "LlamaForSequenceClassification"),
}


def classifier(
    network, causal, tokenizer, labels=SINGLE, pairs=False, trained_len=LENGTH, **options
):
    """A classifier with random weights that all matter."""
    ours = train_tokenizer(TEXTS + SECONDS, TokenizerRule(tokenizer, vocab_size=300))
    torch.manual_seed(0)
    task = Classification(
        {**network, "vocab_size": ours.vocab_size, "max_len": LENGTH, "dropout": 0.1},
        causal=causal, labels=labels.to_dict(), reads_pairs=pairs, **options,
    )  # fmt: skip
    task.configure_model()
    task.tokenizer_json, task.trained_len = ours.to_json(), trained_len
    return shaken(task), ours


def batch_of(tokenizer, pairs, max_len=LENGTH):
    """What our own rows of the texts are."""
    framing = Framing(tokenizer, max_len, pairs)
    examples = [Example(a, "x", b if pairs else None) for a, b in zip(TEXTS, SECONDS, strict=True)]
    rows = framing.rows(examples)
    parts = rows.padded(torch.arange(4).numpy(), int(rows.lengths.max()), framing.filler_id)
    batch = {name: torch.from_numpy(part) for name, part in parts.items()}
    if not (pairs and framing.has_frame):
        del batch["segment_ids"]
    return batch


@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("max_len", [LENGTH, 11])
def test_texts_have_the_same_ids_and_logits_there(name, pairs, max_len, tmp_path):
    *recipe, class_name = FAMILIES[name]
    task, ours = classifier(*recipe, pairs=pairs, trained_len=max_len)
    assert exported(task, tmp_path / "x") == class_name
    peer, info = transformers.AutoModelForSequenceClassification.from_pretrained(
        tmp_path / "x", output_loading_info=True
    )
    assert type(peer).__name__ == class_name
    assert not any(info.values())
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "x")
    inputs = theirs(
        TEXTS, SECONDS if pairs else None, padding=True, truncation=True, return_tensors="pt"
    )
    batch = batch_of(ours, pairs, max_len)
    mask = batch["attention_mask"]
    assert (mask.sum(1).max() == max_len) == (max_len == 11)
    assert torch.equal(inputs["attention_mask"], mask.long())
    assert torch.equal(inputs["input_ids"][mask], batch["input_ids"][mask])
    if "token_type_ids" in inputs:
        segments = batch.get("segment_ids", torch.zeros_like(batch["input_ids"]))
        assert torch.equal(inputs["token_type_ids"], segments)
    with torch.no_grad():
        there, here = peer.eval()(**inputs).logits, task.logits(batch)
    assert here.shape == (4, 3)
    assert largest_difference(here, there) < 1e-5
    assert float(here.std(0).min()) > 1e-3  # the texts are told apart


@pytest.mark.parametrize("name", ["bert", "gpt2"])
@pytest.mark.parametrize("labels", [SINGLE, MULTI, NUMBER], ids=lambda labels: labels.kind)
def test_the_outputs_mean_the_same_there(name, labels, tmp_path):
    *recipe, _ = FAMILIES[name]
    task, _ = classifier(*recipe, labels=labels)
    exported(task, tmp_path / "x")
    config = json.loads((tmp_path / "x" / "config.json").read_text())
    assert config["num_labels"] == labels.n_outputs
    assert list(config["id2label"].values()) == list(labels.names or ["LABEL_0"])
    pipe = transformers.pipeline("text-classification", model=str(tmp_path / "x"), top_k=None)
    ours = label_examples(task, [Example(text, "x") for text in TEXTS])
    for row, theirs in zip(ours, pipe(TEXTS, batch_size=4), strict=True):
        scores = {one["label"]: one["score"] for one in theirs}
        expected = row.get("probabilities") or {"LABEL_0": row["value"]}
        assert scores == pytest.approx(expected, abs=1e-5)
        if labels.kind == "single":
            assert theirs[0]["label"] == row["label"]


def test_a_bert_trained_further_there_has_the_same_dropout(tmp_path):
    *recipe, _ = FAMILIES["bert"]
    task, _ = classifier(*recipe, finetuning=FinetuningConfig(head_dropout=0.25))
    exported(task, tmp_path / "x")
    peer = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "x")
    assert peer.dropout.p == 0.25
    assert peer.config.problem_type == "single_label_classification"


@pytest.mark.parametrize("labels", [SINGLE, MULTI, NUMBER], ids=lambda labels: labels.kind)
@pytest.mark.parametrize("name", FAMILIES)
def test_there_and_back_again_it_is_the_same(name, labels, tmp_path):
    *recipe, _ = FAMILIES[name]
    task, _ = classifier(*recipe, labels=labels)
    exported(task, tmp_path / "x")
    model, notes = read_folder(tmp_path / "x")
    assert notes == [f"Labels ({labels.kind}): {', '.join(labels.names) or 'a number'}."]
    before = portable_of(task)
    assert (model.classifier.labels, model.classifier.pooling) == (labels, task.pooling)
    assert model.state.keys() == before.state.keys()
    assert all(torch.equal(model.state[key], before.state[key]) for key in before.state)
    examples = [Example(text, "x") for text in TEXTS]
    back = task_of(model)
    assert label_examples(back, examples) == label_examples(task, examples)
    # What it reads is not said in the folder: pairs are taken too.
    assert len(label_examples(back, [Example(TEXTS[0], "x", SECONDS[0])])) == 1


@pytest.mark.parametrize(
    ("network", "options", "words"),
    [
        (peers.BERT, {"pooling": "mean"}, "BertForSequenceClassification, the nearest, needs "
         "pooling cls (it is mean)."),
        (peers.GPT2, {"causal": True, "pooling": "mean"}, "GPT2ForSequenceClassification, the "
         "nearest, needs pooling last (it is mean)."),
        # Our default GPT.
        ({}, {"causal": True}, "NanoChatForCausalLM has this block stack, but no classifier like "
         "this beside it; LlamaForSequenceClassification, the nearest, needs embedding_norm false "
         "(it is true), qk_norm false (it is true), activation swiglu (it is relu2)."),
        (LLAMA, {}, "EuroBertForMaskedLM has this block stack, but no classifier like this beside "
         "it; BertForSequenceClassification, the nearest, needs position learned (it is rotary)"),
    ],
)  # fmt: skip
def test_what_no_class_computes_is_refused_by_name_with_what_would_fit(
    network, options, words, tmp_path
):
    task, _ = classifier(network, options.pop("causal", False), "bpe", **options)
    with pytest.raises(UserError) as error:
        exported(task, tmp_path / "x")
    assert words in str(error.value)
    assert list(tmp_path.iterdir()) == []


def saved(tmp_path, labels=None, **config):
    """A folder that ``transformers`` wrote, with changes to its config.json; and its model."""
    torch.manual_seed(3)
    settings = {**peers.peer_bert().config.to_dict(), **({"num_labels": labels} if labels else {})}
    peer = transformers.BertForSequenceClassification(transformers.BertConfig(**settings))
    shaken(peer).save_pretrained(tmp_path / "x")
    path = tmp_path / "x" / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **config}))
    return peer, tmp_path / "x"


@pytest.mark.parametrize(
    ("n_labels", "config", "labels"),
    [
        (2, {}, Labels("single", ("LABEL_0", "LABEL_1"))),
        (2, {"id2label": {"1": "a", "0": "b"}}, Labels("single", ("b", "a"))),
        (1, {}, NUMBER),
        (2, {"problem_type": "multi_label_classification"},
         Labels("multi", ("LABEL_0", "LABEL_1"))),
    ],
)  # fmt: skip
def test_a_published_classifier_is_taken_over_with_its_labels(n_labels, config, labels, tmp_path):
    peer, folder = saved(tmp_path, n_labels, hidden_dropout_prob=0.2, **config)
    model, _ = read_folder(folder)
    assert model.classifier.labels == labels
    assert model.classifier.dropout == 0.2
    ids = torch.randint(0, peers.VOCAB, (2, 9))
    mask = torch.tensor([[1] * 9, [1] * 5 + [0] * 4]).bool()
    segments = torch.tensor([[0] * 4 + [1] * 5] * 2)
    with torch.no_grad():
        there = peer(ids, attention_mask=mask.long(), token_type_ids=segments).logits
        here = task_of(model)(ids, mask, segments)
    assert largest_difference(here, there) < 1e-5


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"id2label": {"0": "a"}}, r"config\.json: id2label doesn't name the ids 0 to 1"),
        ({"id2label": {"0": "a", "1": "a"}}, "id2label gives one name to several classes"),
        ({"problem_type": "regression"}, "problem_type is 'regression', but .* 2 outputs"),
        ({"problem_type": "ranking"}, "problem_type is 'ranking'"),
    ],
)
def test_labels_that_do_not_fit_their_outputs_are_refused(config, words, tmp_path):
    _, folder = saved(tmp_path, 2, **config)
    with pytest.raises(UserError, match=words):
        read_folder(folder)


def test_the_head_of_pretraining_beside_a_gpts_classifier_is_dropped(tmp_path):
    torch.manual_seed(3)
    config = peers.peer_gpt2(tie_word_embeddings=False).config
    peer = transformers.GPT2ForSequenceClassification(config)
    tensors = {**peer.state_dict(), "lm_head.weight": torch.ones(peers.VOCAB, peers.D)}
    peer.save_pretrained(tmp_path / "x", state_dict=tensors)
    model, notes = read_folder(tmp_path / "x")
    assert model.objective == "classification"
    assert "Dropped heads: lm_head." in notes
