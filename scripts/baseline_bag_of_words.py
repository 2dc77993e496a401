"""What a bag of words reaches on labelled texts: what a fine-tuned network has to beat.

    python scripts/baseline_bag_of_words.py [--source builtin] [--json FILE]

On the very examples of a ``ClassificationDataModule``: trained on train, scored on validation.
TF-IDF of words and pairs of neighbouring words (of a pair of texts both, one behind the other), and
a logistic regression with scikit-learn. It reads whole texts; with ``--tokenizer`` (such as that of
a run) and ``--max_len`` only the part of them that a network is given.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

from pretrain.data import ClassificationDataModule, TokenizerRule
from pretrain.data.framing import kept_lengths
from pretrain.data.labelled import Example
from pretrain.errors import UserError
from pretrain.runs.console import hush_libraries, say
from pretrain.runs.environment import describe_machine


def main(arguments: list[str] | None = None) -> None:
    """Train, score, print the figures and write them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("--source", default="builtin", help="as data.source")
    parser.add_argument("--val_source", help="as data.val_source")
    parser.add_argument("--text_field", default="text")
    parser.add_argument("--pair_field")
    parser.add_argument("--label_field", default="label")
    parser.add_argument("--tokenizer", help="cut the texts as this network's are")
    parser.add_argument("--max_len", type=int, default=128, help="tokens left by --tokenizer")
    parser.add_argument("--json", type=Path, help="where the figures go too")
    options = vars(parser.parse_args(arguments))
    path = options.pop("json")
    hush_libraries()
    try:
        report = measure(open_data(**options), is_cut=options["tokenizer"] is not None)
    except UserError as error:
        raise SystemExit(str(error)) from None
    report = {"source": options["source"], "machine": describe_machine(), **report}
    say(json.dumps(report, indent=1))
    if path is not None:
        path.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


def open_data(tokenizer: str | None = None, **options: Any) -> ClassificationDataModule:
    """The examples, with a tokenizer that is made in no time if none is asked for."""
    data = ClassificationDataModule(**options, tokenizer=tokenizer or TokenizerRule("char"))
    data.prepare_data()
    data.setup("fit")
    return data


def measure(data: ClassificationDataModule, is_cut: bool = False) -> dict[str, Any]:
    """Accuracy, mean F1 over the classes, Matthews correlation, and what guessing reaches."""
    try:
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.linear_model import LogisticRegression
        from sklearn.metrics import f1_score, matthews_corrcoef
        from sklearn.pipeline import make_pipeline
    except ImportError:
        raise UserError(
            "This script needs scikit-learn, which is not installed: pip install scikit-learn"
        ) from None
    if data.labels.kind != "single":
        raise UserError("The bag of words needs one class a text.")
    texts, labels = examples_of(data, "train", is_cut)
    held_out, expected = examples_of(data, "validation", is_cut)
    words = TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True)
    model = make_pipeline(words, LogisticRegression(C=10.0, max_iter=1000))
    start = time.perf_counter()
    found = model.fit(texts, labels).predict(held_out)
    commonest = Counter(labels).most_common(1)[0][0]
    return {
        "labels": list(data.labels.names),
        "max_len": data.max_len if is_cut else None,
        "n_train": len(texts),
        "n_validation": len(held_out),
        "n_features": len(words.vocabulary_),
        "commonest_class": expected.count(commonest) / len(expected),
        "accuracy": float((found == expected).mean()),
        "macro_f1": float(f1_score(expected, found, average="macro", zero_division=0)),
        "matthews": float(matthews_corrcoef(expected, found)),
        "seconds": round(time.perf_counter() - start, 1),
    }


def examples_of(
    data: ClassificationDataModule, split: str, is_cut: bool = False
) -> tuple[list[str], list[int]]:
    """Texts and the ids of their classes."""
    examples = data.examples(split)
    texts = [cut(data, one) if is_cut else [one.text, one.pair or ""] for one in examples]
    labels: Any = [data.labels.encode(one) for one in examples]
    return ["\n".join(parts) for parts in texts], labels


def cut(data: ClassificationDataModule, example: Example) -> list[str]:
    """What is left of an example's texts in a row of ``max_len`` tokens."""
    texts = [example.text, example.pair or ""]
    encode = data.tokenizer.backend.encode
    ends = [[end for _, end in encode(text, add_special_tokens=False).offsets] for text in texts]
    kept = kept_lengths(len(ends[0]), len(ends[1]), data.framing.room)
    return [text[: end[n - 1]] if n else "" for text, end, n in zip(texts, ends, kept, strict=True)]


if __name__ == "__main__":
    main()
