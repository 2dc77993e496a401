import pytest

from pretrain.data.document import SourceOptions, flaw
from pretrain.errors import UserError


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"document": "lines"}, "line, paragraph, file"),
        ({"split": "random"}, "hash, tail"),
        ({"on_bad_record": "ignore"}, "error, skip"),
        ({"split_share": 0.0}, "between 0 and 1"),
        ({"split_share": 1.0}, "between 0 and 1"),
    ],
)
def test_an_option_outside_its_values_is_refused_with_those_values(options, said):
    with pytest.raises(UserError, match=said):
        SourceOptions(**options)


def test_what_utf8_can_express_is_no_flaw():
    assert flaw("naïve 中文 \U0001f600 \ufeff \u2028 \x01") is None
    assert flaw("a\ud83d") == "a lone surrogate"
    assert flaw("a\0") == "a NUL character"
