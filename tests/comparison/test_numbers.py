import pytest

from pretrain.comparison.numbers import count, duration, mebibytes


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (999, "999"), (999.6, "1.00k"), (804_224, "804k"), (7_348_224, "7.35M"),
     (999_900, "1.00M"), (124e6, "124M"), (12.34e9, "12.3B")],
)  # fmt: skip
def test_counts(value, text):
    assert count(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0.4 s"), (59, "59 s"), (59.9, "1 min"), (167, "2 min 47 s"), (2889, "48 min"),
     (3599, "1 h"), (7680, "2 h 8 min"), (273_600, "3 d 4 h")],
)  # fmt: skip
def test_durations(seconds, text):
    assert duration(seconds) == text


def test_memory():
    assert mebibytes(488.8) == "489 MiB"
    assert mebibytes(20_480) == "20.0 GiB"
