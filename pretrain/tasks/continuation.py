"""What stands after a prompt so far: its tokens, its text, and where it stops."""

from dataclasses import dataclass, replace

from pretrain.data.tokenizer import Tokenizer
from pretrain.errors import UserError
from pretrain.tasks.base import TransformerTask

_INCOMPLETE = "\N{REPLACEMENT CHARACTER}"  # what a character reads as that needs more tokens


def tokenizer_of(task: TransformerTask) -> Tokenizer:
    """The tokenizer that the model was trained with.

    Raises:
        UserError: The checkpoint holds none.
    """
    if task.tokenizer_json is None:
        raise UserError("This checkpoint holds no tokenizer, so it can't read or write text.")
    return Tokenizer.from_json(task.tokenizer_json)


def encode_prompt(tokenizer: Tokenizer, text: str) -> list[int]:
    """At least one token id: the tokenizer's own beginning where it has one, and the text.

    Else an empty text becomes the end token, which stands before every document of the training
    data but the first.
    """
    ids = tokenizer.encode_prompt(text)
    if tokenizer.bos_id is not None:
        return ids if ids[:1] == [tokenizer.bos_id] else [tokenizer.bos_id, *ids]
    return ids or [0 if tokenizer.end_id is None else tokenizer.end_id]


@dataclass(frozen=True)
class Continuation:
    """One row of a batch that is being written.

    Attributes:
        prompt: Token ids it began with.
        ids: Token ids written since, without the one that ended it.
        text: What they say in complete characters; it ends before a stop string.
        ended: Whether an end token, a stop token or a stop string has come.
    """

    prompt: tuple[int, ...]
    ids: tuple[int, ...] = ()
    text: str = ""
    ended: bool = False

    @property
    def sequence(self) -> tuple[int, ...]:
        """Prompt and what was written: what the model reads."""
        return self.prompt + self.ids


class Pen:
    """Adds tokens to continuations and knows where they stop.

    Args:
        tokenizer: Turns ids into text.
        stop_tokens: Ids that end a text, beside the tokenizer's end token.
        stop: Strings that end a text.
    """

    def __init__(
        self, tokenizer: Tokenizer, stop_tokens: tuple[int, ...] = (), stop: tuple[str, ...] = ()
    ) -> None:
        self.tokenizer = tokenizer
        end = () if tokenizer.end_id is None else (tokenizer.end_id,)
        self.ends = frozenset((*end, *stop_tokens))
        self.stop = stop

    def add(self, row: Continuation, token: int) -> Continuation:
        """``row`` with one token more, or ended by it."""
        if token in self.ends:
            return replace(row, ended=True)
        ids = (*row.ids, token)
        before = self.tokenizer.decode(row.prompt).rstrip(_INCOMPLETE)
        # Decoded as one, since what a token says (such as a space) may depend on its neighbours.
        whole = self.tokenizer.decode(row.prompt + ids)
        text = whole[len(before) :].rstrip(_INCOMPLETE)
        cuts = [text.index(stop) for stop in self.stop if stop in text]
        return Continuation(row.prompt, ids, text[: min(cuts, default=None)], ended=bool(cuts))

    def settled(self, row: Continuation) -> str:
        """The text without an end that may still become a stop string, for who reads along."""
        if row.ended:
            return row.text
        starts = (stop[:n] for stop in self.stop for n in range(1, len(stop)))
        held = max((len(start) for start in starts if row.text.endswith(start)), default=0)
        return row.text[: len(row.text) - held]
