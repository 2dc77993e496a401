"""The ``README.md`` of an exported folder."""

from collections.abc import Mapping
from typing import Any

from pretrain.interop.portable import Portable

_TASKS = {
    "mlm": "fill-mask",
    "clm": "text-generation",
    "encoder": "feature-extraction",
    "classification": "text-classification",
}
# What loads a model of each objective without its class being named.
AUTO_CLASSES = {
    "mlm": "AutoModelForMaskedLM",
    "clm": "AutoModelForCausalLM",
    "encoder": "AutoModel",
    "classification": "AutoModelForSequenceClassification",
}
_LOSS = "val_loss_nats"
# What the card of a run calls its figures, what they are called here, and how they are written.
_ROWS = (
    ("source", "data", "{}"),
    ("recipe", "recipe", "{}"),
    ("n_parameters", "parameters", "{:,}"),
    ("step", "step of these weights", "{:,}"),
    ("steps", "steps of the run", "{:,}"),
    ("tokens_seen", "tokens seen by the run", "{:,}"),
    (_LOSS, "validation loss, nats per target token", "{:.4f}"),
    ("best_val_loss_nats", "best validation loss on the way", "{:.4f}"),
    ("val_perplexity", "validation perplexity", "{:.2f}"),
    ("val_bits_per_byte", "validation bits per byte", "{:.4f}"),
    ("val_masked_accuracy", "validation accuracy at masked tokens", "{:.4f}"),
    ("val_accuracy", "validation accuracy", "{:.4f}"),
    ("val_f1", "validation F1", "{:.4f}"),
    ("val_matthews", "validation Matthews correlation", "{:.4f}"),
    ("val_pearson", "validation Pearson correlation", "{:.4f}"),
    ("val_spearman", "validation Spearman correlation", "{:.4f}"),
    ("tokens_per_s", "training speed, tokens per second", "{:,.0f}"),
    ("wall_time_s", "training time, seconds", "{:,.0f}"),
)


def model_card(name: str, class_name: str, model: Portable, figures: Mapping[str, Any]) -> str:
    """The text of the card.

    Args:
        name: What the folder is called.
        class_name: The class of ``transformers``.
        model: What was exported.
        figures: A run's card (``summary.json``) with ``source`` (the data) and ``step`` (of the
            checkpoint); what is not known is left out.
    """
    return (
        "---\n"
        "license:  # to be filled in, as the training data allows\n"
        "library_name: transformers\n"
        f"pipeline_tag: {_TASKS[model.objective]}\n"
        "---\n\n"
        f"# {name}\n\n"
        f"`{class_name}`, written by pretrain: {model.config.n_layers} layers, "
        f"d_model {model.config.d_model}, {model.config.n_heads} heads, vocabulary "
        f"{model.config.vocab_size:,}, float32.\n\n"
        f"{_labels(model)}"
        f"## Training\n\n{_table(model, figures)}\n"
        f"## Use\n\n```python\n{_usage(model)}```\n"
    )


def _labels(model: Portable) -> str:
    """What the outputs mean; nothing for a model that is no classifier."""
    if model.classifier is None:
        return ""
    kind, names = model.classifier.labels.kind, model.classifier.labels.names
    meaning = {
        "single": f"One of {len(names)} labels for each text",
        "multi": f"Any of {len(names)} labels for each text",
        "regression": "One number for each text",
    }[kind]
    listed = f": {', '.join(f'`{name}`' for name in names)}" if names else ""
    return f"## Labels\n\n{meaning}{listed}.\n\n"


def _table(model: Portable, figures: Mapping[str, Any]) -> str:
    known = {
        key: f"| {label} | {form.format(figures[key])} |\n"
        for key, label, form in _ROWS
        if figures.get(key) is not None
    }
    if not known:
        return "Nothing is known of how these weights were trained.\n"
    if model.classifier is not None and _LOSS in known:
        known[_LOSS] = f"| validation loss per text | {figures[_LOSS]:.4f} |\n"
    measured = "\nValidation was measured on the run's last weights.\n"
    return "| | |\n|---|---|\n" + "".join(known.values()) + (measured if _LOSS in known else "")


def _usage(model: Portable) -> str:
    auto, task = AUTO_CLASSES[model.objective], _TASKS[model.objective]
    text = {"mlm": f'"The capital of France is {_mask(model)}."', "clm": '"Once upon a time"'}
    if model.classifier is not None:
        # A row that is too long is cut as in training.
        pair = '{"text": "A text.", "text_pair": "Another."}'
        example = pair if model.classifier.reads_pairs else '"A text."'
        text[model.objective] = f"{example}, truncation=True"
    lines = [f"from transformers import {auto}, AutoTokenizer, pipeline", ""]
    lines.append(f'model = {auto}.from_pretrained("FOLDER")')
    if model.tokenizer_json is not None:
        lines.append('tokenizer = AutoTokenizer.from_pretrained("FOLDER")')
        prompt = text.get(model.objective, '"A text."')
        lines.append(f'print(pipeline("{task}", model=model, tokenizer=tokenizer)({prompt}))')
    else:
        lines[0] = f"from transformers import {auto}"
    return "\n".join(lines) + "\n"


def _mask(model: Portable) -> str:
    return "<mask>" if model.tokenizer_json and '"<mask>"' in model.tokenizer_json else "[MASK]"
