import math

from pretrain.commands.evaluate import _print_figures


def test_a_figure_that_is_not_defined_is_shown_as_such(capsys):
    _print_figures([{"val/pearson": math.nan, "val/loss": math.inf, "val/n": 1200.0, "step": 3.0}])
    shown = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert shown == [["val/pearson", "nan"], ["val/loss", "inf"], ["val/n", "1,200"]]
