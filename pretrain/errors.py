"""The one exception for a user's mistake."""


class UserError(Exception):
    """What is wrong, where it is, and what to do about it, in one sentence.

    The command line prints the message without a traceback and exits with status 1.
    """
