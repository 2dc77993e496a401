import time

import pytest
import torch

from pretrain.diagnostics.peak_flops import measured_flops, peak_flops, published_half_precision


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("NVIDIA A100-SXM4-80GB", 312e12),
        ("NVIDIA A10", 125e12),
        ("NVIDIA H100 80GB HBM3", 989e12),
        ("NVIDIA H100 PCIe", 756e12),
        ("NVIDIA H100 NVL", 835e12),
        ("NVIDIA H200", 989e12),
        ("NVIDIA L4", 121e12),
        ("NVIDIA L40S", 362e12),
        ("NVIDIA GeForce RTX 4090", 165e12),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", None),
        ("NVIDIA GeForce RTX 4090 D", None),
        ("Something New 1000", None),
    ],
)
def test_published_peaks_are_found_by_the_device_name(name, expected):
    assert published_half_precision(name) == expected


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed", "16-mixed"])
def test_a_cpu_is_measured_quickly_even_in_a_slow_precision(precision):
    start = time.perf_counter()
    flops = peak_flops(torch.device("cpu"), precision)
    assert 1e7 < flops < 1e14
    assert time.perf_counter() - start < 2  # a slow machine under load; 0.2 s alone


def test_measuring_leaves_the_random_state_alone():
    state = torch.get_rng_state()
    measured_flops(torch.device("cpu"), torch.float32)
    assert torch.equal(torch.get_rng_state(), state)
