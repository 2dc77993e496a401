import json
from pathlib import Path

import pytest
from judges import make_judge
from wandb_runs import history

from pretrain.cli import main
from pretrain.commands.zero_shot import run
from pretrain.errors import UserError
from pretrain.runs.folder import RunFolder
from pretrain.runs.loggers import SafeWandbLogger
from pretrain.tasks import loading

PAIRS = [
    {"UID": uid, "field": "syntax", "linguistics_term": "order", "good": good, "bad": bad}
    for uid, good, bad in (
        ("a", "the cat sat.", "cat the sat."),
        ("a", "a dog ran.", "dog ran a."),
        ("b", "the sun", "the sun"),
    )
]
TEXTS = [{"text": "the cat sat on the mat"}, {"text": "a dog ran"}]
QUESTIONS = [{"question": "the cat", "choices": ["sat.", "on on"], "label": 0}]


@pytest.fixture(autouse=True)
def _no_login(monkeypatch, tmp_path):
    for name in ("WANDB_API_KEY", "WANDB_MODE", "NETRC", "WANDB_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture(params=["clm", "mlm"])
def checkpoint(request, tmp_path):
    task, _ = make_judge(request.param)
    task.trained_len = 16
    folder = RunFolder(tmp_path / "run")
    loading.save_task(task, folder.best)
    return folder.best


@pytest.fixture
def files(tmp_path):
    def write(name: str, rows: list[dict[str, object]]) -> str:
        path = tmp_path / name
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return str(path)

    return {
        "--text": write("text.jsonl", TEXTS),
        "--blimp": write("pairs.jsonl", PAIRS),
        "--last_word": write("words.jsonl", TEXTS),
        "--choices": write("quiz.jsonl", QUESTIONS),
    }


def test_every_measure_is_printed_and_kept_as_json(checkpoint, files, tmp_path, capsys):
    arguments = [word for pair in files.items() for word in pair]
    out = tmp_path / "new" / "figures.json"
    main(["evaluate", str(checkpoint), *arguments, "--json", str(out), "--precision", "32-true"])
    printed = capsys.readouterr().out
    found = json.loads(out.read_text())
    assert found["step"] == 0
    assert found["precision"] == "32-true"
    assert found["blimp"]["n_pairs"] == 3
    assert found["blimp"]["by_uid"]["b"] == 0.0  # equal sentences
    assert found["last_word"]["n_passages"] == 2
    assert found["choices"]["chance"] == 0.5
    assert ("bits_per_byte" in found["text"]) == (found["objective"] == "clm")
    assert found["blimp"]["source"] == files["--blimp"]
    assert "order" in printed
    assert f"{found['last_word']['perplexity']:,.4f}" in printed
    assert "wandb" not in printed  # there is no W&B run


def test_figures_go_to_the_run_of_the_checkpoint(checkpoint, files, capsys):
    folder = RunFolder(Path(checkpoint).parent.parent)
    logger = SafeWandbLogger(folder, offline=True, note=print)
    logger.log_metrics({"val/loss": 2.0}, step=7)
    logger.close()
    run([str(checkpoint), "--blimp", files["--blimp"], "--limit", "1"])
    assert "The figures are in" in capsys.readouterr().out
    last = history(folder.path)[-1]["item"]
    assert {"eval/blimp/accuracy", "eval/blimp/order"} <= last.keys()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "Say what to measure, such as --text FILE"),
        (["--blimp", "x.jsonl", "--limit", "0"], "limit is 0"),
        (["--blimp", "none.jsonl"], "none.jsonl: there is no such file"),
        (["--blim", "x.jsonl"], "did you mean blimp"),
        (["--text", "x", "--precision", "8"], "precision"),
    ],
)
def test_mistakes_get_one_sentence(arguments, complaint, checkpoint):
    with pytest.raises(UserError, match=complaint) as refused:
        run([str(checkpoint), *arguments])
    assert "\n" not in str(refused.value)


def test_a_missing_checkpoint_is_told():
    with pytest.raises(UserError, match=r"no checkpoint at none\.ckpt"):
        run(["none.ckpt", "--text", "x.txt"])
