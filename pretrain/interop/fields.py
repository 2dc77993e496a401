"""Reading ``config.json``: what is there, what may be left out, what must not differ."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pretrain.errors import UserError

T = TypeVar("T", int, float, bool, str)


class Fields:
    """The fields of a ``config.json``; a field that is null counts as left out.

    Args:
        values: The content of the file.
        path: The file, for complaints.
    """

    def __init__(self, values: Mapping[str, Any], path: Path) -> None:
        self.values, self.path = values, path

    def get(self, name: str, default: T) -> T:
        """The value of ``name``, of the default's type.

        Raises:
            UserError: It is of another type.
        """
        value = self.values.get(name)
        if value is None:
            return default
        if isinstance(default, float) and type(value) is int:
            value = float(value)
        if type(value) is not type(default):
            raise UserError(
                f"{self.path}: {name} is {value!r}, which is no {type(default).__name__}."
            )
        return value

    def optional(self, name: str) -> int | None:
        """A whole number, or None where it is left out."""
        return None if self.values.get(name) is None else self.get(name, 0)

    def size(self, name: str) -> int:
        """A whole number that must be there.

        Raises:
            UserError: It is left out, or no number above 0.
        """
        value = self.optional(name)
        if value is None or value < 1:
            raise UserError(f"{self.path}: {name} is {value}; it must be at least 1.")
        return value

    def choice(self, name: str, default: str, meanings: Mapping[str, str]) -> str:
        """What the value of ``name`` is called here.

        Raises:
            UserError: It is none of ``meanings``.
        """
        value = self.get(name, default)
        if value not in meanings:
            self.refuse(name, value, " or ".join(meanings))
        return meanings[value]

    def only(self, name: str, *allowed: Any) -> None:
        """Refuse a value that computes something else than we can.

        Raises:
            UserError: It is there, and none of ``allowed``.
        """
        value = self.values.get(name)
        if value is not None and value not in allowed:
            self.refuse(name, value, " or ".join(map(repr, allowed)) or "null")

    def refuse(self, name: str, value: Any, allowed: str) -> None:
        """Raise UserError: ``name`` asks for what this package can't compute."""
        raise UserError(
            f"{self.path}: {name} is {value!r}, which this package can't compute; "
            f"it can where that is {allowed}."
        )
