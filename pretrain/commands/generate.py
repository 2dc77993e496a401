"""``pretrain generate``: continue a text with a GPT."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from jsonargparse import ArgumentParser, Namespace

from pretrain.commands.complaints import command_parser, parse
from pretrain.errors import UserError

if TYPE_CHECKING:  # --help need not wait for torch
    from pretrain.tasks import LanguageModel
    from pretrain.tasks.continuation import Continuation
    from pretrain.tasks.sampling import Decoding

TEMPERATURE, TOP_K = 0.8, 50
ROWS_AT_ONCE = 16


def run(argv: list[str]) -> None:
    """Print each prompt and what the model writes after it; a single text token by token.

    Raises:
        UserError: An option, the file of prompts or the checkpoint can't be used.
    """
    options = parse(_parser(), argv)
    prompts = _prompts(options)
    if options.n_samples < 1:
        raise UserError(f"n_samples is {options.n_samples}; it must be at least 1.")
    if not 0 <= options.seed < 2**63:
        raise UserError(f"seed is {options.seed}; it must be 0 or above, and below 2**63.")
    if 1 < options.n_beams < options.n_samples:
        raise UserError(
            f"n_samples is {options.n_samples}, but a search with n_beams {options.n_beams} "
            "finds no more texts than it has beams."
        )
    # Here, so that --help need not wait for torch.
    from pretrain.tasks import load_task

    decoding = _decoding(options)
    task = load_task(options.checkpoint)
    if task.objective != "clm":
        raise UserError(
            f"{options.checkpoint} is no causal language model, so it writes no text: "
            "a masked one fills gaps with pretrain fill-mask."
        )
    if len(prompts) == options.n_samples == options.n_beams == 1:
        _stream(task, prompts[0], decoding, options.seed)
    else:
        _print_all(task, prompts, decoding, options.n_samples, options.seed)


def _parser() -> ArgumentParser:
    parser = command_parser("generate", "Continue a text with a GPT.")
    add = parser.add_argument
    add("checkpoint", type=str, help="such as runs/NAME/checkpoints/best.ckpt")
    add("--prompt", type=str, default="", help="The text to continue.")
    add("--prompts", type=str | None, help="A file with one prompt a line, instead of --prompt.")
    add("--n_tokens", type=int, default=100, help="The most tokens to write.")
    add(
        "--temperature",
        type=float | None,
        help=f"0 always takes the likeliest token; {TEMPERATURE} if not given.",
    )
    add(
        "--top_k",
        type=int | None,
        help="Draw among the k likeliest tokens; 0 means all. "
        f"{TOP_K} if neither this nor top_p nor min_p is given.",
    )
    add(
        "--top_p",
        type=float | None,
        help="Draw among the fewest likeliest tokens whose probabilities sum to p.",
    )
    add(
        "--min_p",
        type=float | None,
        help="Draw among tokens at least p times as likely as the likeliest.",
    )
    add(
        "--repetition_penalty",
        type=float,
        default=1.0,
        help="Above 1 makes tokens less likely that are in the text already, such as 1.2.",
    )
    add(
        "--n_beams",
        type=int,
        default=1,
        help="Above 1 searches for a likely text with that many candidates, instead of drawing.",
    )
    add(
        "--stop",
        type=str,
        action="append",
        default=[],
        help="A string that ends a text and is no part of it; may be given several times.",
    )
    add("--seed", type=int, default=1, help="Another seed, another text.")
    add("--n_samples", type=int, default=1, help="Texts per prompt, with seeds seed, seed + 1...")
    return parser


def _prompts(options: Namespace) -> list[str]:
    if options.prompts is None:
        return [options.prompt]
    if options.prompt:
        raise UserError("--prompt and --prompts are both given: put all prompts into the file.")
    try:
        lines = Path(options.prompts).read_text(encoding="utf-8-sig").split("\n")
    except OSError as error:
        raise UserError(f"{options.prompts} can't be read ({error.strerror or error}).") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{options.prompts} is no UTF-8 text.") from error
    prompts = [line for line in lines if line.strip()]
    if not prompts:
        raise UserError(f"{options.prompts} holds no prompt: write one a line.")
    return prompts


def _decoding(options: Namespace) -> "Decoding":
    from pretrain.tasks.sampling import Decoding

    rules = {name: options[name] for name in ("temperature", "top_k", "top_p", "min_p")}
    if options.n_beams == 1:
        if rules["temperature"] is None:
            rules["temperature"] = TEMPERATURE
        if all(rules[name] is None for name in ("top_k", "top_p", "min_p")):
            rules["top_k"] = TOP_K
    if rules["top_k"] == 0:
        rules["top_k"] = None
    return Decoding(
        n_tokens=options.n_tokens,
        repetition_penalty=options.repetition_penalty,
        n_beams=options.n_beams,
        stop=tuple(options.stop),
        **{name: value for name, value in rules.items() if value is not None},
    )


def _stream(task: "LanguageModel", prompt: str, decoding: "Decoding", seed: int) -> None:
    """Print one text while it is written."""
    from pretrain.tasks.continuation import Pen, encode_prompt, tokenizer_of
    from pretrain.tasks.sampling import sample

    tokenizer = tokenizer_of(task)
    pen = Pen(tokenizer, stop=decoding.stop)
    ids = encode_prompt(tokenizer, prompt)
    print(tokenizer.decode(tokenizer.encode_prompt(prompt)), end="", flush=True)
    shown = 0
    for (row,) in sample(task, [ids], decoding, [seed]):
        settled = pen.settled(row)
        print(settled[shown:], end="", flush=True)
        shown = len(settled)
    print(row.text[shown:])


def _print_all(
    task: "LanguageModel", prompts: list[str], decoding: "Decoding", n_samples: int, seed: int
) -> None:
    """Print several texts one after the other, each under a line that says which it is."""
    from pretrain.tasks.continuation import encode_prompt, tokenizer_of

    tokenizer = tokenizer_of(task)
    ids = [encode_prompt(tokenizer, prompt) for prompt in prompts]
    rows = _rows(task, ids, decoding, n_samples, seed)
    for place, prompt in enumerate(prompts):
        for sample, row in enumerate(itertools.islice(rows, n_samples)):
            names = [f"prompt {place + 1}"] if len(prompts) > 1 else []
            names += [f"sample {sample + 1}"] if n_samples > 1 else []
            if names:
                print(f"===== {', '.join(names)} =====")
            print(tokenizer.decode(tokenizer.encode_prompt(prompt)) + row.text, flush=True)


def _rows(
    task: "LanguageModel",
    prompts: list[list[int]],
    decoding: "Decoding",
    n_samples: int,
    seed: int,
) -> Iterator["Continuation"]:
    """``n_samples`` texts for each prompt in turn."""
    from pretrain.tasks.beam_search import beam_search
    from pretrain.tasks.sampling import sample

    if decoding.n_beams > 1:
        for prompt in prompts:
            yield from (found.row for found in beam_search(task, prompt, decoding)[:n_samples])
        return
    wanted = [(prompt, seed + n) for prompt in prompts for n in range(n_samples)]
    for start in range(0, len(wanted), ROWS_AT_ONCE):
        batch, seeds = zip(*wanted[start : start + ROWS_AT_ONCE], strict=True)
        *_, rows = sample(task, batch, decoding, seeds)
        yield from rows
