import lightning.pytorch as pl
import pytest
import torch
from tiny import KINDS, ROWS, fit, make_task, one_row

from pretrain.errors import UserError
from pretrain.tasks import CausalLM, ScheduleConfig, load_task


def weights(task):
    return [p.detach().clone() for p in task.parameters()]


def equal(a, b):
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


class RecordRates(pl.Callback):
    def __init__(self):
        self.rates = []

    def on_before_optimizer_step(self, trainer, pl_module, optimizer):
        self.rates.append(optimizer.param_groups[0]["lr"])


@pytest.mark.parametrize("accumulate", [1, 4])
def test_the_schedule_counts_optimizer_steps(accumulate):
    schedule = ScheduleConfig("linear", warmup=4, floor=0.1)
    task = make_task("clm", lr=0.5, schedule=schedule)
    record = RecordRates()
    batches = [ROWS["clm"]([6])] * (20 * accumulate)
    fit(task, batches, max_steps=20, accumulate_grad_batches=accumulate, callbacks=[record])
    assert len(record.rates) == 20
    assert record.rates[3] == pytest.approx(0.5)
    assert max(record.rates) == record.rates[3]
    assert record.rates[19] == pytest.approx(0.05)


def test_the_logged_rate_is_the_one_that_the_step_used():
    record = RecordRates()
    task = make_task("clm", lr=0.5, schedule=ScheduleConfig("linear"))
    trainer = fit(task, [ROWS["clm"]([6])] * 5, callbacks=[record])
    assert float(trainer.callback_metrics["lr"]) == pytest.approx(record.rates[-1])


def test_a_stream_without_an_end_asks_for_max_steps():
    class Endless(torch.utils.data.IterableDataset):
        def __iter__(self):
            while True:
                yield ROWS["clm"]([6])

    loader = torch.utils.data.DataLoader(Endless(), batch_size=None)
    trainer = pl.Trainer(max_epochs=1, accelerator="cpu", logger=False,
                         enable_checkpointing=False, enable_progress_bar=False)  # fmt: skip
    with pytest.raises(UserError, match=r"set trainer\.max_steps"):
        trainer.fit(make_task("clm"), loader)


@pytest.mark.parametrize("kind", KINDS)
def test_both_objectives_learn_a_batch_by_heart(kind):
    task = make_task(kind, lr=0.02)
    batch = ROWS[kind]([12, 20])
    before = float(task.losses(batch).nll)
    fit(task, [batch] * 60, gradient_clip_val=1.0)
    assert float(task.losses(batch).nll) < 0.2 * before


def test_label_smoothing_changes_the_objective_and_not_the_reported_loss():
    batch = ROWS["clm"]([9])
    plain, smooth = make_task("clm"), make_task("clm", label_smoothing=0.2)
    torch.testing.assert_close(plain.losses(batch).nll, smooth.losses(batch).nll)
    assert float(smooth.losses(batch).objective.detach()) != pytest.approx(
        float(plain.losses(batch).objective.detach())
    )


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed", "bf16-true"])
def test_every_precision_trains_with_clipping(precision):
    task = make_task("clm", lr=0.02)
    before = weights(task)
    fit(task, [ROWS["clm"]([9])] * 3, precision=precision, gradient_clip_val=0.5)
    after = weights(task)
    assert all(torch.isfinite(w).all() for w in after)
    assert not equal(before, [w.to(b.dtype) for w, b in zip(after, before, strict=True)])


def test_dropout_depends_on_the_place_in_the_data_and_on_no_hidden_state():
    def trained(disturb):
        task = make_task("clm", lr=0.02, network={"dropout": 0.3})
        if disturb:
            torch.rand(100)
        fit(task, [ROWS["clm"]([9])] * 4)
        return weights(task)

    assert equal(trained(False), trained(True))


@pytest.mark.parametrize("kind", KINDS)
def test_a_checkpoint_needs_no_other_argument(kind, tmp_path):
    task = make_task(kind, lr=0.02, network={"dropout": 0.1, "norm_gain": True})
    task.tokenizer_json = '{"some": "tokenizer"}'
    task.trained_len = 20
    batch = ROWS[kind]([12, 20])
    trainer = fit(task, [batch] * 3)
    trainer.save_checkpoint(tmp_path / "a.ckpt")
    for load in (type(task).load_from_checkpoint, load_task):
        loaded = load(str(tmp_path / "a.ckpt"))
        assert type(loaded) is type(task)
        assert loaded.config == task.config
        assert loaded.tokenizer_json == task.tokenizer_json
        assert loaded.trained_len == 20
        assert equal(weights(loaded), weights(task))
        torch.testing.assert_close(loaded.eval().losses(batch).nll, task.eval().losses(batch).nll)


def test_a_checkpoint_of_the_other_objective_is_refused_though_its_weights_fit(tmp_path):
    fit(make_task("mlm"), [ROWS["mlm"]([12])]).save_checkpoint(tmp_path / "a.ckpt")
    with pytest.raises(UserError, match=r"trained for mlm, .* configured for clm"):
        CausalLM.load_from_checkpoint(tmp_path / "a.ckpt")


class Rest:
    """The batches from ``start`` on; the length stays that of the whole epoch."""

    def __init__(self, batches, start):
        self.batches, self.start = batches, start

    def __len__(self):
        return len(self.batches)

    def __iter__(self):
        return iter(self.batches[self.start :])


def test_resuming_goes_on_to_the_bit(tmp_path):
    path = str(tmp_path / "half.ckpt")
    batches = [ROWS["clm"]([n]) for n in (6, 9, 12, 15)]

    class SaveHalfWay(pl.Callback):
        def on_train_batch_end(self, trainer, *args):
            if trainer.global_step == 2:
                trainer.save_checkpoint(path)

    whole = make_task("clm", lr=0.02)
    fit(whole, batches, callbacks=[SaveHalfWay()])
    resumed = make_task("clm", lr=0.02)
    trainer = pl.Trainer(max_steps=4, accelerator="cpu", logger=False, limit_val_batches=0,
                         enable_checkpointing=False, enable_progress_bar=False)  # fmt: skip
    trainer.fit(resumed, Rest(batches, 2), ckpt_path=path, weights_only=True)
    assert trainer.global_step == 4
    assert equal(weights(whole), weights(resumed))


def test_a_finished_run_that_is_made_longer_goes_on_by_the_longer_schedule(tmp_path):
    path = str(tmp_path / "short.ckpt")
    batches = [ROWS["clm"]([n]) for n in (6, 9, 12, 15)]
    whole = make_task("clm", lr=0.02)  # at a constant rate
    fit(whole, batches)
    fit(make_task("clm", lr=0.02), batches, max_steps=2).save_checkpoint(path)
    resumed = make_task("clm", lr=0.02)
    trainer = pl.Trainer(max_steps=4, accelerator="cpu", logger=False, limit_val_batches=0,
                         enable_checkpointing=False, enable_progress_bar=False)  # fmt: skip
    trainer.fit(resumed, Rest(batches, 2), ckpt_path=path, weights_only=True)
    assert equal(weights(whole), weights(resumed))


def test_a_resumed_run_logs_no_loss_before_its_first_step(tmp_path):
    batches = [ROWS["clm"]([n]) for n in (6, 9, 12, 15)] * 2
    path = str(tmp_path / "half.ckpt")
    options = {"accumulate_grad_batches": 2, "log_every_n_steps": 2}
    fit(make_task("clm"), batches, max_steps=2, **options).save_checkpoint(path)
    resumed, logged = make_task("clm"), []
    resumed.log_dict = lambda values: logged.append(values["step"])  # beside train/loss
    trainer = pl.Trainer(max_steps=4, accelerator="cpu", logger=False, limit_val_batches=0,
                         enable_checkpointing=False, enable_progress_bar=False,
                         **options)  # fmt: skip
    trainer.fit(resumed, Rest(batches, 4), ckpt_path=path, weights_only=True)
    assert logged == [4]
    assert "train/loss" in trainer.callback_metrics


def test_a_compiled_model_saves_the_same_keys_and_learns_the_same(tmp_path):
    torch._dynamo.config.suppress_errors = False
    plain, compiled = make_task("clm", lr=0.02), make_task("clm", lr=0.02, compile=True)
    compiled.transformer.compile(backend="eager")
    batches = [ROWS["clm"]([9])] * 2
    fit(plain, batches)
    fit(compiled, batches).save_checkpoint(tmp_path / "c.ckpt")
    assert compiled.state_dict().keys() == plain.state_dict().keys()
    loaded = CausalLM.load_from_checkpoint(tmp_path / "c.ckpt", compile=False)
    for a, b in zip(weights(loaded), weights(plain), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("network", [{}, {"n_experts": 2}, {"norm_position": "post"}])
@pytest.mark.parametrize("kind", KINDS)
def test_activation_checkpointing_learns_the_same_and_keeps_less(kind, network):
    network, batch = {"dropout": 0.1, **network}, ROWS[kind]([20, 13, 7])
    weights, kept = [], []
    for recompute in (False, True):
        task = make_task(kind, network=network, activation_checkpointing=recompute)
        fit(task, [batch] * 3)
        weights.append(task.state_dict())
        sizes = []

        def keep(tensor, sizes=sizes):
            sizes.append(tensor.numel())
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            task.losses(batch)
        kept.append(sum(sizes))
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    assert kept[1] < 0.6 * kept[0]


def test_training_flops_are_those_of_the_usual_count():
    network = {"d_model": 16, "n_layers": 2, "n_heads": 2, "vocab_size": 29}
    seq, d = 8, 16
    causal = 72 * 2 * d**2 + 6 * 2 * seq * d + 6 * d * 29
    assert make_task("clm", network=network).flops_per_token(seq) == causal
    masked = 72 * 2 * d**2 + 12 * 2 * seq * d + 0.15 * 6 * (d * 29 + d**2)
    task = make_task("mlm", network={**network, "head_transform": True})
    assert task.flops_per_token(seq) == pytest.approx(masked)


@pytest.mark.parametrize("kind", ["clm", "mlm"])
@pytest.mark.parametrize("window", [16, 64, 256])
def test_flops_of_a_window_are_those_of_the_keys_in_sight(kind, window):
    seq, shape = 256, {"d_model": 16, "n_layers": 2, "n_heads": 2, "vocab_size": 29}
    windowed = make_task(kind, network={**shape, "sliding_window": window}).flops_per_token(seq)
    distance = torch.arange(seq)[:, None] - torch.arange(seq)
    near = distance.abs() < window
    keys = float((near & (distance >= 0) if kind == "clm" else near).sum()) / seq
    attention = windowed - make_task(kind, network=shape).flops_per_token(0)
    assert attention == pytest.approx(12 * 2 * keys * 16, rel=0.04)  # half a token more or less


@pytest.mark.parametrize("wrong", [{"lr": 0.0}, {"label_smoothing": 1.0}])
def test_rates_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        CausalLM(**wrong)


@pytest.mark.parametrize("kind", KINDS)
def test_prediction_gives_every_row_by_itself(kind):
    task = make_task(kind)
    batch = ROWS[kind]([12, 20, 5])
    rows = task.predict_step(batch, 0)
    whole = task.scores(batch)
    assert len(rows) == 3
    for row, single in enumerate(rows):
        alone = task.scores(one_row(batch, row))
        torch.testing.assert_close(single.nll, alone.nll)
        assert int(single.n_targets) == int(alone.n_targets)
    torch.testing.assert_close(sum(row.nll for row in rows), whole.nll)
