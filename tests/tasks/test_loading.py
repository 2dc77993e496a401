import pytest
from disks import full_disk
from tiny import make_task

from pretrain.errors import UserError
from pretrain.tasks import save_task


def test_a_full_disk_is_told_in_one_sentence_and_leaves_nothing(tmp_path):
    with full_disk(), pytest.raises(UserError, match=r"a\.ckpt can't be written") as error:
        save_task(make_task("clm"), tmp_path / "a.ckpt")
    assert "\n" not in str(error.value)
    assert not list(tmp_path.iterdir())
