"""Loads exports as a stranger would: in a process of its own, which knows nothing of pretrain.

Usage: ``python load_exports.py FOLDER``, where ``exchange.pt`` says what to compare. Prints one
JSON object.
"""

import json
import sys
from pathlib import Path

import torch
from transformers import (
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    pipeline,
)

CLASSES = {"mlm": AutoModelForMaskedLM, "clm": AutoModelForCausalLM, "encoder": AutoModel}


def facts(folder, case):
    """What became of one export."""
    auto = CLASSES[case["objective"]]
    model, info = auto.from_pretrained(folder, output_loading_info=True)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    with torch.no_grad():
        output = model.eval()(case["input_ids"], attention_mask=case["attention_mask"].long())
    states = output.last_hidden_state if case["objective"] == "encoder" else output.logits
    real = case["attention_mask"]
    head = model.get_output_embeddings()
    found = {
        "loading": {key: sorted(map(str, value)) for key, value in info.items() if value},
        "class": type(model).__name__,
        "difference": float((states - case["states"])[real].abs().max()),
        "ids": [tokenizer(text)["input_ids"] for text in case["texts"]],
        "tied": head is not None and head.weight is model.get_input_embeddings().weight,
        "config": {
            name: getattr(model.config, name, None)
            for name in ("mask_token_id", "pad_token_id", "eos_token_id")
        },
        "longest": tokenizer.model_max_length,
    }
    if case["objective"] == "mlm":
        fill = pipeline("fill-mask", model=str(folder))
        found["filled"] = [guess["token_str"] for guess in fill("the [MASK] sat", top_k=3)]
    if case["objective"] == "clm":
        write = pipeline("text-generation", model=str(folder))
        written = write(["the cat", "a"], max_new_tokens=4, batch_size=2)
        found["written"] = [row[0]["generated_text"] for row in written]
    return found


def labels(folder, case):
    """What one exported classifier says of the texts, or pairs, of its case."""
    auto = AutoModelForSequenceClassification
    model, info = auto.from_pretrained(folder, output_loading_info=True)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    texts, seconds = case["texts"], case["seconds"]
    with torch.no_grad():
        logits = model.eval()(**tokenizer(texts, seconds, padding=True, return_tensors="pt")).logits
    classify = pipeline("text-classification", model=str(folder))
    inputs = texts
    if seconds is not None:
        pairs = zip(texts, seconds, strict=True)
        inputs = [{"text": text, "text_pair": second} for text, second in pairs]
    return {
        "loading": {key: sorted(map(str, value)) for key, value in info.items() if value},
        "class": type(model).__name__,
        "names": [model.config.id2label[index] for index in range(model.config.num_labels)],
        "difference": float((logits - case["logits"]).abs().max()),
        "one by one": classify(inputs),
        "in batches": classify(inputs, batch_size=3),
    }


def main():
    """Print the facts of every case."""
    folder = Path(sys.argv[1])
    cases = torch.load(folder / "exchange.pt", weights_only=True)
    tell = {"classification": labels}
    result = {n: tell.get(c["objective"], facts)(folder / n, c) for n, c in cases.items()}
    print(json.dumps({"cases": result, "knows_us": "pretrain" in sys.modules}))


if __name__ == "__main__":
    main()
