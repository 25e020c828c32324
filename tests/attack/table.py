"""The ordered table of attacks: cheap ones first, those that stop servers last."""

from __future__ import annotations

from typing import Final

from tests.attack import (
    calls,
    escape,
    exhaustion,
    lies,
    names,
    native,
    nodes,
    rules,
    seeking,
    sharing,
)
from tests.attack.attack import Attack

#: Attempts to get out, to deceive, and to misuse names; they load the machine little.
ATTEMPTS: Final[tuple[Attack, ...]] = (
    *escape.ROWS,
    *names.ROWS,
    *lies.ROWS,
    *native.ROWS,
)
#: Attacks that use up resources, and failures of the node.
EXHAUSTION: Final[tuple[Attack, ...]] = (
    *exhaustion.ROWS,
    *sharing.ROWS,
    *calls.ROWS,
    *seeking.ROWS,
    *rules.ROWS,
    *nodes.ROWS,
)
TABLE: Final = ATTEMPTS + EXHAUSTION
