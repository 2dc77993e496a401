import json

import peers
import pytest
import torch
from portables import padded_batch
from safetensors.torch import load_file
from tiny import ROWS, fit, make_task

from pretrain.commands.export import run
from pretrain.data.labels import Labels
from pretrain.errors import UserError
from pretrain.tasks import Classification, save_task
from pretrain.tasks.checkpoint_file import read_checkpoint


def trained(kind, path, steps=2, **options):
    """A checkpoint of a tiny task after ``steps`` steps; returns the task."""
    task = make_task(kind, **options)
    trainer = fit(task, [ROWS[kind]([9, 7])] * steps)
    trainer.save_checkpoint(path)
    return task.eval()


def test_it_says_what_was_made_and_how_to_load_it(tmp_path, capsys):
    trained("clm", tmp_path / "x.ckpt")
    run([str(tmp_path / "x.ckpt"), str(tmp_path / "out")])
    said = capsys.readouterr().out
    assert "NanoChatForCausalLM" in said
    assert "AutoModelForCausalLM.from_pretrained(" in said
    assert said.count("\n") == 2
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["architectures"] == ["NanoChatForCausalLM"]


def test_the_card_holds_the_figures_of_the_run_two_folders_up(tmp_path):
    run_folder = tmp_path / "runs" / "first"
    (run_folder / "checkpoints").mkdir(parents=True)
    card = {"status": "finished", "steps": 2, "tokens_seen": 12_345, "val_loss_nats": 3.25}
    (run_folder / "summary.json").write_text(json.dumps(card))
    (run_folder / "config.yaml").write_text("data:\n  init_args:\n    source: books.txt\n")
    trained("clm", run_folder / "checkpoints" / "best.ckpt")
    run([str(run_folder / "checkpoints" / "best.ckpt"), str(tmp_path / "out")])
    text = (tmp_path / "out" / "README.md").read_text()
    for figure in ("| books.txt |", "| 12,345 |", "| 3.2500 |", "| step of these weights | 2 |"):
        assert figure in text


def test_a_checkpoint_elsewhere_takes_no_strangers_figures(tmp_path):
    (tmp_path / "summary.json").write_text('{"tokens_seen": 777}')
    (tmp_path / "models").mkdir()
    trained("clm", tmp_path / "models" / "x.ckpt")
    run([str(tmp_path / "models" / "x.ckpt"), str(tmp_path / "out")])
    assert "777" not in (tmp_path / "out" / "README.md").read_text()


def test_what_no_class_computes_is_told_and_nothing_is_written(tmp_path):
    trained("clm", tmp_path / "x.ckpt", network={"position": "alibi"})
    with pytest.raises(UserError, match=r"position rotary \(it is alibi\)"):
        run([str(tmp_path / "x.ckpt"), str(tmp_path / "out")])
    assert not (tmp_path / "out").exists()


def test_what_is_no_checkpoint_is_told(tmp_path):
    with pytest.raises(UserError, match="no checkpoint at"):
        run([str(tmp_path / "x.ckpt"), str(tmp_path / "out")])


@pytest.mark.parametrize("kind", ["clm", "mlm"])
@pytest.mark.parametrize("compiled", [False, True])
def test_compiled_or_plain_a_checkpoint_loads_as_either_and_exports(
    kind, compiled, tmp_path, monkeypatch
):
    compile_module = torch.nn.Module.compile
    # The same wrapping without the C++ compiler's minutes.
    monkeypatch.setattr(
        torch.nn.Module, "compile", lambda self: compile_module(self, backend="eager")
    )
    network = {"n_layers": 1, "activation": "swiglu", "embedding_norm": False, "qk_norm": False}
    path = tmp_path / "x.ckpt"
    task = trained(kind, path, network=network, compile=compiled)
    state = read_checkpoint(str(path))["state_dict"]
    assert not any("_orig_mod" in name for name in state)
    ids, mask = padded_batch(vocab_size=29)
    with torch.no_grad():
        expected = task(ids, mask)
        for compile_again in (False, True):
            other = type(task)(network=task.config, compile=compile_again)
            other.configure_model()
            other.load_state_dict(state, strict=True)
            torch.testing.assert_close(other.eval()(ids, mask), expected, atol=1e-6, rtol=0)
    run([str(path), str(tmp_path / "out")])
    weights = load_file(tmp_path / "out" / "model.safetensors")
    assert not any("_orig_mod" in name for name in weights)
    embedding = task.transformer.embeddings.token.weight
    assert torch.equal(weights["model.embed_tokens.weight"], embedding)


def test_a_classifier_is_told_with_its_class_and_figures(tmp_path, capsys):
    run_folder = tmp_path / "runs" / "judge"
    (run_folder / "checkpoints").mkdir(parents=True)
    card = {"status": "finished", "val_accuracy": 0.875, "val_matthews": 0.5}
    (run_folder / "summary.json").write_text(json.dumps(card))
    labels = Labels("single", ("bad", "good")).to_dict()
    task = Classification(peers.GPT2, causal=True, labels=labels, reads_pairs=False)
    task.configure_model()
    save_task(task, run_folder / "checkpoints" / "best.ckpt")
    run([str(run_folder / "checkpoints" / "best.ckpt"), str(tmp_path / "out")])
    said = capsys.readouterr().out
    assert "a GPT2ForSequenceClassification" in said
    assert "AutoModelForSequenceClassification.from_pretrained(" in said
    text = (tmp_path / "out" / "README.md").read_text()
    for part in ("`bad`, `good`", "| validation accuracy | 0.8750 |", "correlation | 0.5000 |"):
        assert part in text
