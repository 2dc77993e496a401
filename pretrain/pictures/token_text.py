"""Tokens as a person can read them: spaces, line ends and bytes become visible."""

import json

_VISIBLE = {" ": "␣", "\n": "↵", "\t": "⇥", "\r": "␍"}


def readable(text: str) -> str:
    """``text`` with white space as signs and what can't be printed by its code."""
    if not text:
        return "∅"
    return "".join(_VISIBLE.get(c) or (c if c.isprintable() else f"⟨{ord(c):02X}⟩") for c in text)


def is_byte_level(tokenizer_json: str) -> bool:
    """Whether pieces spell bytes by the alphabet of GPT-2, from a ``tokenizer.json``."""
    decoder = json.loads(tokenizer_json).get("decoder") or {}
    kinds = {decoder.get("type"), *(part.get("type") for part in decoder.get("decoders", ()))}
    return "ByteLevel" in kinds


def piece_text(piece: str, byte_level: bool) -> str:
    """What a tokenizer's piece stands for, readable; bytes that are half a character by their code.

    Args:
        piece: As the tokenizer writes it.
        byte_level: Whether it is written in GPT-2's alphabet of bytes.
    """
    known = _BYTES if byte_level else {}
    if known and all(character in known for character in piece):
        raw = bytes(known[character] for character in piece)
        return "".join(
            f"⟨{ord(c) - 0xDC00:02X}⟩" if "\udc80" <= c <= "\udcff" else readable(c)
            for c in raw.decode("utf-8", errors="surrogateescape")
        )
    return readable(piece.replace("▁", " "))


def _byte_alphabet() -> dict[str, int]:
    """GPT-2's characters for bytes: printable ones themselves, for the others those from 256 on."""
    plain = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), 256)]
    others = [byte for byte in range(256) if byte not in plain]
    named = {chr(byte): byte for byte in plain}
    return named | {chr(256 + i): byte for i, byte in enumerate(others)}


_BYTES = _byte_alphabet()
