from pathlib import Path

import pytest

from pretrain.errors import UserError
from pretrain.interop.fields import Fields


def fields(**values):
    return Fields(values, Path("x/config.json"))


def test_what_is_null_or_left_out_takes_the_default():
    assert fields(a=None).get("a", 3) == fields().get("a", 3) == 3
    assert fields(a=5).get("a", 3) == 5
    assert fields(a=5).get("a", 0.1) == 5.0


@pytest.mark.parametrize(
    ("value", "default"), [("8", 3), (True, 3), (1.5, 3), (1, False), (2, "x")]
)
def test_a_value_of_another_type_is_refused_by_name(value, default):
    with pytest.raises(UserError, match=r"x/config\.json: a is "):
        fields(a=value).get("a", default)


@pytest.mark.parametrize("value", [None, 0, -2])
def test_a_size_has_to_be_there(value):
    with pytest.raises(UserError, match="a is"):
        fields(a=value).size("a")


def test_only_what_we_compute_is_let_through():
    fields(a="absolute").only("a", "absolute")
    fields().only("a", "absolute")
    with pytest.raises(UserError, match=r"a is 'relative_key'.* where that is 'absolute'"):
        fields(a="relative_key").only("a", "absolute")
    with pytest.raises(UserError, match="where that is null"):
        fields(a=4096).only("a")
    with pytest.raises(UserError, match="where that is gelu or relu"):
        fields(a="mish").choice("a", "gelu", {"gelu": "gelu", "relu": "relu"})
