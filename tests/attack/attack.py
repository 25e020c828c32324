"""One row of the table of attacks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tests.attack.arena import Attacker

BOTH: Final = ("python", "java")
PYTHON: Final = ("python",)
JAVA: Final = ("java",)
#: It is our own client that attacks, not a storlet.
HTTP: Final = ("python",)


@dataclass(frozen=True)
class Attack:
    """``run`` does it and returns what was seen; it raises when the attack got through.

    ``fresh``: in an account of its own, because it ends its sandbox.  ``alone``: for ``make
    attack`` only, because it stops servers that other tests share, and a probe of its own does the
    same in ``make test``.  ``flood``: the weapon is many requests at once; how many a tenant may
    send is the business of Swift's ratelimit, so answers and leftovers are judged and times only
    shown.  ``once``: each run makes worker groups that stay until they are idle, so ``make attack``
    does not repeat it.
    """

    name: str
    expected: str
    run: Callable[[Attacker], str]
    languages: tuple[str, ...] = PYTHON
    fresh: bool = False
    alone: bool = False
    flood: bool = False
    once: bool = False
    placement: str = "object"
