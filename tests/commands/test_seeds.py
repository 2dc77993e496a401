import json
import statistics

import pytest

from pretrain.commands.seeds import fit_seeds, split_seeds, summarize
from pretrain.errors import UserError


@pytest.mark.parametrize(
    "form", [["--seeds", "1,2,3"], ["--seeds=1,2,3"], ["--seeds", "[1, 2, 3]"]]
)
def test_seeds_are_taken_out_of_the_options(form):
    seeds, rest = split_seeds(["--config", "a", *form, "--x", "1"])
    assert seeds == [1, 2, 3]
    assert rest == ["--config", "a", "--x", "1"]


def test_without_seeds_nothing_changes():
    assert split_seeds(["--run_name", "a"]) == (None, ["--run_name", "a"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--seeds", "a,b"], "'a,b'; give whole numbers"),
        (["--seeds"], "give whole numbers"),
        (["--seeds", "1,1"], "names a seed twice"),
        (["--seeds", "1,2", "--seed_everything", "3"], "give one of them"),
    ],
)
def test_what_is_no_list_of_seeds_is_refused(options, message):
    with pytest.raises(UserError, match=message):
        split_seeds(options)


def test_each_seed_gets_a_run_and_the_figures_their_mean_and_spread(tmp_path, monkeypatch):
    monkeypatch.delenv("PRETRAIN_SEED", raising=False)
    seen = []

    def fit(argv):
        seen.append(argv)
        value = {"4": 0.5, "7": 0.7}[argv[-1]]
        return tmp_path / "run", {"val_accuracy": value, "val_f1": None, "status": "finished"}

    figures = fit_seeds([4, 7], ["--run_name", "r"], fit)
    assert seen[0][2:] == ["--run_name", "r-seed4", "--seed_everything", "4"]
    assert figures["val_accuracy"]["mean"] == pytest.approx(0.6)
    assert figures["val_accuracy"]["std"] == pytest.approx(statistics.stdev([0.5, 0.7]))
    assert "val_f1" not in figures
    written = json.loads((tmp_path / "r-seeds.json").read_text())
    assert written == {"seeds": [4, 7], "figures": figures}


def test_a_process_started_at_a_later_seed_goes_on_beside_the_first(tmp_path, monkeypatch):
    monkeypatch.setattr("pretrain.commands.seeds.is_first_rank", lambda: False)
    monkeypatch.setenv("PRETRAIN_SEED", "7")
    seen = []

    def fit(argv):
        seen.append(argv[3])
        return tmp_path / "run", {}

    fit_seeds([4, 7, 9], ["--run_name", "r"], fit)
    assert seen == ["r-seed7", "r-seed9"]
    assert not any(tmp_path.iterdir())  # the first process writes what is common to the runs


def test_several_runs_need_a_name():
    with pytest.raises(UserError, match="give --run_name"):
        fit_seeds([1, 2], [], lambda argv: (None, {}))


def test_one_seed_has_no_spread():
    assert summarize([{"val_accuracy": 0.5}])["val_accuracy"]["std"] == 0.0
