"""A classifier's head as ``config.json`` tells of it: labels, kind, dropout."""

from collections.abc import Mapping
from typing import Any, get_args

from pretrain.data.labels import LabelKind, Labels
from pretrain.errors import UserError
from pretrain.interop.fields import Fields
from pretrain.interop.portable import Classifier

_PROBLEMS = {
    "single": "single_label_classification",
    "multi": "multi_label_classification",
    "regression": "regression",
}
# What they call a label that has no name; the one number of a regression has to have one too.
_VALUE = "LABEL_{}"


def write_classifier(head: Classifier) -> dict[str, Any]:
    """The fields of ``config.json`` that say what the classifier's outputs mean."""
    names = head.labels.names or (_VALUE.format(0),)
    # A head behind a causal network has no dropout there.
    dropout = {} if head.causal else {"classifier_dropout": head.dropout}
    return {
        "num_labels": len(names),
        "id2label": {str(index): name for index, name in enumerate(names)},
        "label2id": {name: index for index, name in enumerate(names)},
        "problem_type": _PROBLEMS[head.labels.kind],
        **dropout,
    }


def read_classifier(fields: Fields, n_outputs: int, causal: bool) -> Classifier:
    """The inverse, for a head with ``n_outputs`` outputs.

    Whether it was trained on pairs is not said there.

    Raises:
        UserError: The labels are not as many as the outputs, two have one name, or the kind and
            the number of outputs don't go together.
    """
    kind = _kind(fields, n_outputs)
    names = () if kind == "regression" else _names(fields, n_outputs)
    dropout = 0.0
    if not causal:
        dropout = fields.get("classifier_dropout", fields.get("hidden_dropout_prob", 0.1))
    return Classifier(Labels(kind, names), "last" if causal else "cls", causal, dropout)


def _kind(fields: Fields, n_outputs: int) -> LabelKind:
    usual: LabelKind = "regression" if n_outputs == 1 else "single"
    problem = fields.choice("problem_type", _PROBLEMS[usual], {p: p for p in _PROBLEMS.values()})
    kind = next(kind for kind in get_args(LabelKind) if _PROBLEMS[kind] == problem)
    if (kind == "regression") != (n_outputs == 1):
        raise UserError(
            f"{fields.path}: problem_type is {problem!r}, but the classifier has {n_outputs} "
            "outputs: a regression has 1 here, and the other kinds have more."
        )
    return kind


def _names(fields: Fields, n_outputs: int) -> tuple[str, ...]:
    """By id; where the file says nothing, those that ``transformers`` gives."""
    ids = [str(index) for index in range(n_outputs)]
    given = fields.values.get("id2label")
    if given is None:
        given = {index: _VALUE.format(index) for index in ids}
    if not isinstance(given, Mapping) or set(given) != set(ids):
        raise UserError(f"{fields.path}: id2label doesn't name the ids 0 to {n_outputs - 1}.")
    names = tuple(str(given[index]) for index in ids)
    if len(set(names)) < n_outputs:
        raise UserError(f"{fields.path}: id2label gives one name to several classes.")
    return names
