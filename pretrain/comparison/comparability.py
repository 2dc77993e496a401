"""Whether the losses of two runs may be set against each other: same objective, tokens and text."""

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from pretrain.comparison.configuration import in_words
from pretrain.comparison.run import Run


class Aspect(Enum):
    """What has to agree, in words."""

    OBJECTIVE = "objective"
    TOKENIZER = "tokenizer"
    TEXT = "validation text"
    MASKING = "masking"


# Where the validation text comes from its own source, how the other is split does not matter.
_SPLIT = ("data.source", "data.split", "data.split_share", "data.document", "data.text_field")


class Comparability(NamedTuple):
    """What stands between the runs' losses.

    Attributes:
        differing: The aspects in which they are known to differ.
        unknown: The names of the runs that keep no configuration, so that nothing is known.
    """

    differing: tuple[Aspect, ...]
    unknown: tuple[str, ...]

    @property
    def losses(self) -> bool:
        """Whether losses and accuracies may be compared."""
        return not self.differing

    @property
    def bits_per_byte(self) -> bool:
        """Whether bits per byte may: they do not depend on the tokenizer."""
        return not {Aspect.OBJECTIVE, Aspect.MASKING} & set(self.differing)


def comparability(runs: Sequence[Run]) -> Comparability:
    """How far the losses of ``runs`` may be compared."""
    signatures = [_signature(run) for run in runs if run.settings]
    differing = {
        aspect for aspect in Aspect if len({signature[aspect] for signature in signatures}) > 1
    }
    if len({run.tokenizer_digest for run in runs} - {None}) > 1:
        differing.add(Aspect.TOKENIZER)
    if Aspect.OBJECTIVE in differing:
        differing.discard(Aspect.MASKING)  # follows from it
    unknown = tuple(run.name for run in runs if not run.settings)
    return Comparability(tuple(aspect for aspect in Aspect if aspect in differing), unknown)


def groups_alike(runs: Sequence[Run]) -> list[list[Run]]:
    """The runs, in groups whose losses may be compared; in the order given."""
    groups: list[list[Run]] = []
    for run in runs:
        home = next((group for group in groups if comparability([group[0], run]).losses), None)
        if home is None:
            groups.append([run])
        else:
            home.append(run)
    return groups


def objective(run: Run) -> str:
    """The class of the model without its package, such as ``MaskedLM``; empty if not known."""
    return str(run.settings.get("model") or "").rpartition(".")[2]


def _signature(run: Run) -> dict[Aspect, str]:
    settings = run.settings
    tokenizer = run.tokenizer_digest or _under("data.tokenizer", run)
    own_text = settings.get("data.val_source")
    text = in_words(own_text) if own_text else str([in_words(settings.get(k)) for k in _SPLIT])
    is_masked = objective(run) == "MaskedLM"
    return {
        Aspect.OBJECTIVE: objective(run),
        Aspect.TOKENIZER: tokenizer,
        Aspect.TEXT: text,
        Aspect.MASKING: _under("data.masking", run) if is_masked else "",
    }


def _under(prefix: str, run: Run) -> str:
    """All settings under ``prefix``, as text to compare."""
    return str(
        sorted(
            (key, in_words(value))
            for key, value in run.settings.items()
            if f"{key}.".startswith(f"{prefix}.")
        )
    )
