"""The one exception that the user's input may raise.

Its message is one sentence that says what is wrong and what to do. The command line prints it without a
traceback; anything else that escapes is a bug of ours and keeps its traceback.
"""


class UserError(ValueError):
    """What the user gave cannot be used; the message says why and what to do."""
