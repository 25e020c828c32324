"""Attacks by calls of one storlet by another, and by what a storlet requests of the store: trees of
runs, floods, results that are not read, inputs in single bytes, headers that HTTP cannot carry.
"""

from __future__ import annotations

from typing import Final

from tests.attack.arena import DEADLINES, ENDS_SOON, STORLETS, Attacker, must, outcome
from tests.attack.attack import PYTHON, Attack
from tests.attack.lies import FAILED
from tests.support.accounts import unique
from tests.support.host import new_key
from tests.support.storlets import Tool, declaration
from tests.support.waiting import wait_for

SOURCE: Final = STORLETS / "caller.py"
#: The account of all these attacks: its sandbox survives them.
ACCOUNT: Final = "services"
#: Few: each is a worker group of the sandbox, with a listening socket that stays.
NAMES: Final = ("caller0.py", "caller1.py")
#: Above the limit of output of the arena, together.
INPUT_BYTES: Final = 4 << 20
ENDS: Final = ("422 storlet.timeout.first_byte", "422 storlet.timeout.total")


def calling(attacker: Attacker, do: str, *ends: str) -> str:
    """The run ends at a deadline, all runs inside it end, and the account can run storlets."""
    client, path, key = attacker.client, f"data/{unique('called')}", new_key()
    for name in NAMES:
        main = f"{name.removesuffix('.py')}.Caller"
        headers = declaration("python", main, Services="call, read", **DEADLINES)
        answer = client.put(f"storlet/{name}", SOURCE.read_bytes(), headers)
        must(answer.status == 201, answer)
    must(client.put(path, b"x" * INPUT_BYTES).status == 201, "the object is not stored")
    given = {"key": key, "others": ",".join(NAMES), "on": f"/{path}"}
    answer = Tool(client, NAMES[0]).get(path, do, ENDS_SOON, **given)
    must(outcome(answer) in (*ENDS, *ends), answer)
    wait_for(lambda: not attacker.host.runs_named(key), 20, "the runs inside it to end")
    attacker.recovers()
    return outcome(answer)


def tree(attacker: Attacker) -> str:
    return calling(attacker, "tree")


def flood(attacker: Attacker) -> str:
    return calling(attacker, "flood")


def hoard(attacker: Attacker) -> str:
    return calling(attacker, "hoard")


def single_bytes(attacker: Attacker) -> str:
    """The calling storlet may see that the called one has ended."""
    return calling(attacker, "single_bytes", FAILED)


def odd_headers(attacker: Attacker) -> str:
    """Swift's proxy counts no error against a node, so plain requests continue to work."""
    seen = calling(attacker, "odd_headers")
    for _ in range(10):
        good = attacker.client.get(attacker.path)
        must((outcome(good), good.body) == ("200", attacker.tenant.content), good)
    return seen


ROWS: Final = (
    Attack("storlets that call each other", "422 at a deadline, and all runs end", tree, PYTHON, account=ACCOUNT, flood=True, once=True),
    Attack("a flood of calls, no reply read", "422 at a deadline, and all runs end", flood, PYTHON, account=ACCOUNT, once=True),
    Attack("a call on single bytes that are not read", "422 at a deadline, or failed", single_bytes, PYTHON, account=ACCOUNT, once=True),
    Attack("requests with headers that HTTP cannot carry", "422 at a deadline, no node blamed", odd_headers, PYTHON, account=ACCOUNT, once=True),
    Attack("results of calls that are not read", "422 at a deadline, and all runs end", hoard, PYTHON, account=ACCOUNT, once=True),
)  # fmt: skip
