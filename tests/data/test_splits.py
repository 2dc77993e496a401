import pytest

from pretrain.data.document import Document
from pretrain.data.splits import hash_side, named_parts, split_of_path, tail_sides


@pytest.mark.parametrize(
    ("path", "split"),
    [
        ("train.txt", "train"),
        ("train-00000-of-00003.jsonl.gz", "train"),
        ("validation.jsonl.gz", "validation"),
        ("valid.txt", "validation"),
        ("VAL_01.txt", "validation"),
        ("a/dev.parquet", "validation"),
        ("test/part-1.txt", "test"),
        ("train/deep/er/book.txt", "train"),
        ("train/validation.txt", "validation"),
        ("trainer.txt", None),
        ("dev_in_domain.jsonl", None),
        ("testing/book.txt", None),
    ],
)
def test_a_file_serves_as_the_split_it_is_called_after(path, split):
    assert split_of_path(path) == split


def test_files_of_no_name_are_left_out_beside_training_files_and_train_without_them():
    names = {"train.txt": "train", "val.txt": "validation", "notes.txt": None}
    assert named_parts(names) == (
        {"train": ["train.txt"], "validation": ["val.txt"]},
        ["notes.txt"],
    )
    assert named_parts({"a.txt": None, "test.txt": "test"}) == (
        {"train": ["a.txt"], "test": ["test.txt"]},
        [],
    )
    assert named_parts({"test.txt": "test"}) == ({"train": ["test.txt"]}, [])


def test_the_hash_holds_out_the_share_asked_for_by_the_text_alone():
    sides = [hash_side(f"document {n}", 0.1) for n in range(10_000)]
    assert abs(sides.count("validation") - 1000) < 3 * (10_000 * 0.1 * 0.9) ** 0.5
    assert sides == [hash_side(f"document {n}", 0.1) for n in range(10_000)]
    # What is held out at a small share stays held out at a greater one.
    more = [hash_side(f"document {n}", 0.2) for n in range(10_000)]
    assert all(
        wide == "validation"
        for small, wide in zip(sides, more, strict=True)
        if small == "validation"
    )


@pytest.mark.parametrize("share", [0.1, 0.25, 0.5])
def test_the_tail_is_cut_at_the_character_and_loses_none(share):
    texts = ["abcde", "fg", "hijklmnop", "q"]
    total = sum(map(len, texts))
    sides = list(tail_sides([Document(text, "x") for text in texts], total, share))
    train = "".join(document.text for side, document in sides if side == "train")
    held_out = "".join(document.text for side, document in sides if side == "validation")
    assert train + held_out == "".join(texts)
    assert len(train) == int(total * (1 - share))
    assert [side for side, _ in sides] == sorted(side for side, _ in sides)
