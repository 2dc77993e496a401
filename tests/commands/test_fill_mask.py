import pytest
from tiny import SHAPE, make_task

from pretrain.commands.fill_mask import run
from pretrain.data.tokenizer_training import TokenizerRule, train_tokenizer
from pretrain.errors import UserError
from pretrain.model import TransformerConfig
from pretrain.tasks import Encoder, save_task


def test_guesses_for_each_mask_are_printed_with_their_probabilities(tmp_path, capsys):
    tokenizer = train_tokenizer(["the cat sat on the mat."] * 3, TokenizerRule("wordpiece", 40))
    task = make_task("mlm", network={"vocab_size": tokenizer.vocab_size})
    task.tokenizer_json = tokenizer.to_json()
    save_task(task, tmp_path / "bert.ckpt")
    run([str(tmp_path / "bert.ckpt"), "the [MASK] sat on the [MASK].", "--top_k", "3"])
    first, second = capsys.readouterr().out.strip().split("\n\n")
    for block in (first, second):
        shares = [float(line.split("%")[0]) for line in block.split("\n")]
        assert shares == sorted(shares, reverse=True)
        assert len(shares) == 3


def test_a_model_without_a_masked_head_is_refused(tmp_path):
    encoder = Encoder(TransformerConfig(**SHAPE))
    encoder.configure_model()
    for name, task in (("gpt", make_task("clm")), ("encoder", encoder)):
        path = tmp_path / f"{name}.ckpt"
        save_task(task, path)
        with pytest.raises(UserError, match="no masked language model"):
            run([str(path), "a [MASK]"])


def test_no_guess_is_no_answer(tmp_path):
    with pytest.raises(UserError, match="top_k is 0"):
        run(["x.ckpt", "[MASK]", "--top_k", "0"])
