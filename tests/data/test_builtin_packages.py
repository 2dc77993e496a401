import pytest

from pretrain.data import builtin
from pretrain.data.builtin import BuiltinDocument
from pretrain.data.builtin_packages import PackageCorpus, choose, masker
from pretrain.data.labelled import ExampleOptions, ExampleSource, LabelledRule
from pretrain.data.splits import hash_side


def document(text, package="torch", where="torch/nn.py:1"):
    return BuiltinDocument(text, package, where)


PACKAGES = [
    document("", "torch", "torch/nn.py:1"),
    document("", "python", "time.py:1"),
    document("", "python-dateutil", "dateutil/tz.py:1"),
    document("", "click", "click/core.py:1"),
    document("", "h11", "h11/_state.py:2"),
    document("", "typing-extensions", "typing_extensions.py:3"),
    document("", "pyyaml", "_yaml/__init__.py:3"),
]


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("import torch.nn as nn", "import package.nn as nn"),
        ("Torch, TORCH and `torch`", "package, package and `package`"),
        ("torch_geometric, PyTorch, TorchScript", "package_geometric, Pypackage, packageScript"),
        ("h11 but not sha11 or h111", "package but not sha11 or h111"),
        ("np.array, hf and MP", "package.array, package and package"),
        ("on Hugging Face, in W&B!", "on package, in package!"),
        ("typing_extensions, Typing-Extensions, typing", "package, package, typing"),
        ("python-dateutil needs Python 3 and time", "package needs package 3 and time"),
        ("dateutil, yaml", "package, package"),
        ("nothing here: çlick", "nothing here: çlick"),
        ("", ""),
    ],
)  # fmt: skip
def test_names_of_packages_are_masked_wherever_they_stand(text, masked):
    assert masker(PACKAGES)(text) == masked


def test_classes_are_packages_with_enough_documents_and_none_has_too_many():
    held = [
        document(f"{p}{n}", p) for p, size in (("a", 3), ("b", 9), ("c", 2)) for n in range(size)
    ]
    chosen = list(choose(held, fewest=3, most=4))
    assert [one.package for one in chosen] == ["a"] * 3 + ["b"] * 4
    assert chosen == [one for one in held if one in chosen]  # in their order
    more = [document("b9", "b"), *held]
    kept = {one.text for one in choose(more, 3, 4)} & {one.text for one in chosen}
    assert len(kept) >= 6  # a new document displaces one at most


def test_texts_are_chosen_by_another_hash_than_the_one_that_splits():
    held = [document(f"text {n}") for n in range(2000)]
    chosen = [one.text for one in choose(held, 1, 400)]
    share = sum(hash_side(text, 0.2) == "validation" for text in chosen) / len(chosen)
    assert 0.1 < share < 0.3


@pytest.fixture
def installed(monkeypatch):
    documents = [document(f"About torch, number {n}.", "torch") for n in range(205)]
    documents += [document(f"About click, number {n}.", "click") for n in range(300)]
    documents += [document("One of few.", "rare", "rare.py:1")]
    monkeypatch.setattr(builtin, "builtin_documents", lambda cache_dir: iter(documents))
    monkeypatch.setattr(builtin, "versions_key", lambda: "versions")


def test_the_source_called_builtin_has_packages_for_labels(installed):
    source = ExampleSource("builtin", None, ExampleOptions(split_share=0.2))
    examples = [example for _, example in source.examples("train", "validation")]
    assert {example.label for example in examples} == {"torch", "click"}
    assert len(examples) == 505
    assert not any("torch" in example.text or "click" in example.text for example in examples)
    assert source.note.startswith("builtin: labels are the packages with at least 200 texts")
    assert len(list(source.texts("train"))) + len(list(source.texts("validation"))) == 505


def test_what_is_read_follows_from_versions_and_rules(installed):
    assert PackageCorpus(None).identity().startswith("versions ")
    options = ExampleOptions(text_field="body", label_field="who")
    (first, *_) = PackageCorpus(None).documents("train", LabelledRule(options, {}))
    assert (first.text, first.label) == ("About package, number 0.", "torch")
