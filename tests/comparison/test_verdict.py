import pytest
from run_folders import config, curve, finished, write_run

from pretrain.comparison.comparison import compare
from pretrain.comparison.run import load_runs


def _verdict(*paths):
    return compare(load_runs([str(path) for path in paths])).verdict


def test_the_best_by_how_much_and_since_when(tmp_path):
    worse, better = finished(tmp_path / "worse", 2.0), finished(tmp_path / "better", 1.0, lr=0.01)
    verdict = _verdict(worse, better)
    assert verdict.headline == (
        "better is best: 1.000 nats validation loss, 1.000 (50 %) below worse."
    )
    assert [run.name for run in verdict.runs] == ["better", "worse"]
    said = " ".join(verdict.sentences)
    assert "(2.000) by step 400, after 16 s of training" in said  # 5 - 4/5 * 4 = 1.8
    assert "both saw 1.54M tokens" in said
    assert "one setting, model.lr: 0.001 against 0.01" in said
    assert verdict.cautions == []


def test_what_it_cost(tmp_path):
    dear = write_run(tmp_path / "dear", {"val_loss_nats": 1.0, "wall_time_s": 400.0}, config())
    cheap = write_run(tmp_path / "cheap", {"wall_time_s": 100.0, "tokens_seen": 500}, config())
    said = " ".join(_verdict(dear, cheap).sentences)
    assert "it took 6 min 40 s against 1 min 40 s (4.0 times)" in said
    assert "1.54M tokens against 500 tokens (3072 times)" in said
    assert "configurations are the same" in said


def test_a_small_difference_is_no_victory(tmp_path):
    paths = [finished(tmp_path / name, loss) for name, loss in (("a", 1.91), ("b", 1.90))]
    verdict = _verdict(*paths, finished(tmp_path / "c", 3.0))
    assert verdict.headline.startswith("b and a are as good as equal: 1.900 to 1.910 nats")
    assert "Another seed may turn the order round." in verdict.sentences
    assert "Next is c with 3.000." in verdict.sentences


@pytest.mark.parametrize(
    ("other", "aspect"),
    [({"source": "news"}, "validation text"), ({"split": "tail"}, "validation text"),
     ({"tokenizer": "char"}, "tokenizer"), ({"model": "pretrain.MaskedLM"}, "objective")],
)  # fmt: skip
def test_losses_of_different_tasks_are_not_compared(other, aspect, tmp_path):
    paths = []
    for name, settings in (("a", {}), ("b", other)):
        paths.append(write_run(tmp_path / name, {"val_bits_per_byte": None}, config(**settings)))
    comparison = compare(load_runs([str(path) for path in paths]))
    assert "can't be compared" in comparison.verdict.headline
    assert aspect in comparison.verdict.headline
    assert comparison.verdict.best is None
    assert all(row.best is None for row in comparison.results if "loss" in row.title)


def test_own_validation_text_is_what_counts(tmp_path):
    paths = [finished(tmp_path / s, 2.0, source=s, val_source="held_out") for s in ("a", "b")]
    assert "equal" in _verdict(*paths).headline


def test_other_tokenizers_on_the_same_text_are_compared_by_bits_per_byte(tmp_path):
    low = write_run(tmp_path / "bpe", {"val_loss_nats": 4.0, "val_bits_per_byte": 1.5}, config())
    card = {"val_loss_nats": 1.9, "val_bits_per_byte": 2.5}
    high = write_run(tmp_path / "char", card, config(tokenizer="char"))
    verdict = _verdict(low, high)
    assert verdict.headline == "bpe is best: 1.500 bits per byte, 1.000 (40 %) below char."
    assert "losses in nats can't be compared" in verdict.cautions[0]


def test_tokenizers_are_compared_by_what_they_are(tmp_path):
    paths = [finished(tmp_path / name, loss) for name, loss in (("a", 1.0), ("b", 2.0))]
    for path in paths:
        (path / "tokenizer.json").write_text(path.name)
    comparison = compare(load_runs([str(path) for path in paths]))
    assert not comparison.verdict.same_task


def test_bits_per_byte_of_different_texts_make_no_winner(tmp_path):
    paths = [finished(tmp_path / s, 2.0, source=s) for s in ("a", "b")]
    comparison = compare(load_runs([str(path) for path in paths]))
    assert comparison.verdict.headline.startswith("On different validation texts, no run is best.")
    assert comparison.verdict.best is None
    assert all(row.best is None for row in comparison.results)


def test_of_mixed_runs_those_alike_are_compared(tmp_path):
    paths = [finished(tmp_path / "g1", 1.0), finished(tmp_path / "g2", 2.0)]
    masked = {"model": "pretrain.MaskedLM"}
    verdict = _verdict(paths[0], finished(tmp_path / "bert", 3.0, **masked), paths[1])
    assert "Among g1 and g2: g1 is best" in " ".join(verdict.sentences)
    assert "bert is a MaskedLM" in " ".join(verdict.sentences)


def test_runs_that_are_not_over_are_pointed_out(tmp_path):
    failed = {"status": "failed", "val_loss_nats": None, "steps": 70, "warnings": ["Oops: full"]}
    alert = {"name": "units_dying", "step": 3, "where": "", "text": "Half are dead."}
    paths = [
        write_run(tmp_path / "a", failed, config(), curve(5.0, 2.0)),
        write_run(tmp_path / "b", {"alerts": [alert]}, config(), curve(5.0, 1.0)),
        write_run(tmp_path / "c", {"best_val_loss_nats": None, "val_loss_nats": None}, config()),
    ]
    verdict = _verdict(*paths)
    assert "best validation loss" in verdict.headline  # not all have the final one
    said = " ".join(verdict.cautions)
    assert "a failed at step 70 (Oops: full)." in said
    assert "c has no validation loss." in said
    assert "b raised an alert: units dying." in said


def test_one_run_is_described(tmp_path):
    verdict = _verdict(finished(tmp_path / "a", 1.9))
    assert verdict.headline == "a is finished: 1.900 nats validation loss, 2.700 bits per byte."
    rising = write_run(tmp_path / "up", {}, config(), [*curve(5.0, 1.0), *curve(9.0, 2.0)[-1:]])
    assert "lowest at step 400" in " ".join(_verdict(rising).sentences)


def test_runs_without_any_loss_or_configuration(tmp_path):
    card = {"val_loss_nats": None, "best_val_loss_nats": None}
    paths = [write_run(tmp_path / name, card) for name in "ab"]
    verdict = _verdict(*paths)
    assert verdict.headline == "No run has a validation loss yet."
    assert "a and b kept no config.yaml" in " ".join(verdict.cautions)
