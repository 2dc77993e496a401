import pytest
import torch
from tiny import ROWS, SHAPE, fit, make_task

from pretrain.errors import UserError
from pretrain.tasks import CausalLM, Classification, MaskedLM, load_task, save_task


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


@pytest.fixture
def learned(tmp_path):
    task = make_task("clm", network={"position": "learned", "max_len": 20})
    fit(task, [ROWS["clm"]([12, 20])] * 2).save_checkpoint(tmp_path / "a.ckpt")
    return task, str(tmp_path / "a.ckpt")


@pytest.mark.parametrize(("new_len", "how"), [(39, "interpolated"), (12, "cut")])
def test_learned_positions_take_another_length_and_say_so(learned, new_len, how, caplog):
    trained, path = learned
    fresh = CausalLM(network={**trained.hparams["network"], "max_len": new_len})
    fresh.init_weights_from(path)
    with caplog.at_level("INFO"):
        fresh.configure_model()
    assert f"The 20 learned positions were {how} to {new_len} (max_len)." in caplog.text
    old, new = trained.transformer.state_dict(), fresh.transformer.state_dict()
    before, after = old.pop("embeddings.position.weight"), new.pop("embeddings.position.weight")
    if how == "cut":
        assert torch.equal(after, before[:new_len])
    else:  # 20 rows and one between each two
        assert torch.equal(after[::2], before)
        torch.testing.assert_close(after[1::2], (before[1:] + before[:-1]) / 2)
    assert all(torch.equal(new[name], old[name]) for name in old)


def test_learned_positions_of_another_width_are_refused(learned):
    trained, path = learned
    other = CausalLM(network={**trained.hparams["network"], "d_model": 32, "max_len": 40})
    other.init_weights_from(path)
    with pytest.raises(UserError, match=r"transformer\.blocks\.0"):
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


@pytest.mark.parametrize(("names", "is_kept"), [(["a", "b"], True), (["no", "yes"], False)])
def test_a_classifier_is_a_start_for_other_labels_too(names, is_kept, tmp_path):
    labels = {"kind": "single", "names": ["a", "b"]}
    first = Classification(SHAPE, labels=labels)
    first.configure_model()
    save_task(first, tmp_path / "a.ckpt")
    second = Classification(SHAPE, labels={**labels, "names": names})
    second.init_weights_from(str(tmp_path / "a.ckpt"))
    second.configure_model()
    for name in ("pooler.dense.weight", "transformer.embeddings.token.weight"):
        assert torch.equal(second.state_dict()[name], first.state_dict()[name])
    assert torch.equal(second.classifier.weight, first.classifier.weight) == is_kept
