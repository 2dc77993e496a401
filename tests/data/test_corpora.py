import gzip

import datasets
import fsspec
import pyarrow
import pyarrow.parquet
import pytest

from pretrain.data.source import SourceOptions, TextSource
from pretrain.errors import UserError


def write(folder, **files):
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def pairs(source):
    return [(split, document.text) for split, document in source.documents()]


def test_a_folder_with_named_files_is_used_as_such_and_says_so(tmp_path):
    write(tmp_path, train_txt="a\nb\n", val_txt="c\n", test_txt="d\n", readme_md="no\n")
    source = TextSource(str(tmp_path))
    assert source.splits == ("train", "validation", "test")
    assert pairs(source) == [("train", "a"), ("train", "b"), ("validation", "c"), ("test", "d")]
    assert list(source.texts("test")) == ["d"]
    assert source.note == (
        f"{tmp_path}: train is train.txt, validation is val.txt, test is test.txt "
        "(readme.md not used)"
    )


def test_named_folders_serve_like_named_files(tmp_path):
    write(tmp_path, train__1_txt="a\n", train__2_txt="b\n", dev__1_txt="c\n")
    source = TextSource(str(tmp_path))
    assert pairs(source) == [("train", "a"), ("train", "b"), ("validation", "c")]
    assert "train is train/1.txt and 1 more" in source.note


def test_training_files_without_validation_are_split_by_the_rule(tmp_path):
    write(tmp_path, train_txt="abcd\n", test_txt="x\n")
    source = TextSource(str(tmp_path), options=SourceOptions(split="tail", split_share=0.5))
    assert pairs(source) == [("train", "ab"), ("validation", "cd"), ("test", "x")]
    assert list(source.texts("validation")) == ["cd"]
    assert list(source.texts("test")) == ["x"]


def test_a_folder_is_read_in_the_order_of_paths_without_hidden_or_foreign_files(tmp_path):
    write(tmp_path, b_txt="2\n", a__z_jsonl='{"text": "1"}\n', c_pdf="no\n")
    (tmp_path / ".hidden.txt").write_text("no\n")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "x.txt").write_text("no\n")
    (tmp_path / "d.txt.gz").write_bytes(gzip.compress(b"3\n"))
    source = TextSource(str(tmp_path), options=SourceOptions(split="tail", split_share=0.3))
    assert [text for _, text in pairs(source)] == ["1", "2", "3"]
    assert source.local_bytes == sum(
        (tmp_path / name).stat().st_size for name in ("b.txt", "a/z.jsonl", "d.txt.gz")
    )


def test_a_link_is_followed_to_a_file_and_named_where_it_leads_nowhere(tmp_path):
    write(tmp_path, a_txt="1\n")
    (tmp_path / "b.txt").symlink_to(tmp_path / "a.txt")
    (tmp_path / "circle").symlink_to(tmp_path)
    source = TextSource(str(tmp_path), str(tmp_path / "a.txt"))
    assert list(source.texts("train")) == ["1", "1"]
    (tmp_path / "c.txt").symlink_to(tmp_path / "nowhere")
    source = TextSource(str(tmp_path), str(tmp_path / "a.txt"))
    for use in (lambda: source.fingerprint, lambda: list(source.documents())):
        with pytest.raises(UserError, match=r"c\.txt can't be read \(No such file"):
            use()


def test_a_glob_takes_what_matches(tmp_path):
    write(tmp_path, a_txt="1\n", b_txt="2\n", c_jsonl='{"text": "3"}\n', deep__d_txt="4\n")
    options = SourceOptions(split="tail", split_share=0.5)
    assert [t for _, t in pairs(TextSource(f"{tmp_path}/*.txt", options=options))] == ["1", "2"]
    source = TextSource(f"{tmp_path}/**/*.txt", options=options)
    assert sorted(t for _, t in pairs(source)) == ["1", "2", "4"]


def test_a_file_with_glob_characters_in_its_name_is_that_file(tmp_path):
    (tmp_path / "a::b#1%20.txt").write_text("colons\n")
    assert list(TextSource(f"{tmp_path}/a::b#1%20.txt", f"{tmp_path}").texts("train")) == ["colons"]
    (tmp_path / "a[1]*.txt").write_text("1\n")
    (tmp_path / "a1x.txt").write_text("2\n")
    source = TextSource(f"{tmp_path}/a[1]*.txt", f"{tmp_path}/a1x.txt")
    assert pairs(source) == [("train", "1"), ("validation", "2")]


def test_a_url_is_opened_by_fsspec():
    filesystem = fsspec.filesystem("memory")
    filesystem.pipe("/corpus/train.jsonl.gz", gzip.compress(b'{"text": "a"}\n'))
    filesystem.pipe("/corpus/valid.txt", b"b\n")
    source = TextSource("memory://corpus")
    assert pairs(source) == [("train", "a"), ("validation", "b")]
    assert source.local_bytes is None
    before = source.fingerprint
    filesystem.pipe("/corpus/valid.txt", b"c\n")
    assert TextSource("memory://corpus").fingerprint != before
    with pytest.raises(UserError, match="unknown length"):
        TextSource("memory://corpus/valid.txt", options=SourceOptions(split="tail"))


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("no_such_folder/x.jsonl", "no such file or folder"),
        ("./nowhere", "no such file or folder"),
        ("/nowhere/*.txt", "no such file or folder"),
        ("nosuchscheme://bucket/x.txt", "can't be opened"),
        ("", "the source is empty"),
        ("memory://nowhere/x.txt", "nothing is there"),
    ],
)
def test_a_source_that_is_not_there_is_one_sentence(source, said):
    with pytest.raises(UserError, match=said):
        TextSource(source)


def test_an_unknown_extension_is_answered_with_the_known_ones(tmp_path):
    (tmp_path / "x.pdf").write_bytes(b"%PDF")
    for source in (tmp_path, tmp_path / "x.pdf"):
        with pytest.raises(UserError, match=r"\.txt.*\.jsonl.*\.parquet.*\.gz"):
            TextSource(str(source))


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """A dataset of the hub with two splits, served from a local folder."""
    for split, texts in {"train": ["a", "b", None], "validation": ["c"]}.items():
        table = pyarrow.table({"text": texts, "n": range(len(texts))})
        pyarrow.parquet.write_table(table, tmp_path / f"{split}-00000-of-00001.parquet")
    real, asked = datasets.load_dataset_builder, []

    def builder(path, name=None):
        asked.append((path, name))
        return real(str(tmp_path))

    monkeypatch.setattr(datasets, "load_dataset_builder", builder)
    return asked


def test_a_hub_name_is_streamed_with_its_splits(hub):
    source = TextSource("org/name:config", options=SourceOptions(on_bad_record="skip"))
    assert hub == [("org/name", "config")]
    assert source.splits == ("train", "validation")
    assert source.note == "org/name:config: train is train, validation is validation"
    assert pairs(source) == [("train", "a"), ("train", "b"), ("validation", "c")]
    assert source.bad_records == {'field "text" is null, not text': 1}
    assert source.local_bytes is None


def test_a_bad_row_of_the_hub_is_named(hub):
    with pytest.raises(UserError, match=r'org/name \(train\), row 3: field "text" is null'):
        list(TextSource("org/name").documents())


def test_a_hub_that_can_not_be_reached_is_one_sentence(monkeypatch):
    def unreachable(path, name=None):
        raise ConnectionError("Couldn't reach it\nand much more")

    monkeypatch.setattr(datasets, "load_dataset_builder", unreachable)
    with pytest.raises(UserError, match=r"hub \(Couldn't reach it\)$"):
        TextSource("org/name")
