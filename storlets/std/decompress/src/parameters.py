"""Values of parameters, and texts in messages."""

from __future__ import annotations

from typing import Any

#: ``storlet run`` and the cluster accept the same words.
TRUE = ("true", "1", "yes", "on")
#: Bound of a text in a message.
SHOWN = 40


def is_true(params: dict[str, str], name: str) -> bool:
    """The value of a parameter of the type ``boolean``."""
    return params[name].lower() in TRUE


def shown(text: Any) -> str:
    """A text for a message."""
    whole = str(text)
    return repr(whole if len(whole) <= SHOWN else whole[:SHOWN] + "...")
