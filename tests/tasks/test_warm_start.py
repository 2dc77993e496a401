import pytest
import torch
from tiny import ROWS, fit, make_task

from pretrain.errors import UserError
from pretrain.tasks import CausalLM, MaskedLM, load_task


@pytest.fixture
def checkpoint(tmp_path):
    task = make_task("mlm", lr=0.02, network={"head_bias": True})
    fit(task, [ROWS["mlm"]([12, 20])] * 2).save_checkpoint(tmp_path / "a.ckpt")
    return task, str(tmp_path / "a.ckpt")


def test_weights_are_taken_over(checkpoint):
    trained, path = checkpoint
    fresh = MaskedLM(network=trained.config)
    fresh.init_weights_from(path)
    fresh.configure_model()
    for name, tensor in trained.state_dict().items():
        assert torch.equal(fresh.state_dict()[name], tensor), name


def test_another_objective_keeps_the_trunk_and_names_the_heads(checkpoint, caplog):
    trained, path = checkpoint
    fresh = CausalLM(network={**trained.hparams["network"], "head_bias": False})
    fresh.init_weights_from(path)
    with caplog.at_level("INFO"):
        fresh.configure_model()
    assert "dropped: head.decoder.bias" in caplog.text
    here, there = fresh.transformer.state_dict(), trained.transformer.state_dict()
    assert all(torch.equal(here[name], there[name]) for name in there)


def test_another_architecture_is_refused_by_name(checkpoint):
    trained, path = checkpoint
    other = MaskedLM(network={**trained.hparams["network"], "n_layers": 3})
    other.init_weights_from(path)
    with pytest.raises(UserError, match=r"transformer\.blocks\.2"):
        other.configure_model()


def test_files_that_are_no_checkpoint_are_refused_in_one_sentence(tmp_path):
    with pytest.raises(UserError, match="no checkpoint at"):
        load_task(str(tmp_path / "missing.ckpt"))
    (tmp_path / "text.ckpt").write_text("hello")
    with pytest.raises(UserError, match=r"text\.ckpt cannot be read"):
        load_task(str(tmp_path / "text.ckpt"))
    torch.save({"state_dict": {}}, tmp_path / "other.ckpt")
    with pytest.raises(UserError, match=r"other\.ckpt is not a checkpoint of pretrain"):
        load_task(str(tmp_path / "other.ckpt"))


class Payload:
    """What a hostile file would hold: unpickling it would make a folder."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        import os

        return os.mkdir, (self.path,)


def test_a_file_that_would_run_code_is_refused(tmp_path):
    target = tmp_path / "made_by_the_pickle"
    torch.save({"objective": "clm", "x": Payload(str(target))}, tmp_path / "evil.ckpt")
    with pytest.raises(UserError, match=r"evil\.ckpt"):
        load_task(str(tmp_path / "evil.ckpt"))
    assert not target.exists()
