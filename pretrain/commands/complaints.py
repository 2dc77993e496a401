"""Turns what jsonargparse says of a wrong configuration into one sentence with the right key."""

import difflib
import re
from collections.abc import Iterable, Mapping
from importlib import import_module

from jsonargparse import ArgumentError, ArgumentParser, Namespace

from pretrain.errors import UserError

# The last of these that a message holds names the innermost place of the mistake.
_PARSER_KEY = re.compile(r'Parser key "([^"]+)"')
_CLASS = re.compile(r"Problem with given class_path '([^']+)'")
_UNKNOWN = (
    re.compile(r"unrecognized arguments: (?:--)?([^\s=]+)"),
    re.compile(r"Group '([^']+)' does not accept option '([^']+)'"),
    re.compile(r"Option '([^']+)' is not accepted"),
)
_EXPECTED = re.compile(r"Expected an? (.+?)\. Got value: (.*)")
_KIND = re.compile(r"Expected an? (<class '[^']+'>)")
_GIVEN = re.compile(r"Given value: (.*)")
_NO_CLASS = re.compile(r"Expected a (?:dot import path string: |path but )(\S+)")
_NO_FILE = re.compile(r"File does not exist: '([^']+)'")
_YAML_PLACE = re.compile(r"\bline (\d+)(?:, column (\d+))?")


def command_parser(command: str, description: str | None = None) -> ArgumentParser:
    """The parser of a small command: no abbreviations, and complaints that ``parse`` can reword."""
    return ArgumentParser(
        prog=f"pretrain {command}",
        description=description,
        allow_abbrev=False,
        exit_on_error=False,
    )


def parse(parser: ArgumentParser, argv: list[str]) -> Namespace:
    """``parser.parse_args`` of a ``command_parser`` whose complaint is one sentence.

    Raises:
        UserError: An option is wrong.
    """
    try:
        return parser.parse_args(argv)
    except ArgumentError as error:
        raise UserError(explain(str(error), parser)) from error


def refuse_abbreviations(arguments: list[str], config: Namespace) -> None:
    """Refuse ``--model.network.n_layer``, which the parser of a nested class completes in silence.

    Raises:
        UserError: An option of the model or the data is no key of ``config``; with the nearest.
    """
    for argument in arguments:
        option = argument.partition("=")[0].rstrip("+")
        root, *names = option.removeprefix("--").split(".")
        if not option.startswith("--") or root not in ("model", "data") or not names:
            continue
        held = config[root]
        place = held if names[0] in held else held.get("init_args")
        for depth, name in enumerate(names):
            if not isinstance(place, Namespace):
                break  # a value without keys of its own
            if name not in place:
                outer = ".".join([root, *names[:depth]])
                near = difflib.get_close_matches(name, vars(place), n=1)
                hint = f"did you mean {outer}.{near[0]}?" if near else "see --print_config."
                raise UserError(f"There is no key {outer}.{name}: {hint}")
            place = place[name]


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
    if message.startswith("Problems parsing config"):
        return _bad_yaml(message)
    if message.startswith("Unexpected config:"):
        held = message.removeprefix("Unexpected config:").split("\n")[0].strip() or "nothing"
        return f"A --config file must hold keys such as trainer:, but one holds {held}."
    keys = _PARSER_KEY.findall(message)
    if keys == ["config"]:
        missing = _NO_FILE.search(message)
        return f"--config {missing[1]}: there is no such file." if missing else _innermost(message)
    no_class = _NO_CLASS.search(message)
    if keys in (["model"], ["data"]) and no_class is not None:
        return _unknown_class(keys[0], no_class[1])
    expected = _EXPECTED.findall(message)
    if keys and expected:
        kinds = " or ".join(dict.fromkeys(_kind(kind) for kind, _ in expected))
        return f"{_join(keys)} is {expected[-1][1].strip()!r}, but must be {kinds}."
    given = _GIVEN.findall(message)
    kinds_asked = [_kind(kind) for kind in _KIND.findall(message) if "NoneType" not in kind]
    if keys and given and kinds_asked:
        kinds = " or ".join(dict.fromkeys(kinds_asked))
        return f"{_join(keys)} is {given[0]}, but must be {kinds}."
    where = f"{_join(keys)}: " if keys else ""
    return where + _innermost(message)


def _unknown_key(message: str, match: re.Match[str], parser: ArgumentParser) -> str:
    before = message[: match.start()]
    outer = _PARSER_KEY.findall(before)
    prefix = _join(outer)
    key = ".".join([*outer, *match.groups()])
    if not outer and f"--{key}" not in message and "unrecognized" in message:
        return f"{key!r} is not an option: options start with --, as in --trainer.max_steps 100."
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
    keys = []
    for action in parser._actions:
        if isinstance(action.choices, Mapping):  # subcommands, by name
            keys += [key for sub in action.choices.values() for key in _keys_of(sub)]
        elif action.dest != "help":
            keys.append(action.dest)
    return keys


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
    names = {
        "int": "a whole number",
        "float": "a number",
        "bool": "true or false",
        "str": "text",
        "tuple": "a list",
    }
    plain = re.sub(r"<class '(?:\w+\.)*(\w+)'>", r"\1", kind)
    return names.get(plain, plain)


def _unknown_class(key: str, name: str) -> str:
    """``name`` is no class that can stand under ``key``; ours are known by their short names."""
    # Here, so that commands without a model need not wait for it.
    from lightning.pytorch import LightningDataModule, LightningModule

    base = LightningModule if key == "model" else LightningDataModule
    ours = sorted(c.__name__ for c in _subclasses(base) if c.__module__.startswith("pretrain."))
    near = difflib.get_close_matches(name, ours, n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(ours)}."
    return f"{key} is {name!r}, which is no class here: {hint}"


def _subclasses(base: type) -> list[type]:
    direct: list[type] = base.__subclasses__()
    return direct + [deeper for sub in direct for deeper in _subclasses(sub)]


def _bad_yaml(message: str) -> str:
    place = _YAML_PLACE.findall(message)
    where = f" in line {place[-1][0]}" if place else ""
    what = [line.strip() for line in message.splitlines()[1:] if " in " not in line]
    return f"A --config file is no valid YAML{where}: {what[0] if what else 'it cannot be read'}."


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
