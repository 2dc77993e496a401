import subprocess
import sys
from importlib import import_module

import pytest

from pretrain import cli
from pretrain.errors import UserError


def test_help_needs_no_heavy_import():
    code = (
        "import sys; from pretrain.cli import main; main(['--help']); "
        "heavy = {'torch', 'lightning', 'datasets', 'wandb', 'numpy', 'jsonargparse'}; "
        "sys.exit(bool(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0
    for name in cli.COMMANDS:
        assert name in done.stdout


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_of_the_table_is_there(name):
    command = cli.COMMANDS[name]
    assert callable(getattr(import_module(command.module), command.function))


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["fitt"], "did you mean fit?"),
        (["fill_mask", "x"], "did you mean fill-mask?"),
        (["xyzzy"], "the commands are fit, "),
        (["--config", "a.yaml", "fit"], "pretrain fit --config"),
    ],
)
def test_a_wrong_command_line_gets_one_sentence(arguments, hint, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(arguments)
    assert stop.value.code == 1
    error = capsys.readouterr().err
    assert hint in error
    assert error.count("\n") == 1


def _command_that(raises: BaseException, monkeypatch) -> None:
    def run(argv):
        raise raises

    monkeypatch.setattr("pretrain.errors.run", run, raising=False)
    monkeypatch.setitem(cli.COMMANDS, "fit", cli.Command("pretrain.errors", "run", ""))


def test_a_users_mistake_is_printed_without_a_traceback(monkeypatch, capsys):
    _command_that(UserError("No such file: a.txt."), monkeypatch)
    with pytest.raises(SystemExit) as stop:
        cli.main(["fit"])
    assert stop.value.code == 1
    assert capsys.readouterr().err == "pretrain: No such file: a.txt.\n"


def test_ctrl_c_ends_quietly(monkeypatch, capsys):
    _command_that(KeyboardInterrupt(), monkeypatch)
    with pytest.raises(SystemExit) as stop:
        cli.main(["fit"])
    assert stop.value.code == 130
    assert "Traceback" not in capsys.readouterr().err


def test_a_fault_of_ours_keeps_its_traceback(monkeypatch):
    _command_that(ZeroDivisionError(), monkeypatch)
    with pytest.raises(ZeroDivisionError):
        cli.main(["fit"])
