import yaml
from portables import portable_of
from tiny import make_task

from pretrain.interop.model_card import model_card

FIGURES = {
    "source": "books/*.jsonl", "steps": 2000, "step": 1500, "tokens_seen": 8_192_000,
    "val_loss_nats": 3.91234, "val_perplexity": 50.016, "val_bits_per_byte": 1.25,
    "tokens_per_s": 6826.7, "val_masked_accuracy": None, "status": "finished",
}  # fmt: skip


def card(figures):
    return model_card("my-gpt", "NanoChatForCausalLM", portable_of(make_task("clm")), figures)


def test_front_matter_leaves_the_licence_to_fill():
    text = card(FIGURES)
    front = yaml.safe_load(text.split("---\n")[1])
    assert front["license"] is None
    assert front["pipeline_tag"] == "text-generation"
    assert "# my-gpt\n" in text


def test_known_figures_stand_in_the_table_and_others_are_left_out():
    text = card(FIGURES)
    for row in (
        "| data | books/*.jsonl |",
        "| step of these weights | 1,500 |",
        "| steps of the run | 2,000 |",
        "| tokens seen by the run | 8,192,000 |",
        "| validation loss, nats per target token | 3.9123 |",
        "| validation perplexity | 50.02 |",
        "| validation bits per byte | 1.2500 |",
        "| training speed, tokens per second | 6,827 |",
    ):
        assert row + "\n" in text
    assert "accuracy" not in text
    assert "None" not in text


def test_without_figures_it_says_so():
    assert "Nothing is known" in card({})
