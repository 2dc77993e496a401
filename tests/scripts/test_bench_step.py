"""The benches of the training step: both sides compute the same, and figures follow from times."""

import json
import threading
from multiprocessing import Pipe
from pathlib import Path

import peers
import pytest
import torch

from pretrain.tasks.losses import IGNORE

SCRIPTS = Path(__file__).parents[2] / "scripts"
SHAPE = {
    "vocab_size": peers.VOCAB, "d_model": peers.D, "n_layers": peers.LAYERS,
    "n_heads": peers.HEADS, "seq_len": peers.MAX_LEN, "batch_size": 4,
}  # fmt: skip
KINDS = ("bert", "gpt")


@pytest.fixture(autouse=True)
def scripts_are_found(monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPTS))


def workload(kind, **changes):
    from step_workloads import Workload

    return Workload(kind, **{**SHAPE, **changes})


@pytest.mark.parametrize(
    ("name", "by_hand"),
    [
        # 72·L·d² + 12·L·S·d + 0.15·6·(d·V + d²), of a GPT half the attention and the whole head
        ("A", 18_874_368 + 1_572_864 + 0.9 * (7_813_632 + 65_536)),
        ("B", 150_994_944 + 6_291_456 + 0.9 * (15_627_264 + 262_144)),
        ("C", 18_874_368 + 1_572_864 + 77_194_752),
        ("D", 63_700_992 + 3_538_944 + 149_760),
    ],
)
def test_useful_flops_are_those_computed_by_hand(name, by_hand):
    from step_workloads import WORKLOADS

    assert WORKLOADS[name].flops_per_token == pytest.approx(by_hand)


@pytest.mark.parametrize("kind", KINDS)
def test_useful_flops_are_those_that_a_run_logs(kind):
    from step_ours import build

    task = build(workload(kind))
    task.configure_model()
    assert workload(kind).flops_per_token == pytest.approx(task.flops_per_token(peers.MAX_LEN))


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("kind", KINDS)
def test_both_sides_have_the_same_loss_with_the_same_weights(kind, attention):
    import step_ours
    import step_peers
    from step_workloads import batches

    torch.manual_seed(1)
    task = step_ours.build(workload(kind))
    peer = step_peers.build(workload(kind), attention)
    assert peer.config._attn_implementation == attention
    with torch.no_grad():
        for parameter in peer.parameters():  # large enough to matter, gains and biases too
            parameter.add_(0.1 * torch.randn_like(parameter))
    task.configure_model()
    renamed = peers.weights_of_bert if kind == "bert" else peers.weights_of_gpt2
    task.load_state_dict(renamed(peer))
    for batch in batches(workload(kind)):
        theirs = peer.eval()(**step_peers.as_passed(batch)).loss
        if kind == "gpt":  # the peer's last token of a row has no target
            batch["labels"][:, -1] = IGNORE
        sums = task.eval().losses(batch)
        ours = (sums.objective / sums.n_targets).item()
        assert ours == pytest.approx(theirs.item(), rel=1e-5)


def test_a_masked_batch_hides_the_stated_share_and_differs_from_the_next():
    from step_workloads import MASKING, batches

    large = workload("bert", seq_len=200, batch_size=20)
    first, second = batches(large)[:2]
    n_targets = int((first["labels"] != IGNORE).sum())
    assert n_targets == pytest.approx(MASKING.rate * large.tokens_per_step, abs=20)
    assert not torch.equal(first["input_ids"], second["input_ids"])
    assert torch.equal(first["input_ids"], batches(large)[0]["input_ids"])


def train_here(job):
    """What the parent is told by a training that takes its turns in a thread."""
    from step_workers import work

    ours, theirs = Pipe()
    threading.Thread(target=work, args=(theirs, job), daemon=True).start()
    told = []
    while not told or told[-1][0] in ("ready", "seconds"):
        assert ours.poll(120), told
        told.append(ours.recv())
        if told[-1][0] != "memory" and len(told) <= job.n_turns:
            ours.send("go")
    return told


@pytest.mark.parametrize(
    ("kind", "accumulate", "precision"), [("bert", 1, "bf16-mixed"), ("gpt", 2, "32-true")]
)
def test_all_variants_train_on_the_same_batches_and_take_their_turns(
    kind, accumulate, precision, monkeypatch
):
    import step_workers
    import step_workloads

    read: list[torch.Tensor] = []
    given = step_workloads._Repeated.__getitem__

    def noted(self, index):
        batch = given(self, index)
        read.append(batch["input_ids"])
        return batch

    monkeypatch.setattr(step_workloads._Repeated, "__getitem__", noted)
    shape = workload(kind, accumulate=accumulate)
    by_variant = {}
    for variant in step_workers.VARIANTS:
        if "compiled" in variant:  # minutes
            continue
        read.clear()
        job = step_workers.Job(variant, shape, precision, n_turns=2, n_steps=3)
        told = train_here(job)
        assert [word for word, _ in told] == ["ready", "seconds", "seconds", "memory"], told
        assert all(seconds > 0 for _, seconds in told[1:3])
        by_variant[variant] = torch.stack(read)
    expected = by_variant["transformers_sdpa"]
    assert len(expected) == (step_workers.WARM_UP + 2 * 3) * accumulate
    assert all(torch.equal(ids, expected) for ids in by_variant.values())


def test_a_variant_that_can_not_be_built_says_so_in_one_line():
    from step_workers import Job

    # 5 heads do not divide the width.
    told = train_here(Job("ours_bare", workload("gpt", n_heads=5), "32-true", 2, 1))
    assert told[-1][0] == "failed"
    assert "n_heads" in told[-1][1]
    assert "\n" not in told[-1][1]


class _FakeWorker:
    """Takes as many seconds a turn as it is told to; ``breaks_at`` a turn it fails."""

    log: list[str] = []  # noqa: RUF012
    breaks_at = {"broken": 1, "unready": -1}  # noqa: RUF012

    def __init__(self, job):
        self.variant, self.turns = job.variant, 0

    def wait_until_ready(self, limit_s):
        self._fail_at(-1)

    def turn(self):
        self._fail_at(self.turns)
        self.turns += 1
        self.log.append(self.variant)
        return 6.0 * self.turns

    def memory(self):
        return {"peak_mib": 2.0, "net_peak_mib": 1.0}

    def stop(self):
        pass

    def _fail_at(self, turn):
        from step_workers import WorkerError

        if self.breaks_at.get(self.variant) == turn:
            raise WorkerError("it broke")


def test_rounds_rotate_and_what_fails_is_left_out(monkeypatch):
    import step_rounds

    monkeypatch.setattr(step_rounds, "Worker", _FakeWorker)
    monkeypatch.setattr(_FakeWorker, "log", [])
    said = []
    found = step_rounds.measure(
        workload("gpt"), ["a", "unready", "b", "broken"], "32-true", 3, 2, said.append
    )
    assert [name for name in _FakeWorker.log if name != "broken"] == ["a", "b", "b", "a", "a", "b"]
    assert found.seconds_per_step == {"a": [3.0, 6.0, 9.0], "b": [3.0, 6.0, 9.0]}
    assert set(found.memory) == {"a", "b"}
    assert found.left_out == {"unready": "it broke", "broken": "it broke"}
    assert any("broken is left out: it broke" in line for line in said)
    tokens = SHAPE["seq_len"] * SHAPE["batch_size"]
    assert found.tokens_per_s("a") == pytest.approx(tokens / 6)


def measured(**seconds):
    from step_rounds import Measurement

    names = enumerate(seconds, 1)
    memory = {name: {"peak_mib": 100.0 + n, "net_peak_mib": 10.0 * n} for n, name in names}
    return Measurement(workload("gpt"), dict(seconds), memory)


def test_ratios_are_against_the_faster_peer_that_is_not_compiled():
    from bench_step import compare

    found = measured(
        ours=[1.0, 2.0, 9.0], ours_dropout=[3.0, 2.5, 2.0], transformers_sdpa=[6.0, 8.0, 7.0],
        transformers_eager=[4.0, 5.0, 90.0], transformers_compiled=[3.0, 3.0, 3.0],
    )  # fmt: skip
    figures = compare(found, gemm=1e9)
    assert figures["faster_peer"] == "transformers_eager"
    assert figures["ratio"] == pytest.approx(5 / 2)
    assert figures["ratio_compiled"] == pytest.approx(3 / 2)
    assert figures["dropout_cost"] == pytest.approx(0.25)
    assert figures["memory_ratio"] == pytest.approx(10 / 40)
    rate = found.workload.tokens_per_step / 2
    assert figures["tokens_per_s"]["ours"] == pytest.approx(rate)
    assert figures["mfu"] == pytest.approx(rate * found.workload.flops_per_token / 1e9)


def test_what_was_not_measured_is_none():
    from bench_step import compare, lightning_share, table

    figures = compare(measured(ours_bare=[1.0]), gemm=1e9)
    for name in ("ratio", "ratio_compiled", "mfu", "memory_ratio", "dropout_cost", "faster_peer"):
        assert figures[name] is None, name
    assert "ours_bare" in table("A", measured(ours_bare=[1.0]), 1e9)
    assert set(lightning_share(measured()).values()) == {None}


def test_the_share_of_lightning_is_what_lies_between_both_loops():
    from bench_step import lightning_share

    found = measured(ours=[0.004, 0.005], ours_bare=[0.003, 0.002], ours_progress_bar=[0.006])
    assert lightning_share(found) == pytest.approx({
        "trainer_ms": 4.5, "bare_ms": 2.5, "share_ms": 2.0,
        "with_progress_bar_ms": 6.0, "share_with_progress_bar_ms": 3.5,
    })  # fmt: skip


def test_a_real_run_reports_all_figures(monkeypatch, tmp_path, capsys):
    import bench_step

    monkeypatch.setattr(bench_step, "WORKLOADS", {"T": workload("bert")})
    monkeypatch.setattr(bench_step, "GEMM_SIZES", (64,))
    monkeypatch.setattr(bench_step, "resolve_precision", lambda name: "32-true")
    target = tmp_path / "report.json"
    bench_step.main([
        f"--json={target}", "--workloads=T", "--variants=ours,transformers_sdpa", "--rounds=2",
        "--steps=2",
    ])  # fmt: skip
    report = json.loads(target.read_text())
    assert {"cpu", "capability", "n_threads", "torch", "precision", "gemm_gflops"} < set(report)
    figures = report["workloads"]["T"]
    assert figures["left_out"] == {}
    for name in ("tokens_per_s", "peak_mib", "net_peak_mib", "seconds_per_step"):
        assert set(figures[name]) == {"ours", "transformers_sdpa"}, name
        assert all(figures[name].values()), name
    rates = {}
    for variant, seconds in figures["seconds_per_step"].items():
        assert len(seconds) == 2
        rates[variant] = sum(workload("bert").tokens_per_step / one for one in seconds) / 2
        assert 0 < figures["net_peak_mib"][variant] < figures["peak_mib"][variant]
    assert figures["tokens_per_s"] == pytest.approx(rates)
    assert figures["ratio"] == pytest.approx(rates["ours"] / rates["transformers_sdpa"])
    assert figures["mfu"] > 0
    assert "| transformers_sdpa |" in capsys.readouterr().out


def test_unknown_names_are_refused_with_those_that_are_known(capsys):
    import bench_step

    with pytest.raises(SystemExit):
        bench_step.parse(["--json=x", "--variants=ours,litgpt"])
    assert "litgpt is none of ours, " in capsys.readouterr().err
