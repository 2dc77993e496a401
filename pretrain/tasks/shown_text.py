"""One text as the row that a model reads, and its tokens as a person reads them."""

from typing import Any

from pretrain.data.tokenizer import Tokenizer
from pretrain.errors import UserError
from pretrain.pictures.token_text import is_byte_level, piece_text
from pretrain.tasks.continuation import encode_prompt


class TokenNames:
    """Readable tokens by id; without a tokenizer the ids themselves."""

    def __init__(self, tokenizer: Tokenizer | None) -> None:
        self._backend = None if tokenizer is None else tokenizer.backend
        self._byte_level = tokenizer is not None and is_byte_level(tokenizer.to_json())

    def __getitem__(self, token: int) -> str:
        piece = None if self._backend is None else self._backend.id_to_token(token)
        return f"id {token}" if piece is None else piece_text(piece, self._byte_level)


def framed_row(task: Any, tokenizer: Tokenizer, text: str, most: int) -> tuple[list[int], int]:
    """The ids of ``text`` in the frame that the model knows, and how many tokens were left out.

    Args:
        task: One of our tasks.
        tokenizer: Its own.
        text: May hold special tokens by name, such as ``[MASK]``.
        most: Tokens in the row at most, its frame included.

    Raises:
        UserError: There is no token in the text.
    """
    frame: list[int] = []
    if task.causal:
        ids = encode_prompt(tokenizer, text)
    else:
        ids = tokenizer.encode_prompt(text)
        if tokenizer.cls_id is not None and tokenizer.sep_id is not None:
            frame = [tokenizer.cls_id, tokenizer.sep_id]
    if not ids:
        raise UserError("The tokenizer makes no token of the text.")
    kept = ids[: max(most - len(frame), 1)]
    return [*frame[:1], *kept, *frame[1:]], len(ids) - len(kept)
