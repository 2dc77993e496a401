import pytest
import torch
from disks import full_disk
from tiny import make_task

from pretrain.errors import UserError
from pretrain.tasks import load_task, save_task


def test_a_network_of_a_newer_version_is_told_in_one_sentence(tmp_path):
    save_task(make_task("clm"), tmp_path / "a.ckpt")
    checkpoint = torch.load(tmp_path / "a.ckpt", weights_only=True)
    checkpoint["hyper_parameters"]["network"]["memory"] = 3
    torch.save(checkpoint, tmp_path / "a.ckpt")
    with pytest.raises(UserError, match="newer version: its network has memory"):
        load_task(str(tmp_path / "a.ckpt"))


def test_a_full_disk_is_told_in_one_sentence_and_leaves_nothing(tmp_path):
    with full_disk(), pytest.raises(UserError, match=r"a\.ckpt can't be written") as error:
        save_task(make_task("clm"), tmp_path / "a.ckpt")
    assert "\n" not in str(error.value)
    assert not list(tmp_path.iterdir())
