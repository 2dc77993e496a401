"""A longer context than the trained one: the report in small, and a warm start from the command."""

import importlib.util
import random
import sys
from pathlib import Path

import pytest
import torch

from pretrain.cli import main
from pretrain.model import TransformerConfig
from pretrain.tasks import CausalLM
from pretrain.tasks.checkpoint_file import read_checkpoint

SCRIPT = Path(__file__).parents[2] / "scripts" / "context_extension.py"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("context_extension", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look their annotations up
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    draw = random.Random(1)
    words = ["tea", "ship", "river", "stone", "wind", "bread"]
    path = tmp_path_factory.mktemp("corpus") / "words.txt"
    path.write_text(" ".join(draw.choices(words, k=2000)) + "\n")
    return path


@pytest.fixture(autouse=True)
def _own_cache(corpus, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(corpus.parent / "cache"))
    monkeypatch.setenv("WANDB_MODE", "disabled")


def test_the_report_has_every_scheme_at_every_length_for_the_same_targets(script, corpus):
    plan = script.Plan(
        length=8, steps=3, batch_size=4, network={"n_layers": 1, "n_heads": 2, "d_model": 16}
    )
    report = script.measure(str(corpus), plan)
    assert list(report["nats"]) == [scheme.name for scheme in script.SCHEMES]
    for losses in report["nats"].values():
        assert list(losses) == [1, 2, 4]
        assert all(0 < nats < 5 for nats in losses.values())
    nats = report["nats"]
    # One trained model read in four ways: at the trained length they are the same.
    rotary = [losses for name, losses in nats.items() if name.startswith("rotary")]
    assert len(rotary) == 4
    assert all(losses[1] == rotary[0][1] for losses in rotary)
    assert len({losses[4] for losses in rotary}) == 4
    written = script.table(report).splitlines()
    assert len(written) == 4 + len(nats)
    assert written[2] == "| positions | 1 × 8 | 2 × 8 | 4 × 8 |"


def test_only_the_last_targets_are_scored_whatever_the_context(script):
    """Against the plain definition, token by token."""
    torch.manual_seed(0)
    task = CausalLM(network=TransformerConfig(vocab_size=11, d_model=16, n_heads=2, init="normal"))
    task.configure_model()
    ids = torch.randint(0, 11, (3, 17))

    class Windows:
        def val_dataloader(self):
            return [{"input_ids": ids[:, :-1], "labels": ids[:, 1:]}]

    for context in (4, 8, 16):
        with torch.no_grad():
            logits = task(ids[:, 16 - context : 16])
        log_likelihood = logits.log_softmax(-1)
        expected = [-log_likelihood[row, place, ids[row, 16 - context + place + 1]]
                    for row in range(3) for place in range(context - 4, context)]  # fmt: skip
        nats, count = script.evaluate(task, Windows(), context, 4)
        assert count == 12
        assert nats == pytest.approx(float(torch.stack(expected).mean()), abs=1e-5)


def recipe(corpus, position):
    return [
        "--model=CausalLM", f"--model.network.position={position}", "--model.network.d_model=16",
        "--model.network.n_layers=1", "--model.network.n_heads=2", "--data=CausalLMDataModule",
        "--data.tokenizer={kind: char}", f"--data.source={corpus}", "--data.document=file",
        "--data.split=tail", "--data.batch_size=2", "--trainer.max_steps=2",
        "--trainer.limit_val_batches=1", "--trainer.accelerator=cpu",
    ]  # fmt: skip


def run_fit(corpus, name, position, *options):
    place = ["--run_name", name, f"--runs_dir={corpus.parent / 'runs'}"]
    main(["fit", *place, *recipe(corpus, position), *options])
    return corpus.parent / "runs" / name / "checkpoints" / "last.ckpt"


def test_a_warm_start_with_a_longer_table_trains_on_longer_rows(corpus, capsys, caplog):
    short = run_fit(corpus, "short", "learned", "--data.seq_len=8", "--model.network.max_len=8")
    options = ["--data.seq_len=20", "--model.network.max_len=20", "--model.lr=1e-9"]
    longer = run_fit(corpus, "longer", "learned", *options, f"--init_from={short}")
    name = "transformer.embeddings.position.weight"
    before, after = (read_checkpoint(str(path))["state_dict"][name] for path in (short, longer))
    assert after.shape == (20, 16)
    torch.testing.assert_close(after[0], before[0])
    torch.testing.assert_close(after[-1], before[-1])
    said = capsys.readouterr().out + caplog.text
    assert "The 8 learned positions were interpolated to 20 (max_len)." in said


def test_a_warm_start_with_scaled_rotary_positions_says_so(corpus, capsys):
    short = run_fit(corpus, "turned", "rotary", "--data.seq_len=8")
    options = ["--data.seq_len=32", "--model.network.rotary_factor=4"]
    scaled = run_fit(corpus, "scaled", "rotary", *options, f"--init_from={short}")
    assert read_checkpoint(str(scaled))["hyper_parameters"]["network"]["rotary_factor"] == 4
    assert "rotary_factor 4.0 instead of 1.0" in capsys.readouterr().out
    # The same without training: the checkpoint is measured as if it had been scaled.
    main(["validate", *recipe(corpus, "rotary"), *options, f"--ckpt_path={short}"])
    assert "rotary_factor 4.0 instead of 1.0" in capsys.readouterr().out
