import itertools

import pytest
import torch

from pretrain import hardware

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _fresh_answers():
    hardware.multiplies_bf16_fast.cache_clear()
    hardware.multiplies_fp16_fast.cache_clear()
    yield
    hardware.multiplies_bf16_fast.cache_clear()
    hardware.multiplies_fp16_fast.cache_clear()


def _machine(monkeypatch, *, claims: bool | None, reduced: float) -> None:
    """A CPU whose reduced-precision product takes ``reduced`` times as long as a float32 one.

    It claims the instructions, or denies them, or (None) does not name them.
    """
    flags = {} if claims is None else {"avx512_bf16": claims}
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: flags)
    monkeypatch.setattr(
        hardware, "_time", lambda matrix: 1.0 if matrix.dtype == torch.float32 else reduced
    )
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)


@pytest.mark.parametrize(
    ("claims", "reduced", "fast"),
    [(True, 0.25, True), (True, 1.3, True), (True, 100.0, False), (False, 115.0, False)],
)
def test_a_cpu_is_asked_and_a_timed_product_has_the_last_word(monkeypatch, claims, reduced, fast):
    _machine(monkeypatch, claims=claims, reduced=reduced)
    assert hardware.multiplies_bf16_fast(CPU) is fast
    expected = "bf16-mixed" if fast else "32-true"
    assert hardware.resolve_precision("auto", "cpu") == expected


def test_a_processor_that_names_no_instructions_can_prove_its_speed(monkeypatch):
    _machine(monkeypatch, claims=None, reduced=0.4)
    assert hardware.multiplies_bf16_fast(CPU)
    hardware.multiplies_bf16_fast.cache_clear()
    _machine(monkeypatch, claims=None, reduced=1.0)
    assert not hardware.multiplies_bf16_fast(CPU)


def test_a_processor_that_denies_the_instructions_needs_no_timing(monkeypatch):
    _machine(monkeypatch, claims=False, reduced=0.4)
    assert not hardware.multiplies_bf16_fast(CPU)


def test_a_gpu_without_bf16_hardware_gets_16_mixed(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: False)
    assert hardware.resolve_precision("auto", "gpu") == "16-mixed"
    assert "bf16-mixed is slow" in (hardware.slow_precision_warning("bf16-mixed", "gpu") or "")


def test_a_named_precision_is_kept_and_a_slow_one_warned_of(monkeypatch):
    _machine(monkeypatch, claims=False, reduced=100.0)
    assert hardware.resolve_precision("bf16-mixed", "cpu") == "bf16-mixed"
    warning = hardware.slow_precision_warning("bf16-mixed", "cpu")
    assert warning is not None
    assert "32-true" in warning
    assert hardware.slow_precision_warning("32-true", "cpu") is None


def test_this_machine_gives_one_answer_twice():
    assert hardware.multiplies_bf16_fast(CPU) is hardware.multiplies_bf16_fast(CPU)


def test_products_that_have_to_wait_do_not_change_the_answer(monkeypatch):
    """Nine of ten products in bfloat16 are kept waiting, as on a busy machine."""
    _machine(monkeypatch, claims=True, reduced=0.25)
    plain, n_calls = hardware._time, itertools.count()

    def waiting(matrix):
        is_kept = matrix.dtype == torch.bfloat16 and next(n_calls) % 10
        return plain(matrix) * (1000 if is_kept else 1)

    monkeypatch.setattr(hardware, "_time", waiting)
    assert hardware.multiplies_bf16_fast(CPU)


def test_the_number_of_threads_is_as_before():
    before = torch.get_num_threads()
    hardware.multiplies_bf16_fast(CPU)
    assert torch.get_num_threads() == before


@pytest.mark.parametrize(
    ("precision", "accelerator", "on_gpu", "chosen"),
    [
        ("32-true", "auto", True, ["high"]),
        ("32-true", "cpu", True, []),
        ("32-true", "auto", False, []),
        ("bf16-mixed", "gpu", True, []),
    ],
)
def test_tensor_cores_take_float32_where_a_gpu_runs_in_it_throughout(
    monkeypatch, precision, accelerator, on_gpu, chosen
):
    asked = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: on_gpu)
    monkeypatch.setattr(torch, "set_float32_matmul_precision", asked.append)
    hardware.use_tensor_cores(precision, accelerator)
    assert asked == chosen
