import pytest

from pretrain.data.tokenizer_training import TokenizerRule, train_tokenizer
from pretrain.pictures import is_byte_level, piece_text, readable


def test_white_space_and_what_does_not_print_become_visible():
    assert readable(" a\n\tb\x00") == "␣a↵⇥b⟨00⟩"
    assert readable("") == "∅"
    assert readable("日本") == "日本"


@pytest.mark.parametrize("text", ["a b", "é\n", "日本", " \t", "naïve 🙂"])
def test_the_pieces_of_a_byte_level_tokenizer_read_as_its_text(text):
    tokenizer = train_tokenizer(["the cat sat on the mat. é"] * 3, TokenizerRule("bpe", 300))
    assert is_byte_level(tokenizer.to_json())
    pieces = [tokenizer.backend.id_to_token(i) for i in tokenizer.encode_prompt(text)]
    shown = [piece_text(piece, byte_level=True) for piece in pieces]
    raw = b"".join(_bytes(one) for one in shown)
    assert raw == text.encode()


def _bytes(shown):
    """What a shown piece stands for."""
    out, rest = b"", shown
    while rest:
        if rest[0] == "⟨":
            code, _, rest = rest[1:].partition("⟩")
            out += bytes.fromhex(code)
        else:
            sign = {"␣": " ", "↵": "\n", "⇥": "\t"}.get(rest[0], rest[0])
            out, rest = out + sign.encode(), rest[1:]
    return out


def test_other_pieces_stay_as_they_are():
    tokenizer = train_tokenizer(["the cat sat on the mat."] * 3, TokenizerRule("wordpiece", 40))
    assert not is_byte_level(tokenizer.to_json())
    assert piece_text("##at", byte_level=False) == "##at"
    assert piece_text("▁the", byte_level=False) == "␣the"
    assert piece_text("<|endoftext|>", byte_level=True) == "<|endoftext|>"
