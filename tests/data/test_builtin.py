from pathlib import Path

import pytest

from pretrain.data import builtin
from pretrain.data.source import TextSource

LONG = "Words about something that matters. " * 10


@pytest.fixture
def installed(monkeypatch, tmp_path):
    """Two packages on disk instead of the real ones; counts how often they are looked at."""
    root, looked = tmp_path / "site", []

    def files():
        looked.append(1)
        for path in sorted(root.rglob("*.py")):
            name = path.relative_to(root).as_posix()
            yield name.partition("/")[0], name, path

    monkeypatch.setattr(builtin, "_python_files", files)

    def write(name: str, code: str) -> None:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(code)

    return write, looked


def test_docstrings_are_found_in_order_without_running_the_code(installed, tmp_path):
    write, _ = installed
    trap = tmp_path / "was_imported"
    write(
        "pack/a.py",
        f'"""Module. {LONG}"""\nopen({str(trap)!r}, "w")\n'
        f'class A:\n    """Class. {LONG}"""\n    def f(self):\n        """Method. {LONG}"""\n'
        f'if True:\n    try:\n        async def g():\n            """Nested. {LONG}"""\n'
        "    except ValueError:\n        pass\n",
    )
    write("pack/b.py", f'def f():\n    """Method. {LONG}"""\n')  # the same text again
    write("pack/c.py", f'def f(:\n    """{LONG}"""\n')  # not Python
    write("pack/d.py", 'def f():\n    """Too short."""\n')
    write("pack/e.py", f'def f():\n    """\\ud800 {LONG}"""\ndef g():\n    """\\0 {LONG}"""\n')
    write("other/a.py", f'def f():\n    """Other. {LONG}"""\n')
    found = list(builtin.builtin_documents(tmp_path / "cache"))
    assert [(d.text.split()[0], d.package, d.where) for d in found] == [
        ("Other.", "other", "other/a.py:1"),
        ("Module.", "pack", "pack/a.py:1"),
        ("Class.", "pack", "pack/a.py:3"),
        ("Method.", "pack", "pack/a.py:5"),
        ("Nested.", "pack", "pack/a.py:9"),
    ]
    assert not trap.exists()


def test_the_scan_is_kept_and_equal_when_read_again(installed, tmp_path):
    write, looked = installed
    write("pack/a.py", f'"""Line\u2028separator, tab\t and ☃. {LONG}"""\n')
    first = list(builtin.builtin_documents(tmp_path / "cache"))
    assert list(builtin.builtin_documents(tmp_path / "cache")) == first
    assert len(looked) == 1


def test_a_cache_that_can_not_be_written_costs_only_time(installed, tmp_path):
    write, _ = installed
    write("pack/a.py", f'"""{LONG}"""\n')
    (tmp_path / "cache").write_text("a file, not a folder")
    assert len(list(builtin.builtin_documents(tmp_path / "cache"))) == 1


def test_the_source_called_builtin_streams_these_texts(installed, tmp_path):
    write, _ = installed
    for n in range(100):
        write(f"pack/m{n:03}.py", f'"""Module {n}. {LONG}"""\n')
    source = TextSource("builtin", cache_dir=tmp_path / "cache")
    assert source.splits == ("train", "validation")
    assert len(list(source.documents())) == 100
    assert source.fingerprint == TextSource("builtin").fingerprint


def test_what_is_read_is_the_packages_that_we_depend_on():
    names = list(builtin._distributions())
    assert names == sorted(names)
    assert {"torch", "numpy", "sympy", "lightning", "tokenizers"} <= set(names)
    assert not {"pytest", "ruff", "mypy"} & set(names)
    files = list(builtin._python_files())
    assert {"python", "torch"} <= {package for package, _, _ in files}
    assert all(isinstance(path, Path) for _, _, path in files)
