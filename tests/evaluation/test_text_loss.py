import json
import math

import pytest
from judges import ids_of, make_judge, slow_causal

from pretrain.data.datamodule import MaskedLMDataModule
from pretrain.errors import UserError
from pretrain.evaluation import CausalTextReport, MaskedTextReport, Scorer, text_loss

LINES = ["the cat sat on the mat.", "a dog ran — naïvely.", "the sun", "abc " * 40]


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "some.txt"
    path.write_text("\n".join(LINES) + "\n", encoding="utf-8")
    return path


def test_a_causal_loss_is_that_of_every_token_but_the_first(text):
    task, tokenizer = make_judge("clm", position="learned", max_len=32)
    task.trained_len = 32
    tokens = [token for line in LINES for token in [*ids_of(tokenizer, line), tokenizer.end_id]]
    nats = 0.0
    for start in range(0, len(tokens) - 1, 32):  # each block begins anew
        nats -= sum(slow_causal(task, tokens[start : start + 33], 1))
    n_targets = len(tokens) - 1
    n_bytes = sum(len(line.encode()) for line in LINES)
    report = text_loss(Scorer(task, "32-true"), str(text))
    assert isinstance(report, CausalTextReport)
    assert report.target_tokens == n_targets > 64
    assert report.seq_len == 32
    assert report.loss == pytest.approx(nats / n_targets, rel=1e-5)
    assert report.perplexity == pytest.approx(math.exp(nats / n_targets), rel=1e-5)
    assert report.bits_per_byte == pytest.approx(nats / math.log(2) / n_bytes, rel=1e-5)


def test_a_masked_loss_is_that_of_validation(text):
    task, tokenizer = make_judge("mlm")
    task.trained_len = 16
    report = text_loss(Scorer(task, "32-true"), str(text))
    assert isinstance(report, MaskedTextReport)
    path = text.parent / "tokenizer.json"
    tokenizer.save(path)
    data = MaskedLMDataModule(
        str(text), val_source=str(text), tokenizer=str(path), seq_len=16, batch_size=3,
        cache_dir=str(text.parent), seed=0,
    )  # fmt: skip
    data.prepare_data()
    data.setup()
    sums = [task.scores(batch) for batch in data.val_dataloader()]
    n_targets = sum(int(part.n_targets) for part in sums)
    assert report.target_tokens == n_targets
    assert report.loss == pytest.approx(sum(float(part.nll) for part in sums) / n_targets, rel=1e-5)
    assert report.masked_accuracy == sum(int(part.n_correct) for part in sums) / n_targets
    assert text_loss(Scorer(task, "32-true"), str(text)) == report  # masks are fixed


def test_a_field_of_rows_and_another_rule_for_documents(text):
    task, _ = make_judge("clm")
    scorer = Scorer(task, "32-true")
    by_line = text_loss(scorer, str(text))
    rows = text.with_suffix(".jsonl")
    rows.write_text("".join(json.dumps({"body": line}) + "\n" for line in LINES))
    assert text_loss(scorer, str(rows), text_field="body") == by_line
    assert by_line.seq_len == task.config.max_len  # this task does not know what it was trained on
    assert text_loss(scorer, str(text), seq_len=24).seq_len == 24
    whole = text_loss(scorer, str(text), document="file")
    assert whole.target_tokens != by_line.target_tokens


def test_blocks_longer_than_the_learned_positions_are_refused(text):
    task, _ = make_judge("clm", position="learned", max_len=32)
    with pytest.raises(UserError, match="seq_len is 0"):
        text_loss(Scorer(task), str(text), seq_len=0)
    with pytest.raises(UserError, match=r"seq_len \(33\) is longer than the 32 learned"):
        text_loss(Scorer(task), str(text), seq_len=33)


@pytest.mark.parametrize(
    ("content", "complaint"), [("", "holds no document"), ("e", "nothing to predict")]
)
def test_a_text_without_a_target_is_refused(content, complaint, tmp_path):
    path = tmp_path / "some.txt"
    path.write_text(content)
    task, _ = make_judge("clm")
    task.tokenizer_json = make_judge("clm")[1].to_json().replace("<|endoftext|>", "<nothing>")
    with pytest.raises(UserError, match=complaint):
        text_loss(Scorer(task), str(path))
