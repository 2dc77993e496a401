"""Names that a package offers and loads when they are first used, so that importing it is cheap."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def loader(package: str, home_of: Mapping[str, str]) -> Callable[[str], Any]:
    """The module-level ``__getattr__`` of ``package`` (PEP 562).

    Args:
        package: The package's ``__name__``.
        home_of: Name to the module that defines it.
    """

    def load(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(home_of[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return load
