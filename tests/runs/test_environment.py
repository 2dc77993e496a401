import sys

from pretrain.runs.environment import describe_machine, peak_memory_mib


def test_the_machine_is_described_in_plain_values():
    machine = describe_machine()
    assert machine["device"]
    assert machine["versions"]["python"] == ".".join(map(str, sys.version_info[:3]))


def test_peak_memory_is_that_of_a_python_with_torch():
    assert 50 < peak_memory_mib() < 100_000
