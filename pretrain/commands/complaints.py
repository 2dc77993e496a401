"""Turns what jsonargparse says of a wrong configuration into one sentence with the right key."""

import difflib
import re
from collections.abc import Iterable
from importlib import import_module

from jsonargparse import ArgumentParser

# The last of these that a message holds names the innermost place of the mistake.
_PARSER_KEY = re.compile(r'Parser key "([^"]+)"')
_CLASS = re.compile(r"Problem with given class_path '([^']+)'")
_UNKNOWN = (
    re.compile(r"unrecognized arguments: (?:--)?([^\s=]+)"),
    re.compile(r"Group '([^']+)' does not accept option '([^']+)'"),
    re.compile(r"Option '([^']+)' is not accepted"),
)
_EXPECTED = re.compile(r"Expected an? (.+?)\. Got value: (.*)")


def explain(message: str, parser: ArgumentParser) -> str:
    """One sentence for jsonargparse's ``message``: key, what is wrong, nearest right key."""
    for pattern in _UNKNOWN:
        match = pattern.search(message)
        if match is not None:
            return _unknown_key(message, match, parser)
    if "are required: model" in message or "are required: data" in message:
        return (
            "No model is configured: start from a recipe, such as "
            "pretrain fit --config configs/gpt_tiny.yaml"
        )
    keys = _PARSER_KEY.findall(message)
    expected = _EXPECTED.findall(message)
    if keys and expected:
        kinds = " or ".join(dict.fromkeys(_kind(kind) for kind, _ in expected))
        return f"{_join(keys)} is {expected[-1][1].strip()!r}, but must be {kinds}."
    where = f"{_join(keys)}: " if keys else ""
    return where + _innermost(message)


def _unknown_key(message: str, match: re.Match[str], parser: ArgumentParser) -> str:
    before = message[: match.start()]
    outer = _PARSER_KEY.findall(before)
    prefix = _join(outer)
    key = ".".join([*outer, *match.groups()])
    if not outer and not key.replace(".", "").replace("_", "").isalnum():
        return f"{match.group(1)!r} is no option."
    classes = _CLASS.findall(before)
    known = set(_keys_of(parser))
    for n_outer, name in enumerate(classes, start=1):
        known |= set(_keys_of_class(name, _join(outer[:n_outer])))
    near = _nearest(key, known)
    place = f" of {classes[-1].rpartition('.')[2]}" if classes and prefix else ""
    hint = f"did you mean {near}?" if near else "see --help for the keys there are."
    return f"There is no key {key}{place}: {hint}"


def _nearest(key: str, known: Iterable[str]) -> str | None:
    """The known key most like ``key``; the part behind the last dot weighs most."""
    prefix, _, name = key.rpartition(".")
    siblings = {k.rpartition(".")[2]: k for k in known if k.rpartition(".")[0] == prefix}
    near = difflib.get_close_matches(name, siblings, n=1)
    if near:
        return siblings[near[0]]
    near = difflib.get_close_matches(key, known, n=1, cutoff=0.7)
    return near[0] if near else None


def _keys_of(parser: ArgumentParser) -> list[str]:
    return [action.dest for action in parser._actions if action.dest != "help"]


def _keys_of_class(class_path: str, prefix: str) -> list[str]:
    module, _, name = class_path.rpartition(".")
    parser = ArgumentParser(exit_on_error=False)
    parser.add_class_arguments(
        getattr(import_module(module), name), prefix or None, fail_untyped=False, sub_configs=True
    )
    return _keys_of(parser)


def _join(keys: list[str]) -> str:
    return ".".join(keys)


def _kind(kind: str) -> str:
    """``<class 'int'>`` and ``typing.Literal['a', 'b']`` as a person would say them."""
    literal = re.search(r"Literal\[(.*)\]", kind)
    if literal is not None:
        return "one of " + literal.group(1).replace("'", "")
    names = {"int": "a whole number", "float": "a number", "bool": "true or false", "str": "text"}
    plain = re.sub(r"<class '(?:\w+\.)*(\w+)'>", r"\1", kind)
    return names.get(plain, plain)


def _innermost(message: str) -> str:
    """The first line that says something, without the list of what else was tried."""
    lines = [line.strip(" -") for line in message.splitlines() if line.strip(" -")]
    telling = [
        line
        for line in lines
        if not line.startswith(("Parser key", "Does not validate", "Subtypes", "Errors", "Given"))
        and not line.startswith("Problem with given class_path")
    ]
    return " ".join((telling or lines)[0].split())
