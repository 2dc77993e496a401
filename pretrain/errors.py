"""The one exception for a user's mistake."""


class UserError(Exception):
    """What is wrong, where it is, and what to do about it, in one sentence.

    The command line prints the message without a traceback and exits with status 1. It is one line,
    also where it quotes what a library or a file said in several.
    """

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.splitlines()))
