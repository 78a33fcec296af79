"""The one exception a user is meant to read."""


class UserError(Exception):
    """Something in the user's input is wrong, and the message says what to do.

    The message is one sentence that names the file, the field, the value and the fix. The command line prints it
    without a traceback and exits with code 2.
    """
