from collections import Counter
from types import SimpleNamespace

from pretrain.data.skipped import SkippedRecords


def stream(**counts):
    return SimpleNamespace(bad_records=Counter(counts))


def test_held_out_text_is_counted_with_the_text_it_was_held_out_of():
    skipped = SkippedRecords()
    skipped.watch("train", stream(null=3, empty=1))
    skipped.watch("validation", stream(null=3, empty=2))
    skipped.watch("test", stream(null=1))
    assert skipped.total(is_held_out=True) == {"null": 4, "empty": 2}
    assert skipped.total(is_held_out=False) == {"null": 7, "empty": 3}


def test_a_pass_that_begins_anew_does_not_count_twice_nor_forget():
    first = SkippedRecords()
    first.watch("train", stream(null=3))
    other = SkippedRecords()
    other.load(first.state())
    other.watch("train", again := stream())
    assert other.total(is_held_out=False) == {"null": 3}
    again.bad_records.update({"null": 3})
    assert other.total(is_held_out=False) == {"null": 3}
    other.load({})
    again.bad_records.update({"null": 2})
    assert other.state() == {"train": {"null": 5}}
