"""The ``README.md`` of an exported folder."""

from collections.abc import Mapping
from typing import Any

from pretrain.interop.portable import Portable

_TASKS = {"mlm": "fill-mask", "clm": "text-generation", "encoder": "feature-extraction"}
# What loads a model of each objective without its class being named.
AUTO_CLASSES = {
    "mlm": "AutoModelForMaskedLM",
    "clm": "AutoModelForCausalLM",
    "encoder": "AutoModel",
}
_VALIDATION = "validation loss, nats per target token"
# What the card of a run calls its figures, what they are called here, and how they are written.
_ROWS = (
    ("source", "data", "{}"),
    ("recipe", "recipe", "{}"),
    ("n_parameters", "parameters", "{:,}"),
    ("step", "step of these weights", "{:,}"),
    ("steps", "steps of the run", "{:,}"),
    ("tokens_seen", "tokens seen by the run", "{:,}"),
    ("val_loss_nats", _VALIDATION, "{:.4f}"),
    ("best_val_loss_nats", "best validation loss on the way", "{:.4f}"),
    ("val_perplexity", "validation perplexity", "{:.2f}"),
    ("val_bits_per_byte", "validation bits per byte", "{:.4f}"),
    ("val_masked_accuracy", "validation accuracy at masked tokens", "{:.4f}"),
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
    known = {
        label: form.format(figures[key])
        for key, label, form in _ROWS
        if figures.get(key) is not None
    }
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
        f"## Training\n\n{_table(known)}\n"
        f"## Use\n\n```python\n{_usage(model)}```\n"
    )


def _table(known: Mapping[str, str]) -> str:
    if not known:
        return "Nothing is known of how these weights were trained.\n"
    rows = "".join(f"| {label} | {value} |\n" for label, value in known.items())
    measured = "\nValidation was measured on the run's last weights.\n"
    return "| | |\n|---|---|\n" + rows + (measured if _VALIDATION in known else "")


def _usage(model: Portable) -> str:
    auto, task = AUTO_CLASSES[model.objective], _TASKS[model.objective]
    text = {"mlm": f'"The capital of France is {_mask(model)}."', "clm": '"Once upon a time"'}
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
