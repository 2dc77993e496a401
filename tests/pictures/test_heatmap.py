import math
from xml.etree import ElementTree

import pytest

from pretrain.pictures import Bars, Curves, Film, HeatMap
from pretrain.pictures.heatmap import shaded_cells
from pretrain.pictures.theme import share_of

SVG = "{http://www.w3.org/2000/svg}"


def texts_of(svg):
    return ["".join(node.itertext()) for node in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def cells_of(group):
    """{(row, column): opacity} of what is drawn."""
    found = {}
    for path in ElementTree.fromstring(group).iter("path"):
        for cell in path.get("d").split("M")[1:]:
            column, row = cell.removesuffix("h1").split()
            found[int(row), int(column)] = float(path.get("opacity"))
    return found


def test_every_cell_is_as_strong_as_its_value_and_empty_ones_are_not_drawn():
    cells = cells_of(shaded_cells([[0.0, 0.52], [1.0, math.nan]], 0, 0, 10))
    assert cells == {(0, 1): 0.52, (1, 0): 1.0}


@pytest.mark.parametrize(("value", "share"), [(-3, 0), (-1, 0), (0, 0.5), (1, 1), (9, 1)])
def test_what_lies_outside_of_the_scale_is_drawn_at_its_ends(value, share):
    assert share_of(value, -1, 1) == share


def test_names_and_few_values_are_written_and_escaped():
    svg = HeatMap([[0.25, math.nan]], ["<a>"], ["b & c", "d"], title='"t"', unit="u<").svg()
    assert {"<a>", "b & c", "d", "0.25", "–", '"t"', "u<"} <= set(texts_of(svg))


def test_many_values_are_not_written():
    svg = HeatMap([[0.5] * 30] * 30, list(map(str, range(30)))).svg()
    assert "0.50" not in svg
    assert len(svg) < 20_000


def test_pictures_follow_the_light_and_name_no_other_file():
    film = Film(["a", "<b>"], ["step 1"], ["layer 0, head 0"], [[[[1, 0], [0.5, 0.5]]]], "x").svg()
    for svg in (HeatMap([[1.0]]).svg(), Bars({"<x>": 0.5}, "t").svg(), film,
                Curves({"a": [1, 0.5], "b": [1, -0.5]}, "t", "x", "y").svg()):  # fmt: skip
        ElementTree.fromstring(svg)
        assert "prefers-color-scheme: dark" in svg
        assert "href" not in svg
        assert svg.count("http") == 1  # the name space
    assert {"<b>", "step 1", "layer 0, head 0"} <= set(texts_of(film))
