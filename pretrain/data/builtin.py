"""The built-in corpus: the documentation inside Python and the packages that we depend on.

A fresh machine has no corpus, but some 25 MB of real technical English stands in the docstrings of
the standard library and of `torch`, `sympy`, `pandas` and the like. They are parsed, never
imported. The scan takes about half a minute, once for each set of versions.
"""

import ast
import gzip
import hashlib
import io
import json
import logging
import platform
import re
import sys
import sysconfig
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache
from importlib import metadata
from pathlib import Path

from pretrain.data.document import flaw
from pretrain.data.files import default_cache_dir, written_whole
from pretrain.errors import UserError

TYPICAL_BYTES = 25_000_000
SHORTEST = 200

_ROOTS = ("datasets", "jsonargparse", "lightning", "tokenizers", "torch", "torchmetrics", "wandb")
_STANDARD_LIBRARY = "python"
_FORMAT = 2  # raise it when the rule of what is collected changes
_FOLDERS_ASIDE = {"test", "tests", "idle_test", "site-packages", "dist-packages"}

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class BuiltinDocument:
    """A docstring of more than 200 characters, its distribution, and its file and line."""

    text: str
    package: str
    where: str


def builtin_documents(cache_dir: Path | None = None) -> Iterator[BuiltinDocument]:
    """Every documentation text once, sorted by package and path.

    Raises UserError if the installation holds no source code at all.
    """
    folder = cache_dir or default_cache_dir()
    kept = folder / "builtin" / f"{versions_key()[:16]}.jsonl.gz"
    if not kept.exists():
        documents = list(_scan())
        if not documents:
            raise UserError("the installed packages hold no documentation: name a source of text")
        try:
            _keep(documents, kept)
        except UserError as error:
            _log.warning("The built-in corpus is scanned again next time: %s", error)
            yield from documents
            return
    with gzip.open(kept, "rt", encoding="utf-8", newline="\n") as lines:
        for line in lines:
            yield BuiltinDocument(**json.loads(line))


@cache
def versions_key() -> str:
    """SHA-256 over the versions of Python and of every package read, in hex."""
    versions = {name: found.version for name, found in _distributions().items()}
    text = json.dumps([_FORMAT, SHORTEST, platform.python_version(), versions], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _distributions() -> dict[str, metadata.Distribution]:
    """Our dependencies, and theirs, by normalised name, sorted; extras are left out."""
    from packaging.requirements import Requirement

    found: dict[str, metadata.Distribution] = {}
    waiting = list(_ROOTS)
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if name in found:
            continue
        try:
            found[name] = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue
        for requirement in map(Requirement, found[name].requires or []):
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                waiting.append(requirement.name)
    return dict(sorted(found.items()))


def _python_files() -> Iterator[tuple[str, str, Path]]:
    """(package, path relative to its root, path) of every source file, in a fixed order."""
    for package, distribution in _distributions().items():
        names = {str(file): file for file in distribution.files or () if file.suffix == ".py"}
        for name in sorted(names):
            if not _is_aside(name):
                yield package, name, Path(str(names[name].locate()))
    root = Path(sysconfig.get_paths()["stdlib"])
    paths = {path.relative_to(root).as_posix(): path for path in root.rglob("*.py")}
    for name in sorted(paths):
        if not _is_aside(name):
            yield _STANDARD_LIBRARY, name, paths[name]


def _is_aside(name: str) -> bool:
    # Test folders are a sixth of the code with a hundredth of the documentation, and Pythons
    # differ in whether they ship their own.
    return bool(_FOLDERS_ASIDE & set(name.split("/")))


def _scan() -> Iterator[BuiltinDocument]:
    from tqdm import tqdm

    seen: set[str] = set()
    files = list(_python_files())
    bar = tqdm(files, "scanning documentation", unit="file", disable=not sys.stderr.isatty())
    for package, name, path in bar:
        for line, text in _docstrings(path):
            if len(text) > SHORTEST and text not in seen and not flaw(text):
                seen.add(text)
                yield BuiltinDocument(text, package, f"{name}:{line}")


def _docstrings(path: Path) -> Iterator[tuple[int, str]]:
    """(line, docstring) in the order of the file; a file that Python can't parse has none."""
    try:
        code = path.read_bytes()
        # A docstring of that length is triple-quoted; parsing is what costs time.
        if b'"""' not in code and b"'''" not in code:
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # other people's escape sequences
            waiting: list[ast.AST] = [ast.parse(code)]
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield getattr(node, "lineno", 1), text
        # Definitions stand in statements only: expressions need no visit.
        for field in ("finalbody", "orelse", "handlers", "cases", "body"):
            inner = getattr(node, field, None)
            if isinstance(inner, list):
                waiting.extend(reversed(inner))


def _keep(documents: list[BuiltinDocument], path: Path) -> None:
    with (
        written_whole(path) as temporary,
        gzip.open(temporary, "wb", compresslevel=6) as raw,
        io.TextIOWrapper(raw, encoding="utf-8", newline="\n") as lines,
    ):
        for document in documents:
            lines.write(json.dumps(asdict(document), ensure_ascii=False) + "\n")
