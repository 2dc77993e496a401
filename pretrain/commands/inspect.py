"""``pretrain inspect``: a page that shows what a model does with one text."""

from pathlib import Path

from pretrain.commands.complaints import command_parser, parse
from pretrain.errors import UserError

MOST_TOKENS = 64


def run(argv: list[str]) -> None:
    """Write the page.

    Raises:
        UserError: The checkpoint or the text can't be used, or the page can't be written.
    """
    parser = command_parser("inspect", "Show what a model does with one text, as an HTML page.")
    add = parser.add_argument
    add("checkpoint", type=str, help="such as runs/NAME/checkpoints/best.ckpt")
    add("text", type=str, help=f"Of a long one the first {MOST_TOKENS} tokens are shown.")
    add("--pair", type=str | None, help="The second text, for a classifier of pairs.")
    add("--out", type=str, default="inspect.html", help="The page to write.")
    options = parse(parser, argv)
    if not options.text.strip():
        raise UserError('The text is empty: give one, such as pretrain inspect CHECKPOINT "a cat".')
    # Here, so that --help need not wait for torch.
    from pretrain.commands.inspect_page import inspection_page
    from pretrain.commands.inspection import inspect_text
    from pretrain.data.files import written_whole
    from pretrain.tasks import load_task

    task = load_task(options.checkpoint)
    seen = inspect_text(task, options.text, options.pair, MOST_TOKENS)
    page = inspection_page(task, seen, _origin(options.checkpoint))
    with written_whole(Path(options.out)) as temporary:
        temporary.write_text(page, encoding="utf-8")
    print(f"{options.out}: {len(seen.tokens)} tokens, open it in a browser.")


def _origin(path: str) -> dict[str, str]:
    """Where the model comes from, and how far it was trained."""
    from pretrain.tasks.checkpoint_file import read_checkpoint

    checkpoint = read_checkpoint(path)
    seen = checkpoint.get("callbacks", {}).get("Throughput", {}).get("tokens_seen")
    tokens = {} if seen is None else {"tokens seen": f"{seen:,}"}
    return {"step": f"{checkpoint.get('global_step', 0):,}", **tokens, "checkpoint": path}
