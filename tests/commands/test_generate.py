import subprocess
import sys
from pathlib import Path

import pytest
from writers import make_writer

from pretrain.commands import generate
from pretrain.errors import UserError
from pretrain.tasks import save_task
from pretrain.tasks.sampling import Decoding, sample


@pytest.fixture(scope="module")
def writer(tmp_path_factory):
    """A task, its tokenizer, and the checkpoint of both."""
    task, tokenizer = make_writer()
    path = tmp_path_factory.mktemp("writer") / "letters.ckpt"
    save_task(task, path)
    return task, tokenizer, str(path)


@pytest.fixture
def run(writer, capsys):
    def printed(*arguments):
        generate.run([writer[2], *arguments])
        return capsys.readouterr().out

    return printed


def expected(writer, prompt, decoding, seed=1):
    task, tokenizer, _ = writer
    *_, (row,) = sample(task, [tokenizer.encode_prompt(prompt)], decoding, [seed])
    return prompt + row.text


def test_a_single_text_is_the_prompt_and_what_follows(run, writer):
    usual = Decoding(n_tokens=20, temperature=0.8, top_k=50)
    text = run("--prompt", "the cat", "--n_tokens", "20")
    assert text == expected(writer, "the cat", usual) + "\n"
    assert run("--prompt", "the cat", "--n_tokens", "20", "--seed", "2") != text
    assert run("--n_tokens", "5").count("\n") == 1


def test_a_single_text_is_shown_while_it_is_written(writer, monkeypatch):
    pieces = []
    monkeypatch.setattr("builtins.print", lambda text="", **_: pieces.append(text))
    generate.run([writer[2], "--prompt", "the ", "--n_tokens", "10"])
    assert pieces[0] == "the "
    assert sum(len(piece) == 1 for piece in pieces) >= 9


def test_options_reach_the_rules(run, writer):
    rules = ["--top_p", "0.5", "--repetition_penalty", "1.3", "--temperature", "1.5"]
    decoding = Decoding(n_tokens=20, top_p=0.5, repetition_penalty=1.3, temperature=1.5)
    assert (
        run("--prompt", "a", "--n_tokens", "20", *rules) == expected(writer, "a", decoding) + "\n"
    )
    greedy = expected(writer, "a", Decoding(n_tokens=20, temperature=0))
    assert run("--prompt", "a", "--n_tokens", "20", "--temperature", "0") == greedy + "\n"
    stop = greedy[3:5]
    stopped = run("--prompt", "a", "--temperature", "0", "--stop", "never", "--stop", stop)
    assert stopped == greedy[: greedy.index(stop, 1)] + "\n"


def test_several_prompts_and_samples_stand_under_their_names(run, writer, tmp_path):
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("the cat\n\na dog ran\n")
    text = run("--prompts", str(prompts), "--n_samples", "2", "--n_tokens", "12", "--top_k", "0",
               "--temperature", "1", "--seed", "5")  # fmt: skip
    texts = [
        f"===== prompt {n + 1}, sample {m + 1} =====\n"
        + expected(writer, prompt, Decoding(n_tokens=12), 5 + m)
        for n, prompt in enumerate(("the cat", "a dog ran"))
        for m in range(2)
    ]
    assert text == "\n".join(texts) + "\n"
    assert "===== sample 2 =====" in run("--prompt", "a", "--n_samples", "2", "--n_tokens", "3")


def test_more_rows_than_fit_at_once_come_in_order(run, writer, monkeypatch):
    options = ("--prompt", "the", "--n_samples", "5", "--n_tokens", "6")
    at_once = run(*options)
    monkeypatch.setattr(generate, "ROWS_AT_ONCE", 2)
    assert run(*options) == at_once


def test_beams_find_texts_best_first(run):
    text = run("--prompt", "the", "--n_beams", "4", "--n_samples", "2", "--n_tokens", "6")
    assert text.startswith("===== sample 1 =====\nthe")
    assert run("--prompt", "the", "--n_beams", "4", "--n_tokens", "6") == text.split("\n")[1] + "\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--n_tokens", "0"], "n_tokens is 0"),
        (["--n_samples", "0"], "n_samples is 0"),
        (["--top_p", "2"], "top_p is 2.0"),
        (["--seed", str(2**64)], "seed is 18446744073709551616"),
        (["--repetition_penalty", "1e-300"], "repetition_penalty is 1e-300"),
        (["--prompt", "caf\udce9"], "no UTF-8"),
        (["--n_beams", "2", "--n_samples", "3"], "n_samples is 3"),
        (["--n_beams", "2", "--temperature", "1.5"], "leave out temperature"),
        (["--prompt", "a", "--prompts", "b"], "both given"),
        (["--prompts", "nowhere.txt"], "nowhere.txt can't be read"),
        (["--top_q", "2"], "top_q"),
        (["--temperature", "warm"], "temperature"),
    ],
)
def test_a_wrong_option_is_told_in_one_sentence(writer, arguments, words):
    with pytest.raises(UserError, match=words) as error:
        generate.run([writer[2], *arguments])
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("content", "words"), [(b"\n \n", "no prompt"), (b"\xff\xfe", "UTF-8")])
def test_a_file_without_prompts_is_told(tmp_path, content, words):
    path = tmp_path / "prompts.txt"
    path.write_bytes(content)
    with pytest.raises(UserError, match=words):
        generate.run(["x.ckpt", "--prompts", str(path)])


def test_a_masked_model_writes_no_text(tmp_path):
    from tiny import make_task

    save_task(make_task("mlm"), tmp_path / "bert.ckpt")
    with pytest.raises(UserError, match="fill-mask"):
        generate.run([str(tmp_path / "bert.ckpt")])


def test_help_needs_no_torch():
    code = (
        "import sys; from pretrain.cli import main\n"
        "try: main(['generate', '--help'])\n"
        "except SystemExit: sys.exit('torch' in sys.modules)"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60, cwd=Path(__file__).parents[2]
    )
    assert done.returncode == 0
    assert "--repetition_penalty" in done.stdout
