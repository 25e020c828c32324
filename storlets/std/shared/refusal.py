"""Errors that the user of a storlet can correct, with a message that is enough for that."""

from __future__ import annotations


class Refusal(ValueError):
    """The object, a parameter or the image is at fault, not the code of the storlet.

    The response and the record have the message only; the log has the traceback as well.
    """

    hides_traceback = True
