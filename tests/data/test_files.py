import pytest

from pretrain.data.files import default_cache_dir, written_whole
from pretrain.errors import UserError


def write_half(path):
    with written_whole(path) as temporary:
        temporary.write_text("half")
        raise RuntimeError


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "new" / "x.txt"
    with written_whole(path) as temporary:
        temporary.write_text("old")
    with pytest.raises(RuntimeError):
        write_half(path)
    assert path.read_text() == "old"
    assert list(path.parent.iterdir()) == [path]


def test_what_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("mine")
    for path in (tmp_path / "folder", tmp_path / "file" / "x.txt"):
        with pytest.raises(UserError, match="can't be written"), written_whole(path) as temporary:
            temporary.write_text("new")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]


def test_the_cache_folder_follows_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_cache_dir() == tmp_path / "pretrain"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_cache_dir() == tmp_path / ".cache" / "pretrain"
