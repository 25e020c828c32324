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

TABLE: Final[tuple[Attack, ...]] = (
    *escape.ROWS,
    *names.ROWS,
    *lies.ROWS,
    *native.ROWS,
    *exhaustion.ROWS,
    *sharing.ROWS,
    *calls.ROWS,
    *seeking.ROWS,
    *rules.ROWS,
    *nodes.ROWS,
)
