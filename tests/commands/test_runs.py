import json
import subprocess
import sys

import pytest
from run_folders import write_run

from pretrain.commands.runs import run
from pretrain.errors import UserError


def test_runs_are_listed_the_best_first_where_asked(tmp_path, capsys):
    for name, loss in (("a", 2.0), ("b", 1.0)):
        write_run(tmp_path / name, {"best_val_loss_nats": loss})
    run([str(tmp_path), "--sort", "best"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["run", "b", "a"]


def test_the_json_holds_the_whole_card(tmp_path, capsys):
    write_run(tmp_path / "a", {"precision": "32-true"})
    run([str(tmp_path), "--json"])
    (card,) = json.loads(capsys.readouterr().out)
    assert card["name"] == "a"
    assert card["path"] == str(tmp_path / "a")
    assert card["precision"] == "32-true"


@pytest.mark.parametrize("name", ["", "missing"])
def test_no_run_is_one_sentence(name, tmp_path, capsys):
    run([str(tmp_path / name)])
    out = capsys.readouterr().out
    assert out.startswith("There is no run in")
    assert out.count("\n") == 1


def test_an_unknown_column_is_a_users_mistake(tmp_path):
    with pytest.raises(UserError, match="--sort x is no column"):
        run([str(tmp_path), "--sort", "x"])


def test_it_needs_no_heavy_import(tmp_path):
    write_run(tmp_path / "a", {})
    code = (
        "import sys; from pretrain.cli import main; main(sys.argv[1:]); "
        "heavy = {'torch', 'lightning', 'datasets', 'wandb', 'numpy'}; "
        "sys.exit(bool(heavy & set(sys.modules)))"
    )
    for arguments in (["runs", tmp_path], ["compare", tmp_path / "a", "--html", tmp_path / "p"]):
        done = subprocess.run([sys.executable, "-c", code, *map(str, arguments)], timeout=60)
        assert done.returncode == 0
