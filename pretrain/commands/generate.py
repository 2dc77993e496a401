"""``pretrain generate``: continue a text with a GPT."""

import jsonargparse

from pretrain.commands.complaints import command_parser, parse
from pretrain.errors import UserError


def run(argv: list[str]) -> None:
    """Print the prompt and what the model writes after it, token by token."""
    parser = command_parser("generate", "Continue a text with a GPT.")
    parser.add_argument("checkpoint", type=str, help="such as runs/NAME/checkpoints/best.ckpt")
    parser.add_argument("--prompt", type=str, default="", help="The text to continue.")
    parser.add_argument("--n_tokens", type=int, default=100, help="The most tokens to write.")
    parser.add_argument(
        "--temperature", type=float, default=0.8, help="0 always takes the likeliest token."
    )
    parser.add_argument(
        "--top_k", type=int, default=50, help="Draw among the k likeliest tokens; 0 means all."
    )
    parser.add_argument("--seed", type=int, default=1, help="Another seed, another text.")
    options = parse(parser, argv)
    if options.temperature < 0 or options.n_tokens < 1 or options.top_k < 0:
        raise UserError("temperature and top_k must be at least 0, and n_tokens at least 1.")
    _write(options)


def _write(options: jsonargparse.Namespace) -> None:
    # Here, so that --help need not wait for torch.
    import torch

    from pretrain.tasks import load_task
    from pretrain.tasks.sampling import continue_ids, tokenizer_of

    task = load_task(options.checkpoint)
    if not task.causal:
        raise UserError(f"{options.checkpoint} is a masked language model: use pretrain fill-mask.")
    tokenizer = tokenizer_of(task)
    prompt = tokenizer.encode_prompt(options.prompt)
    if not prompt:
        # An end token stands before every document but the first.
        prompt = [0 if tokenizer.end_id is None else tokenizer.end_id]
    written = list(prompt) if options.prompt else []
    shown = ""
    for token in continue_ids(
        task,
        prompt,
        options.n_tokens,
        options.temperature,
        options.top_k or None,
        torch.Generator().manual_seed(options.seed),
    ):
        written.append(token)
        text = tokenizer.decode(written)
        # A character may need several tokens: hold back what is not complete yet.
        if not text.endswith("\N{REPLACEMENT CHARACTER}"):
            print(text[len(shown) :], end="", flush=True)
            shown = text
    print()
