"""Configurations, checkpoints, tokenizers and published folders that `prove_fuzz.py` damages."""

from __future__ import annotations

import contextlib
import copy
import io
import json
import shlex
import shutil
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import torch
from fuzz_corpora import SilentLossError, damaged

from pretrain.cli import main
from pretrain.commands.fit import FitCLI
from pretrain.data.tokenizer import Tokenizer
from pretrain.data.tokenizer_training import TokenizerRule, train_tokenizer
from pretrain.errors import UserError
from pretrain.tasks import CausalLM, MaskedLM, load_task
from pretrain.tasks.loading import save_task

RECIPES = Path(__file__).parents[1] / "configs"
_TEXT = "the cat sat on the mat. a dog ran in the sun! abcdefghijklmnopqrstuvwxyz " * 4
_VALUES: tuple[Any, ...] = (None, "", "x", 0, -1, 1, 2.5, 1e300, float("nan"), True, [], [1], {},
                            {"a": 1}, 2**40, "a\nb", [None], 3, "auto", "\u2028")  # fmt: skip
_WORDS = ("--config", "--trainer.max_steps", "--model", "--data", "--model.lr", "--data.seq_len",
          "--model.network.d_model", "--data.tokenizer", "--trainer.callbacks", "--data.source",
          "--trainer.precision", "--model.optimizer", "--print_config=x", "--trainer",
          "--model.network", "--run_name", "--ckpt_path", "--init_from", "--seed_everything",
          "--trainer.devices", "--model.schedule.warmup_steps", "fit", "--", "-x")  # fmt: skip


def configuration(rng: Random, folder: Path) -> None:
    """A recipe with its bytes or words changed, options of chance, or both."""
    argv = []
    if rng.random() < 0.8:
        recipe = rng.choice(sorted(RECIPES.glob("*.yaml"))).read_bytes()
        lines = recipe.splitlines(keepends=True)
        how = rng.randrange(3)
        if how == 0:
            recipe = damaged(rng, recipe)
        elif how == 1:
            number = rng.randrange(len(lines))
            lines[number] = lines[number].partition(b":")[0] + b": " + _scalar(rng).encode() + b"\n"
            recipe = b"".join(lines)
        elif how == 2:
            rng.shuffle(lines)
            recipe = b"".join(lines)
        (folder / "recipe.yaml").write_bytes(recipe)
        argv.append(f"--config={folder / 'recipe.yaml'}")
    for _ in range(rng.randrange(4)):
        option = rng.choice(_WORDS)
        argv.append(rng.choice((option, f"{option}={_scalar(rng)}")))
    with _quiet():
        FitCLI(argv)


def command_line(rng: Random, folder: Path) -> None:
    """A command with words of chance behind it; the ones that read a corpus get none."""
    names = ("generate", "fill-mask", "classify", "export", "import", "evaluate", "tokenizer", "x")
    words = [str(_checkpoint(rng.choice(("clm", "mlm")), folder)), str(folder), "a [MASK].", "",
             "--n_tokens=2", "--temperature=nan", "--top_k=-1", "--top_p=2", "--seed=-1", "--stop=",
             "--prompt=\ud800", "--n_samples=0", "--n_beams=2", "--file", "--text", "--out", "--x",
             "--min_p=0", "--batch_size=0", "--blimp", "--prompts", "train", "show"]  # fmt: skip
    argv = [rng.choice(names), *rng.choices(words, k=rng.randrange(6))]
    _run(argv)


def checkpoint(rng: Random, folder: Path) -> None:
    """A checkpoint with damaged bytes, without its end, or with other content."""
    kind = rng.choice(("clm", "mlm"))
    path = _checkpoint(kind, folder)
    content = path.read_bytes()
    original = torch.load(path, weights_only=True)
    how = rng.randrange(5)
    if how == 0:
        path.write_bytes(content[: rng.randrange(len(content))])
    elif how in (1, 2):
        path.write_bytes(damaged(rng, content))
    else:
        changed = copy.deepcopy(original)
        for _ in range(rng.choice((1, 1, 2))):
            changed = _mutated(rng, changed)
        torch.save(changed, path)
    if rng.random() < 0.3:
        _run(rng.choice((["generate", str(path), "--n_tokens=2"],
                         ["fill-mask", str(path), "the [MASK]."],
                         ["export", str(path), str(folder / "out")])))  # fmt: skip
        return
    weights = load_task(str(path)).state_dict()
    if how < 3 and not all(torch.equal(weights[k], v) for k, v in original["state_dict"].items()):
        raise SilentLossError("a damaged checkpoint gives other weights, and nobody was told")


def tokenizer(rng: Random, folder: Path) -> None:
    """A tokenizer.json with damaged bytes or other values, or another file of that name."""
    text = _tokenizer(rng.choice(("bpe", "wordpiece", "char")))
    path = folder / rng.choice(("tokenizer.json", "tokenizer.json", "vocab.json", "vocab.txt"))
    if rng.random() < 0.5:
        path.write_bytes(damaged(rng, text.encode()))
    else:
        content = json.loads(text)
        for _ in range(rng.choice((1, 1, 2, 3))):
            content = _mutated(rng, content)
        path.write_text(json.dumps(content), "utf-8")
    if rng.random() < 0.2:
        path = folder
    read = Tokenizer.load(path)
    for ids in read.encode_documents(["the cat", "", "日本語 [MASK]", _TEXT]):
        read.decode(ids)
    read.decode(read.encode_prompt("a [MASK]."))


def published(rng: Random, folder: Path) -> None:
    """A folder of `transformers` with one of its files damaged, changed or gone."""
    place = folder / "published"
    shutil.copytree(_published(rng.choice(("clm", "mlm"))), place)
    path = rng.choice(sorted(place.iterdir()))
    how = rng.randrange(5)
    if how == 0:
        path.unlink()
    elif how in (1, 2) or path.suffix != ".json":
        path.write_bytes(damaged(rng, path.read_bytes()))
    else:
        path.write_text(json.dumps(_mutated(rng, json.loads(path.read_text("utf-8")))), "utf-8")
    _run(["import", str(place), str(folder / "new.ckpt")])


def _run(argv: list[str]) -> None:
    """Run a command; its complaint is raised as the UserError that it was."""
    out, complaint = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(complaint):
        try:
            main(argv)
        except SystemExit as end:
            if end.code:
                raise UserError(complaint.getvalue().rstrip("\n")) from end


def _quiet() -> Any:
    stack = contextlib.ExitStack()
    stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
    stack.enter_context(contextlib.redirect_stderr(io.StringIO()))
    return stack


def _scalar(rng: Random) -> str:
    value = rng.choice((*_VALUES, "{a: [", "!!python/name:os.system", "&a *a", "0x10", "1_0"))
    return value if isinstance(value, str) else json.dumps(value)


def _mutated(rng: Random, content: Any) -> Any:
    """A nested value with one of its places changed, taken out, or put in twice."""
    if not isinstance(content, (dict, list)) or not content or rng.random() < 0.05:
        return copy.deepcopy(rng.choice(_VALUES))
    keys = list(content) if isinstance(content, dict) else list(range(len(content)))
    key = rng.choice(keys)
    changed: Any = copy.copy(content)
    if rng.random() < 0.2:
        del changed[key]
    else:
        changed[key] = _mutated(rng, content[key])
    return changed


@cache
def _tokenizer(kind: Any) -> str:
    return train_tokenizer([_TEXT] * 3, TokenizerRule(kind, 300)).to_json()


@cache
def _checkpoint_bytes(kind: str) -> bytes:
    text = _tokenizer("wordpiece" if kind == "mlm" else "bpe")
    network = {"vocab_size": Tokenizer.from_json(text).vocab_size, "d_model": 8, "n_layers": 1,
               "n_heads": 2, "max_len": 32}  # fmt: skip
    task = {"clm": CausalLM, "mlm": MaskedLM}[kind](network=network)  # type: ignore[arg-type]
    task.configure_model()
    task.tokenizer_json, task.trained_len = text, 32
    buffer = Path(f"{kind}.ckpt")
    save_task(task, buffer)
    content = buffer.read_bytes()
    buffer.unlink()
    return content


def _checkpoint(kind: str, folder: Path) -> Path:
    path = folder / "model.ckpt"
    path.write_bytes(_checkpoint_bytes(kind))
    return path


@cache
def _published(kind: str) -> Path:
    import tempfile

    folder = Path(tempfile.mkdtemp(prefix="published-", dir=Path.cwd()))
    save = _checkpoint(kind, folder)
    _run(shlex.split(f"export {save} {folder / 'model'}"))
    return folder / "model"
