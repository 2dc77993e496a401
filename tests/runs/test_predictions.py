from types import SimpleNamespace
from xml.etree import ElementTree

from pretrain.runs.predictions import confusion_svg, labelled_lines


def example(text, label, pair=None):
    return SimpleNamespace(text=text, label=label, pair=pair)


def test_lines_stand_in_the_order_of_the_examples():
    examples = [example("a", "x"), example("b", "y", "second"), example("c", None)]
    rows = [{"index": 2, "label": "y"}, {"index": 0, "label": "x"}, {"index": 1, "label": "x"}]
    lines = list(labelled_lines(rows, examples))
    assert lines == [
        {"text": "a", "label": "x", "predicted": {"label": "x"}},
        {"text": "b", "pair": "second", "label": "y", "predicted": {"label": "x"}},
        {"text": "c", "predicted": {"label": "y"}},
    ]
    assert "index" in rows[0]  # what was given is left as it is


def test_the_picture_of_a_confusion_holds_every_count_and_name():
    svg = ElementTree.fromstring(confusion_svg([[3, 1200], [0, 7]], ("<no>", "yes & more")))
    texts = ["".join(node.itertext()) for node in svg.iter("{http://www.w3.org/2000/svg}text")]
    assert {"3", "1,200", "0", "7"} <= set(texts)
    assert texts.count("<no>") == texts.count("yes & more") == 2
