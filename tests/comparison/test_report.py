import pytest
from run_folders import config, finished, write_run

from pretrain.comparison.comparison import compare
from pretrain.comparison.report import report
from pretrain.comparison.run import load_runs


@pytest.fixture
def comparison(tmp_path):
    paths = [finished(tmp_path / f"a_rather_long_name_{i}", 1.0 + i, lr=0.1 * i) for i in range(3)]
    alert = {"name": "units_dying", "step": 3, "where": "", "text": "Half of them are dead."}
    paths.append(write_run(tmp_path / "sick", {"alerts": [alert]}, config(source="x" * 200)))
    return compare(load_runs([str(path) for path in paths]))


@pytest.mark.parametrize("width", [40, 60, 100, 300])
def test_every_run_is_told_whatever_the_width(width, comparison):
    lines = report(comparison, width)
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    for name in ("a_rather_long_name_0", "a_rather_long_name_2", "sick"):
        assert name in text
    assert "units dying" in text


def test_the_best_are_marked_and_what_is_missing_is_said(tmp_path):
    best = finished(tmp_path / "b", 1.0)
    paths = [best, write_run(tmp_path / "a", {}, config(masking={"share": 0.3}))]
    lines = report(compare(load_runs([str(path) for path in paths])), 100)
    loss = next(line for line in lines if line.startswith("validation loss"))
    assert loss.split()[-3:] == ["1.0000", "*", "1.9000"]
    masking = next(line for line in lines if line.startswith("data.masking.share"))
    assert masking.split()[1:] == ["(missing)", "0.3"]
