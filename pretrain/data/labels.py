"""Labels: what a class is called, and the number that stands for it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from pretrain.data.document import flaw
from pretrain.errors import UserError

if TYPE_CHECKING:
    from pretrain.data.labelled import Example

LabelKind = Literal["single", "multi", "regression"]
Label = str | tuple[str, ...] | float

_LARGEST_NUMBER = 3.4e38  # of float32, which targets are kept in
_INTEGER = re.compile(r"-?\d+")


class BadLabelError(ValueError):
    """What is wrong with a label, and a detail of it: the first alone is counted when skipped."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason + detail)
        self.reason, self.detail = reason, detail


def read_label(kind: LabelKind, value: Any) -> Label:
    """A label as it stands in a row, in its one form.

    Returns:
        single: the class's name (1 and "1" are the same class, True is ``true``); multi: the
        names, sorted, of any number of classes, none too; regression: a finite number.

    Raises BadLabelError for what is none.
    """
    if value is None or value == "" or (isinstance(value, float) and math.isnan(value)):
        raise BadLabelError("is empty")
    if kind == "regression":
        return _number(value)
    if kind == "single":
        return _class_name(value)
    if not isinstance(value, list | tuple):
        kind_given = type(value).__name__
        raise BadLabelError("is no list of labels", f" ({kind_given}; kind=single takes one label)")
    return tuple(sorted({_class_name(one) for one in value}))


def _class_name(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and not value.is_integer():
        raise BadLabelError("is no class", f" ({value}; kind=regression predicts numbers)")
    if isinstance(value, int | float):
        return str(int(value))
    if not isinstance(value, str):
        more = "; kind=multi takes lists" if isinstance(value, list) else ""
        raise BadLabelError("is no class", f" ({type(value).__name__}{more})")
    if not value.strip():
        raise BadLabelError("is empty")
    if reason := flaw(value):
        raise BadLabelError(f"holds {reason}")
    return value


def _number(value: Any) -> float:
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not abs(number) <= _LARGEST_NUMBER:  # NaN neither
        raise BadLabelError("is no finite number", f" ({value!r:.40}; kind=single takes classes)")
    return number


@dataclass(frozen=True)
class Labels:
    """The classes of a task, in the order of their ids.

    Attributes:
        kind: one class a text (``single``), any number of classes (``multi``), or a number
            (``regression``).
        names: of the classes, numbers in the order of their values, else in that of the alphabet;
            none for regression.
    """

    kind: LabelKind
    names: tuple[str, ...] = ()

    @classmethod
    def from_examples(cls, kind: LabelKind, examples: Iterable[Example]) -> Labels:
        """The labels of training examples.

        Raises UserError for a bad label, naming its row, and for labels that leave nothing to tell
        apart.
        """
        found: set[str] = set()
        for example in examples:
            label = _read(kind, example)
            if not isinstance(label, float):
                found.update([label] if isinstance(label, str) else label)
        if kind == "regression":
            return cls(kind)
        if len(found) < 2:
            held = f"only the label {min(found)!r}" if found else "no label at all"
            raise UserError(f"The training examples have {held}: there is nothing to tell apart.")
        if _are_measurements(found):
            raise UserError(
                f"The labels are numbers with fractions ({min(found)} and {len(found) - 1} more): "
                "predict them with kind=regression."
            )
        return cls(kind, tuple(_sorted(found)))

    @property
    def n_outputs(self) -> int:
        """How many numbers a classifier gives for a text."""
        return 1 if self.kind == "regression" else len(self.names)

    def encode(self, example: Example) -> int | list[int] | float:
        """The id of the class, the ids of the classes (sorted), or the number.

        Raises UserError, naming the row, for a bad label and for one that training doesn't have.
        """
        label = _read(self.kind, example)
        if isinstance(label, float):
            return label
        ids = self._ids(example, [label] if isinstance(label, str) else label)
        return ids[0] if self.kind == "single" else sorted(ids)

    @cached_property
    def _id_of(self) -> dict[str, int]:
        return {name: index for index, name in enumerate(self.names)}

    def _ids(self, example: Example, names: Iterable[str]) -> list[int]:
        for name in names:
            if name not in self._id_of:
                shown = ", ".join(map(repr, self.names[:10]))
                more = ", ..." if len(self.names) > 10 else ""
                raise UserError(
                    f"{example.where}: the training examples have no label {name!r} ({shown}"
                    f"{more}): give it examples to learn from, or take this row out"
                )
        return [self._id_of[name] for name in names]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for a checkpoint."""
        return {**asdict(self), "names": list(self.names)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Labels:
        """The inverse of `to_dict`."""
        return cls(values["kind"], tuple(values["names"]))


def _read(kind: LabelKind, example: Example) -> Label:
    try:
        return read_label(kind, example.label)
    except BadLabelError as error:
        raise UserError(f"{example.where}: the label {error}") from error


def _sorted(names: set[str]) -> list[str]:
    if all(_INTEGER.fullmatch(name) for name in names):
        return sorted(names, key=lambda name: (int(name), name))
    return sorted(names)


def _are_measurements(names: set[str]) -> bool:
    """Whether all are numbers and one has a fraction, as a table gives them: in text."""
    try:
        numbers = [float(name) for name in names]
    except ValueError:
        return False
    return all(map(math.isfinite, numbers)) and not all(map(float.is_integer, numbers))
