"""One row of the table of attacks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tests.attack.arena import Attacker

BOTH: Final = ("python", "java")
PYTHON: Final = ("python",)
JAVA: Final = ("java",)
NATIVE: Final = ("native",)
#: The HTTP client attacks, not a storlet.
HTTP: Final = ("python",)


@dataclass(frozen=True)
class Attack:
    """``run`` performs the attack and returns the outcome; it raises if the attack succeeded.

    ``fresh``: uses a separate account, because the attack ends its sandbox.  ``account``: rows with
    the same name here share an account.  ``alone``: for ``make
    attack`` only, because it stops servers that other tests share; a separate probe does the same
    in ``make test``.  ``flood``: sends many requests at once. The number of requests of a tenant is
    limited by Swift's ratelimit, so responses and leftovers are judged and times only shown.
    ``by_median``: the attacker keeps Swift and the cores busy with requests as an ordinary tenant
    may, so the neighbour's median is judged, not its slowest requests.
    ``once``: each run creates worker groups that stay until they are idle, or accounts, which only
    an operator creates; so ``make attack`` does not repeat it.
    ``is_timed``: compares times of requests, so nothing else may run beside it.
    ``tested``: the only languages of ``make test``, where the attacked code does not depend on the
    language; ``make attack`` tries all.
    """

    name: str
    expected: str
    run: Callable[[Attacker], str]
    languages: tuple[str, ...] = PYTHON
    fresh: bool = False
    account: str = ""
    alone: bool = False
    flood: bool = False
    once: bool = False
    by_median: bool = False
    is_timed: bool = False
    placement: str = "object"
    tested: tuple[str, ...] = ()
