import html

import pytest
from run_folders import finished

from pretrain.commands.compare import run
from pretrain.errors import UserError


def test_terminal_and_page_say_the_same(tmp_path, capsys):
    paths = [str(finished(tmp_path / name, loss)) for name, loss in (("a", 2.0), ("b", 1.0))]
    page = tmp_path / "new" / "page.html"
    run([*paths, "--html", str(page)])
    out = capsys.readouterr().out
    headline = out.splitlines()[0]
    assert headline.startswith("b is best")
    assert headline in html.unescape(page.read_text("utf-8")).replace("\xa0", " ")
    assert str(page) in out
    assert [path.name for path in page.parent.iterdir()] == ["page.html"]


def test_a_missing_run_is_a_users_mistake(tmp_path):
    with pytest.raises(UserError, match="There is no run"):
        run([str(tmp_path / "none")])


def test_a_page_that_cannot_be_written_is_one_too(tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(UserError, match="can't be written"):
        run([str(finished(tmp_path / "a", 1.0)), "--html", str(tmp_path / "folder")])
