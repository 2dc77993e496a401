import pytest

from pretrain.commands.tokenizer import run
from pretrain.data.tokenizer import Tokenizer
from pretrain.errors import UserError


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "x.txt"
    path.write_text("".join(f"line number {n}\n" for n in range(100)))
    return path


def test_train_writes_a_tokenizer_that_show_explains(corpus, tmp_path, capsys):
    out = tmp_path / "new" / "tokenizer.json"
    run(["train", str(corpus), str(out), "--kind", "bpe", "--vocab_size", "270"])
    assert Tokenizer.load(out).vocab_size == 270
    assert "270 tokens" in capsys.readouterr().out

    run(["show", str(out), "line<|endoftext|>"])
    shown = capsys.readouterr().out
    assert "vocabulary: 270" in shown
    assert "<|endoftext|> = 0" in shown
    assert "<|endoftext|> (0)" in shown


def test_options_of_source_and_rule_reach_them(tmp_path):
    path, out = tmp_path / "x.jsonl", tmp_path / "t.json"
    path.write_text('{"body": "ab"}\n{"body": null}\n{"body": "z"}\n')
    run(["train", str(path), str(out), "--kind", "char", "--end_token", "false", "--text_field",
         "body", "--on_bad_record", "skip", "--split", "tail", "--split_share", "0.3"])  # fmt: skip
    assert set(Tokenizer.load(out).backend.get_vocab()) == {"<unk>", "a", "b"}


def test_a_source_that_is_not_there_writes_nothing(tmp_path):
    out = tmp_path / "t.json"
    with pytest.raises(UserError, match="no such file"):
        run(["train", "nowhere.txt", str(out), "--kind", "bpe"])
    assert not out.exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["train"], "required"),
        (["show"], "required"),
        ([], "train"),
        (["train", "a", "b", "--kin", "bpe"], "kind"),
        (["train", "a", "b", "--kind", "foo"], "wordpiece, bpe, char"),
    ],
)
def test_a_mistyped_command_is_told_in_one_sentence(arguments, words):
    with pytest.raises(UserError, match=words) as error:
        run(arguments)
    assert "\n" not in str(error.value)
