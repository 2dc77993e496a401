"""The kinds of corpus that a source string can name: files, a hub dataset, the built-in one."""

import json
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from pretrain.data import builtin
from pretrain.data.document import Document, RecordRule
from pretrain.data.readers import (
    COMPRESSIONS,
    EXTENSIONS,
    ROWS_AT_ONCE,
    DataFile,
    extension,
    read_documents,
    read_rows,
    told_by_name,
)
from pretrain.data.splits import TRAIN, named_parts, split_of_name, split_of_path
from pretrain.errors import UserError

_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?(:[\w.-]+)?")
_KNOWN = ", ".join(EXTENSIONS) + ", also with " + ", ".join(COMPRESSIONS)


class Corpus(Protocol):
    """Documents in parts: train, and validation and test where files are called so."""

    @property
    def parts(self) -> tuple[str, ...]:
        """The splits that stand in it by name, train first."""

    @property
    def note(self) -> str | None:
        """Which files serve as what, in one line, if names decided it."""

    @property
    def local_bytes(self) -> int | None:
        """Bytes on this machine's disk, None for what is elsewhere."""

    def identity(self) -> str:
        """A text that changes when the documents may have changed."""

    def documents(self, part: str, rule: RecordRule) -> Iterator[Document]:
        """The documents of one part, in a fixed order."""


def open_corpus(source: str, cache_dir: Path | None = None) -> Corpus:
    """The corpus that ``source`` names; raises UserError saying what was looked for."""
    if source == "builtin":
        return BuiltinCorpus(cache_dir)
    if not source.strip():
        raise UserError("the source is empty: give a file, a folder, a URL or a dataset's name")
    files = _find_files(source)
    if files:
        return FileCorpus(source, files)
    if _HUB_NAME.fullmatch(source) and extension(source) not in EXTENSIONS:
        return HubCorpus(source)
    raise UserError(f"{source}: there is no such file or folder, and no file matches it as a glob")


class FileCorpus:
    """Files of text, tables, JSONL or Parquet, wherever fsspec finds them."""

    def __init__(self, source: str, files: dict[str, DataFile]) -> None:
        named = {name: split_of_path(name) for name in files} if len(files) > 1 else {}
        self._parts, unused = named_parts(named or dict.fromkeys(files))
        self._files = files
        self.parts = tuple(self._parts)
        self.note = _note(source, self._parts, unused) if any(named.values()) else None

    @property
    def local_bytes(self) -> int | None:
        """Bytes on disk, compressed as they are; None if any file is elsewhere."""
        files = list(self._used())
        if any("file" not in _protocols(file.filesystem) for file in files):
            return None
        return sum(_local_stat(file).st_size for file in files)

    def identity(self) -> str:
        """Paths, sizes and times of change (elsewhere: what the file system tells a version by)."""
        return json.dumps(
            {
                part: [_identity(self._files[name]) for name in names]
                for part, names in self._parts.items()
            }
        )

    def documents(self, part: str, rule: RecordRule) -> Iterator[Document]:
        """The documents of one part, file by file in the order of their paths."""
        for name in self._parts[part]:
            yield from read_documents(self._files[name], rule)

    def _used(self) -> Iterator[DataFile]:
        return (self._files[name] for names in self._parts.values() for name in names)


class HubCorpus:
    """A dataset of the Hugging Face hub, streamed; code in it is never run."""

    local_bytes = None

    def __init__(self, source: str) -> None:
        from datasets import load_dataset_builder

        self._source = source
        path, _, config = source.partition(":")
        try:
            self._builder = load_dataset_builder(path, config or None)
            if getattr(self._builder.config, "batch_size", 0) is None:  # of Parquet files
                self._builder.config.batch_size = ROWS_AT_ONCE
            self._splits: dict[str, Any] = dict(self._builder.as_streaming_dataset())
        # Whatever the hub's client raises (no network, no such name, no such config): one sentence.
        except Exception as error:
            raise UserError(
                f"{source} is no file or folder here, and can't be had from the Hugging Face hub "
                f"({_first_line(error)})"
            ) from error
        named = {name: split_of_name(name) for name in self._splits}
        self._parts, unused = named_parts(named)
        self.parts = tuple(self._parts)
        self.note = _note(source, self._parts, unused) if len(named) > 1 else None

    def identity(self) -> str:
        """The hub's revision and the files behind the splits."""
        return f"{self._source} {self._builder.hash} {self._builder.config.data_files}"

    def documents(self, part: str, rule: RecordRule) -> Iterator[Document]:
        """The rows of one part; the network is asked again only by `datasets` itself."""
        for name in self._parts[part]:
            where = f"{self._source} ({name})"
            try:
                yield from read_rows(self._splits[name], where, rule)
            except UserError:
                raise
            except Exception as error:
                raise UserError(f"{where} can't be read on ({_first_line(error)})") from error


class BuiltinCorpus:
    """The documentation inside the installed Python packages."""

    parts = (TRAIN,)
    note = None
    local_bytes = builtin.TYPICAL_BYTES

    def __init__(self, cache_dir: Path | None) -> None:
        self._cache_dir = cache_dir

    def identity(self) -> str:
        """The versions of Python and of every package read."""
        return builtin.versions_key()

    def documents(self, part: str, rule: RecordRule) -> Iterator[Document]:
        """Every documentation text; none of them is a bad record."""
        for document in builtin.builtin_documents(self._cache_dir):
            yield Document(document.text, document.where)


def _find_files(source: str) -> dict[str, DataFile]:
    """Name relative to the source → file, sorted; empty if nothing is there.

    Hidden files are left out, and links to folders are not followed (they may lead in a circle).
    """
    import fsspec

    remote = "://" in source
    try:
        if remote:
            filesystem, path = fsspec.core.url_to_fs(source)
        else:  # not by url_to_fs, which takes :: in a name for a chain of file systems
            filesystem = fsspec.filesystem("file")
            path = str(Path(source).expanduser().absolute())
        if filesystem.isfile(path):
            if extension(path) not in EXTENSIONS:
                raise UserError(f"{source}: its extension is none of those known ({_KNOWN})")
            found, root = [path], path.rpartition("/")[0]
        elif filesystem.isdir(path):
            found, root = filesystem.find(path), path
        else:
            found, root = filesystem.glob(path), re.split(r"[*?\[]", path)[0].rpartition("/")[0]
            found = [name for name in found if filesystem.isfile(name)]
    except UserError:
        raise
    # File systems raise errors of their own kinds: no credentials, no host, no such protocol.
    except Exception as error:
        raise UserError(f"{source} can't be opened ({_first_line(error)})") from error
    relative = {name: name.removeprefix(root).lstrip("/") for name in sorted(found)}
    files = {
        relative[name]: DataFile(
            filesystem, name, filesystem.unstrip_protocol(name) if remote else name
        )
        for name in relative
        if extension(name) in EXTENSIONS and not re.search(r"(^|/)\.", relative[name])
    }
    if not files and (remote or filesystem.exists(path)):
        raise UserError(f"{source}: nothing is there, or no file with a known extension ({_KNOWN})")
    return files


def _identity(file: DataFile) -> Sequence[Any]:
    if "file" in _protocols(file.filesystem):
        stat = _local_stat(file)
        return file.path, stat.st_size, stat.st_mtime_ns
    return file.name, file.filesystem.ukey(file.path)


def _local_stat(file: DataFile) -> os.stat_result:
    with told_by_name(file.name):
        return Path(file.path).stat()


def _protocols(filesystem: Any) -> tuple[str, ...]:
    protocol = filesystem.protocol
    return (protocol,) if isinstance(protocol, str) else tuple(protocol)


def _note(source: str, parts: dict[str, list[str]], unused: list[str]) -> str:
    lines = [f"{part} is {_listed(names)}" for part, names in parts.items()]
    left_out = f" ({_listed(unused)} not used)" if unused else ""
    return f"{source}: {', '.join(lines)}{left_out}"


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
