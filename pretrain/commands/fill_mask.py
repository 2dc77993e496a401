"""``pretrain fill-mask``: fill the [MASK] of a text with a BERT."""

from pretrain.commands.complaints import command_parser, parse
from pretrain.errors import UserError


def run(argv: list[str]) -> None:
    """Print the likeliest tokens for every mask, with their probabilities."""
    parser = command_parser("fill-mask", "Fill the [MASK] of a text with a BERT.")
    parser.add_argument("checkpoint", type=str, help="such as runs/NAME/checkpoints/best.ckpt")
    parser.add_argument("text", type=str, help='such as "The capital of France is [MASK]."')
    parser.add_argument("--top_k", type=int, default=5, help="Guesses per mask.")
    options = parse(parser, argv)
    if options.top_k < 1:
        raise UserError(f"top_k is {options.top_k}; it must be at least 1.")
    # Here, so that --help need not wait for torch.
    from pretrain.tasks import load_task
    from pretrain.tasks.fill_mask import fill_masks

    task = load_task(options.checkpoint)
    if task.objective != "mlm":
        raise UserError(
            f"{options.checkpoint} is no masked language model, so it fills no gaps: "
            "a causal one writes with pretrain generate."
        )
    for guesses in fill_masks(task, options.text, options.top_k):
        for guess in guesses:
            print(f"{guess.probability:6.1%}  {guess.token:<16} {guess.text}")
        print()
