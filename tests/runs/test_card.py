import json
import os
import subprocess
import sys

import pytest
import torch
from lightning.pytorch import Callback

from pretrain.runs.card import MEASURED, RunCard
from pretrain.runs.card_reader import process_started, read_card
from pretrain.runs.validation_schedule import ValidationSchedule


def _card(path, **values):
    card = RunCard(path, {"recipe": "gpt_tiny", "run_name": "a", "precision": "32-true"})
    card.write(**values)
    return card


def test_a_card_has_every_key_from_the_start(tmp_path):
    path = tmp_path / "summary.json"
    _card(path)
    card = read_card(path)
    assert card["status"] == "running"
    assert set(MEASURED) <= set(card)
    assert card["recipe"] == "gpt_tiny"
    assert card["versions"]["torch"] == torch.__version__.split("+")[0] or card["versions"]["torch"]
    assert read_card(tmp_path) == card


def test_a_card_whose_process_is_gone_reads_interrupted(tmp_path):
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    path = tmp_path / "summary.json"
    _card(path, pid=child.pid, process_started=process_started(child.pid))
    assert read_card(path)["status"] == "running"
    child.communicate()
    assert read_card(path)["status"] == "interrupted"
    assert json.loads(path.read_text())["status"] == "running"


def test_a_process_number_that_was_used_again_is_not_taken_for_the_run(tmp_path):
    path = tmp_path / "summary.json"
    _card(path, pid=os.getppid(), process_started="another time")
    assert read_card(path)["status"] == "interrupted"


def test_a_run_on_another_host_counts_as_running_while_its_card_is_fresh(tmp_path):
    path = tmp_path / "summary.json"
    _card(path, host="elsewhere", pid=1)
    assert read_card(path)["status"] == "running"
    stale = {**json.loads(path.read_text()), "written_at": 0.0}
    path.write_text(json.dumps(stale))
    assert read_card(path)["status"] == "interrupted"


def test_values_that_are_no_numbers_become_null(tmp_path):
    path = tmp_path / "summary.json"
    _card(path, train_loss_nats=float("nan"), val_loss_nats=torch.tensor(2.0))
    card = read_card(path)
    assert card["train_loss_nats"] is None
    assert card["val_loss_nats"] == 2.0


def test_what_is_no_card_reads_as_an_empty_one(tmp_path):
    assert read_card(tmp_path) == {}
    for text in ("{", "[]"):
        (tmp_path / "summary.json").write_text(text)
        assert read_card(tmp_path) == {}


def test_a_trained_run_fills_its_card(make_trainer, tiny_module, tmp_path):
    path = tmp_path / "summary.json"
    card = RunCard(path, {})
    trainer = make_trainer(max_steps=4, callbacks=[ValidationSchedule(), card])
    trainer.fit(tiny_module())
    assert read_card(path)["status"] == "running"
    card.finish(trainer, {"val/loss": torch.tensor(1.5), "val/target_tokens": 7.0})
    values = read_card(path)
    assert values["status"] == "finished"
    assert (values["n_parameters"], values["steps"]) == (3, 4)
    assert (values["val_loss_nats"], values["val_target_tokens"]) == (1.5, 7)
    assert values["best_val_loss_nats"] > 0
    assert values["wall_time_s"] > 0
    assert values["peak_memory_mib"] > 0


def test_the_card_holds_what_was_measured_of_speed(make_trainer, tiny_module, tmp_path):
    class Speed(Callback):
        tokens_seen, tokens_per_s, data_wait_share = 8, 4.0, 0.25

    card = RunCard(tmp_path / "summary.json", {})
    make_trainer(max_steps=2, callbacks=[ValidationSchedule(), Speed(), card]).fit(tiny_module())
    values = read_card(tmp_path)
    assert (values["tokens_seen"], values["tokens_per_s"]) == (8, 4.0)
    assert values["data_wait_share"] == 0.25


def test_a_run_that_goes_on_adds_up_its_time(tmp_path):
    first = _card(tmp_path / "summary.json", best_val_loss_nats=1.0)
    first._earlier_s = 100.0
    second = RunCard(tmp_path / "summary.json", {})
    second.load_state_dict(first.state_dict())
    assert second.state_dict()["wall_time_s"] >= 100.0
    assert second.values["best_val_loss_nats"] == 1.0


@pytest.mark.parametrize(
    ("error", "status"), [(KeyboardInterrupt(), "interrupted"), (ValueError("boom"), "failed")]
)
def test_the_card_says_how_a_run_ended(make_trainer, tiny_module, tmp_path, error, status):
    module = tiny_module()

    def training_step(batch, batch_idx):
        raise error

    module.training_step = training_step
    card = RunCard(tmp_path / "summary.json", {})
    trainer = make_trainer(max_steps=4, callbacks=[ValidationSchedule(), card])
    with pytest.raises((ValueError, SystemExit)):
        trainer.fit(module)
    values = read_card(tmp_path)
    assert values["status"] == status
    assert ("ValueError: boom" in values["warnings"]) == (status == "failed")
