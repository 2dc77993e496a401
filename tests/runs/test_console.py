import logging

from pretrain.runs.console import hush_libraries, say


def test_a_line_goes_to_standard_output(capsys):
    say("hello")
    assert capsys.readouterr().out == "hello\n"


def test_lightnings_chatter_is_dropped_and_warnings_are_not(monkeypatch):
    # Lightning adds a handler where the program has none of its own; here pytest has.
    handler = logging.StreamHandler()
    monkeypatch.setattr(logging.getLogger("lightning.pytorch"), "handlers", [handler])
    hush_libraries()

    def passes(level: int, path: str) -> bool:
        return bool(handler.filter(logging.LogRecord("x", level, path, 1, "text", None, None)))

    assert not passes(logging.INFO, "/lib/lightning/pytorch/trainer/setup.py")
    assert passes(logging.WARNING, "/lib/lightning/pytorch/trainer/setup.py")
    assert passes(logging.INFO, "/home/me/pretrain/tasks/warm_start.py")
