"""``pretrain export CHECKPOINT FOLDER``: a folder that Hugging Face ``transformers`` loads."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pretrain.commands.complaints import command_parser, parse

if TYPE_CHECKING:  # --help need not wait for torch
    from pretrain.interop.portable import Classifier

_DESCRIPTION = "Write a checkpoint as a folder that Hugging Face transformers loads."


def run(argv: list[str]) -> None:
    """Write the folder, and say which class it holds and how it is loaded.

    Raises UserError for a checkpoint that can't be read, a network that no class of
    ``transformers`` computes, or a folder that is there already.
    """
    parser = command_parser("export", _DESCRIPTION)
    parser.add_argument("checkpoint", type=str, help="such as runs/NAME/checkpoints/best.ckpt")
    parser.add_argument("folder", type=str, help="the new folder to write")
    options = parse(parser, argv)
    _export(Path(options.checkpoint), Path(options.folder))


def _export(path: Path, folder: Path) -> None:
    # Here, so that --help need not wait for torch.
    from pretrain.interop import Portable, export_folder
    from pretrain.interop.model_card import AUTO_CLASSES
    from pretrain.model import TransformerConfig
    from pretrain.tasks.checkpoint_file import read_checkpoint

    checkpoint = read_checkpoint(str(path))
    model = Portable(
        TransformerConfig(**checkpoint["hyper_parameters"]["network"]),
        checkpoint["objective"],
        checkpoint["state_dict"],
        checkpoint.get("tokenizer"),
        checkpoint.get("trained_len"),
        classifier_of(checkpoint["objective"], checkpoint["hyper_parameters"]),
    )
    figures = {**_figures(path), "step": checkpoint.get("global_step") or None}
    name = export_folder(model, folder, figures)
    print(f"{folder}: a {name}; its model card (README.md) leaves the licence to you.")
    print(
        f'Load it with transformers: {AUTO_CLASSES[model.objective]}.from_pretrained("{folder}").'
    )


def classifier_of(objective: str, known: Mapping[str, Any]) -> "Classifier | None":
    """What stands on a classifier's block stack, from its hyper-parameters; else None."""
    from pretrain.data.labels import Labels
    from pretrain.interop.portable import Classifier

    if objective != "classification":
        return None
    return Classifier(
        Labels.from_dict(known["labels"]),
        known["pooling"],
        known["causal"],
        known["finetuning"]["head_dropout"],
        known["reads_pairs"],
    )


def _figures(checkpoint: Path) -> dict[str, Any]:
    """What the run that a checkpoint lies in knows of itself, as far as it is there."""
    import yaml

    from pretrain.runs.card_reader import read_card
    from pretrain.runs.folder import RunFolder

    folder = RunFolder(checkpoint.resolve().parent.parent)
    if checkpoint.resolve().parent != folder.checkpoints:
        return {}
    figures = read_card(folder.path)
    try:
        config = yaml.safe_load(folder.config.read_text("utf-8"))
        figures["source"] = config["data"]["init_args"]["source"]
    except (OSError, yaml.YAMLError, KeyError, TypeError):
        pass  # no run of ours, or one with data of the user's own class
    return figures
