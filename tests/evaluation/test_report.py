from dataclasses import dataclass

from pretrain.evaluation.report import Report, aligned


@dataclass(frozen=True)
class Found(Report):
    accuracy: float
    perplexity: float
    n_things: int


def test_a_report_shows_each_figure_as_a_person_reads_it():
    found = Found(0.12345, 1234.5, 12345)
    assert found.table().splitlines() == [
        "accuracy        12.35%",
        "perplexity  1,234.5000",
        "n_things        12,345",
    ]
    assert found.to_dict() == {"accuracy": 0.12345, "perplexity": 1234.5, "n_things": 12345}
    assert found.figures() == {"accuracy": 0.12345, "perplexity": 1234.5, "n_things": 12345.0}


def test_columns_are_aligned():
    assert aligned([("a", "1", "22"), ("bcd", "333", "4")]) == "a      1  22\nbcd  333   4"
