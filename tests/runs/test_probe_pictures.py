import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch
from lightning.pytorch.loggers import CSVLogger
from tiny import KINDS, ROWS, fit, make_task

from pretrain.data.tokenizer_training import TokenizerRule, train_tokenizer
from pretrain.diagnostics import ForwardProbe
from pretrain.errors import UserError
from pretrain.runs.moments import Moments
from pretrain.runs.probe_pictures import ProbePictures

STEPS = 6


class Gallery(CSVLogger):
    """Keeps the pictures that it is given."""

    def __init__(self, folder):
        super().__init__(folder)
        self.shown = []

    def log_html(self, name, text, step):
        self.shown.append((name, step, text))


def texts_of(svg):
    nodes = ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")
    return ["".join(node.itertext()) for node in nodes]


def train(tmp_path, kind="clm", network=(), n_steps=STEPS, task=None, callbacks=None, **options):
    """Fit with validations after every second step; returns task, Trainer and logger."""
    task = task or make_task(kind, network=dict(network))
    rows = ROWS[kind]([6, 6])
    gallery = Gallery(tmp_path)
    ours = [ForwardProbe(every_n_steps=2), ProbePictures()] if callbacks is None else callbacks
    trainer = fit(
        task, [rows] * n_steps, [rows], logger=gallery, callbacks=ours, limit_val_batches=1,
        val_check_interval=2, default_root_dir=tmp_path, num_sanity_val_steps=1, **options,
    )  # fmt: skip
    return task, trainer, gallery


@pytest.mark.parametrize("kind", KINDS)
def test_pictures_are_drawn_at_step_one_and_at_each_validation(tmp_path, kind):
    _, _, gallery = train(tmp_path, kind, {"position": "learned"})
    names = ("entropy", "dead_units", "attention", "positions")
    expected = {(f"pictures/{name}", step) for name in names for step in (1, 2, 4, 6)}
    assert {(name, step) for name, step, _ in gallery.shown} == expected
    assert len(gallery.shown) == len(expected)
    files = {file.name: file.read_text("utf-8") for file in (tmp_path / "pictures").iterdir()}
    assert set(files) == {f"{name}.svg" for name in names}
    latest = {name: text for name, step, text in gallery.shown if step == 6}
    assert all(files[f"{name}.svg"] == latest[f"pictures/{name}"] for name in names)
    steps = [word for word in texts_of(files["attention.svg"]) if word.startswith("step")]
    assert steps == ["step 1", "step 2", "step 4", "step 6"]
    assert {"1", "2", "4", "6", "layer 1"} <= set(texts_of(files["dead_units.svg"]))


@pytest.mark.parametrize("options", [{"dropout": 0.2}, {"activation": "swiglu"}, {"n_experts": 2}])
def test_weights_are_bit_equal_with_and_without_them(tmp_path, options):
    pictured, _, gallery = train(tmp_path, network=options)
    plain, _, _ = train(tmp_path, network=options, callbacks=[])
    assert gallery.shown
    for ours, theirs in zip(pictured.parameters(), plain.parameters(), strict=True):
        assert torch.equal(ours, theirs)
    assert pictured.training


def test_a_run_that_is_gone_on_with_keeps_its_moments(tmp_path):
    whole, _, gallery = train(tmp_path / "whole")
    _, trainer, _ = train(tmp_path / "parts", n_steps=4)
    trainer.save_checkpoint(tmp_path / "four.ckpt")
    task = make_task("clm")
    rest, _, continued = train(tmp_path / "rest", task=task, ckpt_path=tmp_path / "four.ckpt")
    for ours, theirs in zip(whole.parameters(), rest.parameters(), strict=True):
        assert torch.equal(ours, theirs)
    assert {step for _, step, _ in continued.shown} == {6}
    films = [
        {name: text for name, step, text in shown if step == 6}["pictures/attention"]
        for shown in (gallery.shown, continued.shown)
    ]
    assert films[0] == films[1]


def test_a_compiled_network_is_looked_at_and_not_compiled_again(tmp_path):
    compilations = []

    def backend(graph, inputs):
        compilations.append(graph)
        return graph.forward

    task = make_task("clm")
    task.transformer.compile(backend=backend)
    _, _, gallery = train(tmp_path, task=task)
    assert ("pictures/attention", 6) in {(name, step) for name, step, _ in gallery.shown}
    assert len(compilations) <= 2  # training, and validation without gradients


def test_with_accumulation_step_one_is_drawn_once(tmp_path):
    _, _, gallery = train(
        tmp_path, accumulate_grad_batches=3, max_steps=2, callbacks=[ProbePictures()], n_steps=6
    )
    at_one = [name for name, step, _ in gallery.shown if step == 1]
    # Validations come after micro-batches 2, 4 and 6, of which the middle one is of step 1 too.
    assert at_one == ["pictures/attention"] * 2


def test_text_and_heads_may_be_given(tmp_path):
    tokenizer = train_tokenizer(["the cat sat on the mat."] * 3, TokenizerRule("bpe", 300))
    task = make_task("clm", network={"vocab_size": tokenizer.vocab_size})
    task.tokenizer_json = tokenizer.to_json()
    pictures = ProbePictures("the cat", [[1, 0], [1, 1]], folder=tmp_path / "own")
    train(tmp_path, task=task, callbacks=[pictures])
    words = texts_of((tmp_path / "own" / "attention.svg").read_text("utf-8"))
    heads = [word for word in words if word.startswith("layer")]
    assert heads == ["layer 1, head 0", "layer 1, head 1"]
    assert {"the", "␣cat"} <= set(words)


def test_maps_of_another_sentence_are_not_mixed_in():
    pictures = ProbePictures()
    pictures._take({"input_ids": [1, 2]})
    pictures._moments.add(1, {})
    pictures._take({"input_ids": [1, 2]})
    assert len(pictures._moments.kept) == 1
    pictures._take({"input_ids": [1, 3]})
    assert pictures._moments.kept == []


def test_filler_is_left_out_of_the_sentence(tmp_path):
    pictures = ProbePictures()
    task, rows = make_task("mlm"), ROWS["mlm"]([4, 6], seq=6)
    fit(task, [rows], [rows], callbacks=[pictures], default_root_dir=tmp_path, limit_val_batches=1)
    assert pictures.state_dict()["row"] == {"input_ids": rows["input_ids"][0, :4].tolist()}


def test_a_folder_that_cannot_be_written_does_not_end_a_training(tmp_path, capsys):
    (tmp_path / "pictures").write_text("a file")
    _, trainer, gallery = train(tmp_path)
    assert trainer.global_step == STEPS
    assert gallery.shown
    assert "A picture is left out" in capsys.readouterr().out


@pytest.mark.parametrize("heads", [[[2, 0]], [[0]], [[0, -1]]])
def test_a_head_that_is_not_there_is_named(tmp_path, heads):
    with pytest.raises(UserError, match="pair of layer and head"):
        train(tmp_path, callbacks=[ProbePictures(heads=heads)])


def test_a_sentence_needs_two_tokens():
    with pytest.raises(UserError, match="at least 2"):
        ProbePictures(n_tokens=1)


def test_moments_are_the_first_the_latest_and_such_as_lie_between():
    moments = Moments(8)
    for step in [1, *range(500, 10_001, 500)]:
        moments.add(step, {})
        moments.add(step, {"again": torch.ones(1)})
        assert len(moments.kept) <= 8
        assert moments.kept[-1].step == step
        assert moments.kept[0].step == 1
    steps = [moment.step for moment in moments.kept]
    assert steps == sorted(set(steps))
    assert steps[1] <= 1000  # early ones are kept
    assert all("again" in moment.seen for moment in moments.kept)
    copy = Moments(8)
    copy.load(moments.state())
    assert copy.kept == moments.kept


@pytest.mark.parametrize("strategy", ["ddp", "fsdp2"])
def test_the_first_of_two_ranks_draws_what_it_has(tmp_path, strategy):
    script = Path(__file__).with_name("two_ranks_with_pictures.py")
    paths = [str(script.parents[1]), str(script.parents[2])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, str(script), str(tmp_path), strategy]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    drawn = {file.name for file in (tmp_path / "pictures").iterdir()}
    both = {"entropy.svg", "dead_units.svg"}
    assert drawn == (both if strategy == "fsdp2" else both | {"attention.svg"})
    assert ("No attention maps" in done.stdout) == (strategy == "fsdp2")
