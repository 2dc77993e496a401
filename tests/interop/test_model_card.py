import yaml
from portables import portable_of
from tiny import SHAPE, make_task

from pretrain.data.labels import Labels
from pretrain.interop.model_card import model_card
from pretrain.tasks import Classification

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


MEASURED = {"val_accuracy": 0.91234, "val_f1": 0.9, "val_matthews": 0.75, "val_loss_nats": 0.25}


def classifiers_card(labels, pairs=False):
    task = Classification(SHAPE, labels=labels.to_dict(), reads_pairs=pairs)
    task.configure_model()
    task.tokenizer_json = "{}"
    return model_card("judge", "BertForSequenceClassification", portable_of(task), MEASURED)


def test_a_classifiers_card_names_its_labels_and_figures():
    text = classifiers_card(Labels("single", ("bad", "good")))
    assert yaml.safe_load(text.split("---\n")[1])["pipeline_tag"] == "text-classification"
    assert "One of 2 labels for each text: `bad`, `good`.\n" in text
    for row in (
        "| validation accuracy | 0.9123 |",
        "| validation F1 | 0.9000 |",
        "| validation Matthews correlation | 0.7500 |",
        "| validation loss per text | 0.2500 |",
    ):
        assert row + "\n" in text
    assert "per target token" not in text
    assert 'AutoModelForSequenceClassification.from_pretrained("FOLDER")' in text
    assert '("A text.", truncation=True)' in text


def test_a_card_shows_how_pairs_are_given_and_what_numbers_are():
    text = classifiers_card(Labels("regression"), pairs=True)
    assert '"text_pair": ' in text
    assert "One number for each text.\n" in text
    assert "Any of 2 labels" in classifiers_card(Labels("multi", ("a", "b")))
