import re
from html.parser import HTMLParser

import pytest
from tiny import SHAPE, make_task

from pretrain.commands.inspect import run
from pretrain.data.labels import Labels
from pretrain.data.tokenizer_training import TokenizerRule, train_tokenizer
from pretrain.errors import UserError
from pretrain.model import TransformerConfig
from pretrain.tasks import Classification, Encoder, save_task

CORPUS = ["the cat sat on the mat. <b>a&b</b>"] * 3
KINDS = ("clm", "mlm", "encoder", "classification", "pairs")
TEXT = "the cat <b>&"


def saved(kind, path, **network):
    tokenizer = train_tokenizer(CORPUS, TokenizerRule("bpe" if kind == "clm" else "wordpiece", 300))
    network = {**SHAPE, "vocab_size": tokenizer.vocab_size, **network}
    if kind in ("clm", "mlm"):
        task = make_task(kind, network=network)
    elif kind == "encoder":
        task = Encoder(TransformerConfig(**network))
    else:
        labels = Labels("single", ("<no>", "yes")).to_dict()
        task = Classification(
            TransformerConfig(**network), labels=labels, reads_pairs=kind == "pairs"
        )
    task.configure_model()
    task.tokenizer_json = tokenizer.to_json()
    save_task(task, path)
    return str(path)


class Page(HTMLParser):
    """The headings, what is loaded, and whether all elements are closed."""

    def __init__(self, text):
        super().__init__()
        self.loaded, self.open, self.headings = [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        if tag not in ("meta", "rect", "path", "polyline", "br"):
            self.open.append(tag)
        self.loaded += [value for name, value in attrs if name in ("src", "href", "xlink:href")]

    def handle_endtag(self, tag):
        if tag in ("rect", "path", "polyline"):
            return
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "h2":
            self.headings.append(data)


def inspect(tmp_path, kind, *arguments, **network):
    checkpoint = saved(kind, tmp_path / "model.ckpt", **network)
    run([checkpoint, *arguments, "--out", str(tmp_path / "page.html")])
    return (tmp_path / "page.html").read_text("utf-8")


@pytest.mark.parametrize("kind", KINDS)
def test_the_page_of_every_kind_of_model_is_complete_in_itself(tmp_path, capsys, kind):
    pair = ["--pair", "a mat"] if kind == "pairs" else []
    text = inspect(tmp_path, kind, TEXT, *pair)
    page = Page(text)
    assert page.open == []
    assert page.loaded == []
    assert set(re.findall(r"https?://[^\"' ]+", text)) == {"http://www.w3.org/2000/svg"}
    assert len(text) < 2_000_000
    assert "prefers-color-scheme: dark" in text
    assert "<b>" not in text
    own = {"clm": "Predictions", "mlm": "Predictions", "classification": "Label", "pairs": "Label"}
    expected = {"Attention", "Heads", "Feed-forward units", "Positions", own.get(kind, "Heads")}
    assert set(page.headings) == expected
    assert "page.html" in capsys.readouterr().out


@pytest.mark.parametrize("position", ["learned", "sinusoidal", "xpos", "alibi", "none"])
def test_positions_of_every_kind_are_shown_where_there_are_any(tmp_path, position):
    page = Page(inspect(tmp_path, "clm", TEXT, position=position))
    assert ("Positions" in page.headings) == (position != "none")


def test_networks_of_other_shapes_are_shown(tmp_path):
    inspect(tmp_path, "clm", "a", n_experts=2, n_heads=1, n_layers=1)
    inspect(tmp_path, "mlm", TEXT, position="learned", max_len=8, n_kv_heads=1)


@pytest.mark.parametrize("kind", KINDS[:4])
def test_a_long_text_is_cut_and_the_page_says_so(tmp_path, kind):
    text = inspect(tmp_path, kind, "the cat sat. " * 100)
    n_shown = text.count('class="chip"')
    assert n_shown == 64
    n_left_out = int(re.search(r"The last ([\d,]+) tokens", text)[1].replace(",", ""))
    assert n_left_out > 64
    assert len(text) < 2_000_000


def test_what_cannot_be_inspected_is_one_sentence(tmp_path):
    checkpoint = saved("mlm", tmp_path / "model.ckpt")
    out = ["--out", str(tmp_path / "x.html")]
    for arguments, words in (
        ([checkpoint, " "], "text is empty"),
        ([str(tmp_path / "none.ckpt"), "a"], "no checkpoint"),
        ([checkpoint, "a", "--pair", "b"], "classifiers of pairs"),
        ([checkpoint, "a \udcff"], "no UTF-8"),
    ):
        with pytest.raises(UserError, match=words):
            run([*arguments, *out])
    with pytest.raises(UserError, match="can't be written"):
        run([checkpoint, "a", "--out", str(tmp_path)])
    assert not (tmp_path / "x.html").exists()
    pairs = saved("pairs", tmp_path / "pairs.ckpt")
    with pytest.raises(UserError, match="two texts"):
        run([pairs, "a", *out])
