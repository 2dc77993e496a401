import errno
from collections import OrderedDict

import pytest
import torch

from pretrain.errors import UserError
from pretrain.runs.checkpoint_io import AtomicCheckpointIO


class _Harmful:
    def __reduce__(self):
        return (print, ("this must not run",))


def test_a_checkpoint_comes_back(tmp_path):
    path = tmp_path / "checkpoints" / "last.ckpt"
    AtomicCheckpointIO().save_checkpoint({"w": torch.arange(3), "step": 2}, path)
    loaded = AtomicCheckpointIO().load_checkpoint(path)
    assert loaded["step"] == 2
    assert torch.equal(loaded["w"], torch.arange(3))
    assert [p.name for p in path.parent.iterdir()] == ["last.ckpt"]


def test_a_failed_write_leaves_the_previous_file(tmp_path, monkeypatch):
    path = tmp_path / "last.ckpt"
    io = AtomicCheckpointIO()
    io.save_checkpoint({"step": 1}, path)

    def full_disk(checkpoint, file):
        file.write(b"half a file")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(torch, "save", full_disk)
    with pytest.raises(UserError, match=r"last\.ckpt can't be written \(No space.*is kept"):
        io.save_checkpoint({"step": 2}, path)
    monkeypatch.undo()
    assert io.load_checkpoint(path) == {"step": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["last.ckpt"]


def test_a_file_that_would_run_code_is_refused_by_name(tmp_path, capsys):
    path = tmp_path / "foreign.ckpt"
    torch.save(OrderedDict(state_dict={}, extra=_Harmful()), path)
    with pytest.raises(UserError, match=r"foreign\.ckpt"):
        AtomicCheckpointIO().load_checkpoint(path, weights_only=False)
    assert capsys.readouterr().out == ""
