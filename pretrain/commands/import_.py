"""``pretrain import FOLDER CHECKPOINT``: a checkpoint from a folder of ``transformers``."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from pretrain.commands.complaints import command_parser, parse
from pretrain.errors import UserError

if TYPE_CHECKING:  # --help need not wait for torch
    from pretrain.interop import Portable
    from pretrain.tasks import TransformerTask

_DESCRIPTION = "Make a checkpoint from a folder that Hugging Face transformers wrote."
# What can be done with it, by objective.
_NEXT = {
    "mlm": 'pretrain fill-mask {0} "Some [MASK]."',
    "clm": 'pretrain generate {0} --prompt "Once"',
    "classification": 'pretrain classify {0} "A text."',
}


def run(argv: list[str]) -> None:
    """Write the checkpoint, and say what it holds and what can be done with it.

    Raises UserError for a folder whose weights or configuration can't be taken over exactly, or
    a checkpoint that is there already.
    """
    parser = command_parser("import", _DESCRIPTION)
    parser.add_argument("folder", type=str, help="holds config.json and model.safetensors")
    parser.add_argument("checkpoint", type=str, help="the new file to write, such as bert.ckpt")
    options = parse(parser, argv)
    _import(Path(options.folder), Path(options.checkpoint))


def _import(folder: Path, path: Path) -> None:
    if path.exists():
        raise UserError(f"{path} is there already: give the name of a new file.")
    # Here, so that --help need not wait for torch.
    from pretrain.interop import read_folder
    from pretrain.tasks import save_task

    model, notes = read_folder(folder)
    task = task_of(model)
    save_task(task, path)
    for note in notes:
        print(note)
    n_weights = sum(parameter.numel() for parameter in task.parameters())
    print(
        f"{path}: {model.objective}, {model.config.n_layers} layers, d_model "
        f"{model.config.d_model}, {n_weights:,} weights."
    )
    commands = [_NEXT[model.objective].format(path)] if model.objective in _NEXT else []
    # A recipe that leaves model.network out takes the checkpoint's.
    commands.append(f"pretrain fit --config RECIPE --init_from {path}")
    print(f"Go on with: {'; '.join(commands)} (leave model.network out of the recipe).")


def task_of(model: "Portable") -> "TransformerTask":
    """The task that an imported model is, with its weights."""
    from pretrain.tasks.finetuning import PUBLISHED_LR, PUBLISHED_OPTIMIZER

    task = _empty_task(model)
    task.configure_model()
    task.load_state_dict(model.state)
    task.tokenizer_json, task.trained_len = model.tokenizer_json, model.trained_len
    # A checkpoint of ours says how it was trained, and is fine-tuned alike; this one says how to.
    task.hparams.update(lr=PUBLISHED_LR, optimizer=asdict(PUBLISHED_OPTIMIZER))
    return task


def _empty_task(model: "Portable") -> "TransformerTask":
    from pretrain.tasks import Classification, Encoder, FinetuningConfig
    from pretrain.tasks.loading import TASKS

    if model.classifier is not None:
        head = model.classifier
        return Classification(
            model.config,
            causal=head.causal,
            pooling=head.pooling,
            finetuning=FinetuningConfig(head_dropout=head.dropout),
            labels=head.labels.to_dict(),
            reads_pairs=head.reads_pairs,
        )
    if model.objective == "encoder":
        return Encoder(model.config, pooler=model.has_pooler)
    return TASKS[model.objective](model.config)
