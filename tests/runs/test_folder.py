import json
import os
import time

import pytest

from pretrain.errors import UserError
from pretrain.runs import folder as folders
from pretrain.runs.card import RunCard
from pretrain.runs.card_reader import process_started
from pretrain.runs.folder import HANDED_ON, RunFolder, make_folder, plan_run, recipe_name


@pytest.fixture(autouse=True)
def _nothing_handed_on(monkeypatch):
    monkeypatch.delenv(HANDED_ON, raising=False)
    yield
    os.environ.pop(HANDED_ON, None)


def _made(path) -> RunFolder:
    folder = RunFolder(path)
    make_folder(folder)
    folder.config.write_text("a: 1\n")
    return folder


def test_a_name_is_made_from_recipe_and_time(tmp_path):
    plan = plan_run(None, str(tmp_path), "gpt_tiny")
    assert plan.folder.name.startswith("gpt_tiny-2")
    assert not plan.folder.path.exists()


def test_the_recipe_of_a_repeated_run_is_named_after_that_run():
    assert recipe_name(["configs/gpt_tiny.yaml", "mine.yaml"]) == "gpt_tiny"
    assert recipe_name(["runs/first/config.yaml"]) == "first"
    assert recipe_name([]) == "run"


def test_a_run_is_never_overwritten(tmp_path):
    _made(tmp_path / "a")
    with pytest.raises(UserError, match=r"--ckpt_path last.*--run_name"):
        plan_run("a", str(tmp_path), "gpt")


def test_of_two_new_runs_of_one_name_the_slower_is_refused(tmp_path):
    first, second = (plan_run("a", str(tmp_path), "gpt") for _ in range(2))
    make_folder(first.folder, first.is_new)
    with pytest.raises(UserError, match=r"--ckpt_path last.*--run_name"):
        make_folder(second.folder, second.is_new)


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UserError, match=r"can't be made .*--runs_dir"):
        make_folder(RunFolder(tmp_path / "file" / "a"), is_new=True)


def test_an_empty_folder_may_be_used(tmp_path):
    (tmp_path / "a").mkdir()
    assert plan_run("a", str(tmp_path), "gpt").folder.path == tmp_path / "a"


def test_last_goes_on_with_the_run(tmp_path):
    folder = _made(tmp_path / "a")
    folder.last.write_bytes(b"x")
    plan = plan_run("a", str(tmp_path), "gpt", "last")
    assert plan.checkpoint == folder.last
    assert plan.continues


def test_last_without_a_checkpoint_starts_at_step_0_and_says_so(tmp_path):
    for name in ("never_started", "died_early"):
        if name == "died_early":
            _made(tmp_path / name)
        plan = plan_run(name, str(tmp_path), "gpt", "last")
        assert plan.checkpoint is None
        assert "step 0" in (plan.note or "")


def test_half_written_checkpoints_of_a_killed_process_are_cleared_away(tmp_path):
    folder = _made(tmp_path / "a")
    (folder.checkpoints / ".last.ckpt.123.tmp").write_bytes(b"half")
    folder.last.write_bytes(b"whole")
    make_folder(folder)
    assert [path.name for path in folder.checkpoints.iterdir()] == ["last.ckpt"]


def test_another_runs_checkpoint_starts_a_folder_of_its_own(tmp_path):
    folder = _made(tmp_path / "a")
    folder.best.write_bytes(b"x")
    plan = plan_run("b", str(tmp_path), "gpt", str(folder.best))
    assert plan.checkpoint == folder.best
    assert not plan.continues
    _made(tmp_path / "c")
    with pytest.raises(UserError, match="already holds a run"):
        plan_run("c", str(tmp_path), "gpt", str(folder.best))


def test_the_runs_own_checkpoint_by_path_goes_on_with_it(tmp_path):
    folder = _made(tmp_path / "a")
    folder.best.write_bytes(b"x")
    assert plan_run("a", str(tmp_path), "gpt", str(folder.best)).continues


@pytest.mark.parametrize(
    ("name", "ckpt_path", "message"),
    [
        ("a/b", None, "--runs_dir"),
        ("..", None, "no folder name"),
        ("", None, "no folder name"),
        ("a" * 300, None, "shorter"),
        (None, "last", "--run_name"),
        ("a", "nowhere.ckpt", "no such checkpoint"),
    ],
)
def test_a_plan_that_cannot_work_is_refused(tmp_path, name, ckpt_path, message):
    with pytest.raises(UserError, match=message):
        plan_run(name, str(tmp_path), "gpt", ckpt_path)


def test_a_file_of_that_name_is_refused(tmp_path):
    (tmp_path / "a").write_text("mine")
    with pytest.raises(UserError, match="is a file"):
        plan_run("a", str(tmp_path), "gpt", "last")


def test_a_run_that_is_being_trained_is_left_alone(tmp_path):
    folder = _made(tmp_path / "a")
    card = RunCard(folder.card, {})
    parent = os.getppid()
    card.write(pid=parent, process_started=process_started(parent))
    with pytest.raises(UserError, match=f"process {parent}"):
        plan_run("a", str(tmp_path), "gpt", "last")


def test_other_ranks_take_the_folder_that_the_first_has_made(tmp_path, monkeypatch):
    first = plan_run(None, str(tmp_path), "gpt")
    make_folder(first.folder)
    (first.folder.path / "config.yaml").write_text("")
    monkeypatch.setattr(folders, "is_first_rank", lambda: False)
    assert plan_run(None, str(tmp_path), "gpt").folder.path == first.folder.path


def test_processes_started_from_outside_need_a_name(tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(UserError, match="--run_name"):
        plan_run(None, str(tmp_path), "gpt")


def test_a_run_of_another_machine_says_when_it_may_be_gone_on_with(tmp_path):
    card = {"status": "running", "pid": 1, "host": "node7", "written_at": time.time() - 600}
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "summary.json").write_text(json.dumps(card))
    later = time.strftime("%H:%M", time.localtime(card["written_at"] + 900))
    with pytest.raises(UserError, match=rf"on node7: .* can be gone on with after {later}\.$"):
        plan_run("run", str(tmp_path), "recipe", "last")
