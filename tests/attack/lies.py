"""False messages to supervisor and filter: garbage, events at the wrong time, false success."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable
from typing import Final

from tests.attack.arena import NAMES, Attacker, must, outcome
from tests.attack.attack import BOTH, PYTHON, Attack
from tests.support.accounts import unique
from tests.support.host import check_numbered
from tests.support.storlets import Tool

FAILED: Final = "422 storlet.failed"

#: Garbage that a sandbox may send instead of an event. None may become a success, a 500 or another
#: error's code.
TO_FILTER: Final = (
    b"\x00\xff", b"", b"[]", b"{}", b"null", b'"' + b"x" * 60000 + b'"', b'{"type":"nonsense"}', b'{"type":"started"}', b'{"type":"done"}',
    b"[" * 5000, b'{"type":"done","outcome":"ok","usage":{"cpu_seconds":"1e999"}}', b'{"type":"done","outcome":"ok","usage":{"cpu_seconds":-1e308}}',
    b'{"type":"done","outcome":"error","code":"internal","message":"forged"}', b'{"type":"done","outcome":"error","code":"access.denied","message":"x"}',
    b'{"type":"done","outcome":"error","code":"storlet.failed","message":"a\\r\\nX-Forged: yes"}',
    b'{"type":"done","outcome":"error","code":"storlet.\\r\\nX-Forged: yes","message":"x"}',
    b'{"type":"done","outcome":"error","code":"storlet.failed","message":"\\u001b[2J","traceback":"\\u001b[2J"}',
    b'{"type":"metadata","metadata":{"a":1}}', b'{"type":"metadata","metadata":' + b'{"a":' * 3000 + b"1" + b"}" * 3001,
    b'{"type":"metadata","metadata":{"a":"' + b"\\ud800" * 10 + b'"}}', b'{"type":"invoke","id":"x"}',
)  # fmt: skip
TO_SUPERVISOR: Final = (
    b"\x00garbage", b"[]", b"{}", b'{"type":"end"}', b'{"type":"begin","id":"x"}', b'{"type":"ready"}', b'{"type":"load_failed","message":"x","traceback":"y"}',
    b'{"v":1,"type":"hello","pid":1,"groups":[]}', b'{"type":"unload","request":1,"version":"x"}', b"[" * 5000, b'"' + b"x" * 60000 + b'"',
    b'{"type":"end","recycle":false,"failed":false}', b'{"type":"end","recycle":true,"failed":true}', b'{"type":"end","recycle":"\\u001b[2J"}',
)  # fmt: skip


def to_filter(attacker: Attacker) -> str:
    """Each piece of garbage ends only its own run, with an error code that states the cause."""
    seen: dict[str, int] = {}
    # The same code reads them at the proxy, so half of them show how its answer fails.
    for message in TO_FILTER if attacker.placement == "object" else TO_FILTER[::2]:
        answer = attacker.shoot("forge_garbage", packed=zlib.compress(message).hex())
        must(answer.status in (422, 503), (message[:80], answer))
        must(answer.error not in ("internal", "access.denied", None), (message[:80], answer))
        must("X-Forged" not in answer.headers, (message[:80], answer))
        must(answer.status != 503 or "Retry-After" in answer.headers, answer)
        seen[outcome(answer)] = seen.get(outcome(answer), 0) + 1
    attacker.recovers()
    return ", ".join(f"{what} x{count}" for what, count in sorted(seen.items()))


def to_supervisor(attacker: Attacker) -> str:
    """Each piece affects only the sender: 200 with all of its lines, or an error; other storlets'
    runs are right."""
    honest, seen = Tool(attacker.client, "gremlin.py"), dict[str, int]()
    for message in TO_SUPERVISOR:
        answer = attacker.shoot("channel_garbage", packed=zlib.compress(message).hex())
        if outcome(answer) == "200":
            must(check_numbered(answer.body) == 10, (message[:80], answer))
        must(
            outcome(answer) in ("200", "200 broken", FAILED, "503 sandbox.unavailable"),
            (message[:80], answer),
        )
        good = honest.get(attacker.path)
        must((outcome(good), good.body) == ("200", attacker.tenant.content), (message[:80], good))
        seen[outcome(answer)] = seen.get(outcome(answer), 0) + 1
    attacker.recovers()
    return ", ".join(f"{what} x{count}" for what, count in sorted(seen.items()))


def lie(
    do: str, *allowed: str, lines: int | None = None, **parameters: str
) -> Callable[[Attacker], str]:
    """A false message: the run ends with an allowed outcome, a success has ``lines`` lines; other
    storlets' runs are right during and after it."""

    def run(attacker: Attacker) -> str:
        honest = Tool(attacker.client, "gremlin.py")
        lying = attacker.arena.pool.submit(attacker.shoot, do, **parameters)
        for _ in range(3):
            good = honest.get(attacker.path)
            must((outcome(good), good.body) == ("200", attacker.tenant.content), good)
        answer = lying.result(30)
        must(outcome(answer) in allowed, answer)
        if outcome(answer) == "200" and lines is not None:
            must(check_numbered(answer.body) == lines, answer)
        attacker.recovers()
        return outcome(answer)

    return run


def holds_descriptors_in_flight(attacker: Attacker) -> str:
    """A storlet that holds all descriptors in flight delays the account's other storlets; none
    fails."""
    holder = Tool(attacker.client, NAMES["python"])
    holding = attacker.arena.pool.submit(holder.get, attacker.path, "hold_descriptors")
    honest = [
        Tool(attacker.client, "gremlin.py"),
        *([attacker.tool] if attacker.language == "java" else []),
    ]
    runs = 0
    while not holding.done():
        for tool in honest:
            good = tool.get(attacker.path, "identity")
            must((outcome(good), good.body) == ("200", attacker.tenant.content), good)
            runs += 1
        time.sleep(0.05)
    must(runs, "no run beside it")
    answer = holding.result()
    must(outcome(answer) == "200" and answer.body.startswith(b"full"), answer)
    attacker.recovers()
    return f"{runs} runs beside {answer.text.split()[-1]} descriptors under way"


def forked(attacker: Attacker) -> str:
    """A forked copy of the worker that returns does not count as the original, which fails."""
    path = f"data/{unique('forked')}"
    answer = attacker.tool.copy(attacker.path, path, "forked_return")
    must(outcome(answer) == FAILED, answer)
    must(attacker.client.get(path).status == 404, "something was stored")
    attacker.recovers()
    return outcome(answer)


def partial(attacker: Attacker) -> str:
    """``done: ok`` and then exit: the complete content of the pipe is stored or sent, or
    nothing."""
    path = f"data/{unique('partial')}"
    answer = attacker.tool.copy(attacker.path, path, "partial_lie")
    stored = attacker.client.get(path)
    must(outcome(answer) in ("201", FAILED), answer)
    if answer.status == 201:
        must(check_numbered(stored.body) == 10, stored)
    else:
        must(stored.status == 404, stored)
    attacker.recovers()
    return outcome(answer)


ANY: Final = (
    "200",
    "200 broken",
    FAILED,
    "422 storlet.timeout.first_byte",
    "503 sandbox.unavailable",
    "422 storlet.timeout.idle",
)

ROWS: Final = (
    Attack("garbage to the filter", "422 or 503 of its own run", to_filter, PYTHON),
    Attack("garbage to the filter at the proxy", "422 or 503 of its own run", to_filter, PYTHON, placement="proxy"),
    Attack("garbage to the supervisor", "at most an error of the sender", to_supervisor, PYTHON),
    Attack("forged done while the output is open", "an error or all of it", lie("forge_done", *ANY, lines=10), PYTHON),
    Attack("forged end", "an error or all of it", lie("forge_end", *ANY, lines=10), PYTHON),
    Attack("forged begin with descriptors", "an error or all of it", lie("forge_begin", *ANY, lines=10), PYTHON),
    Attack("3,000 descriptors for the supervisor", "an error or 200", lie("forge_many_descriptors", *ANY, "503 sandbox.unavailable"), PYTHON),
    Attack("holds all descriptors in flight", "other storlets wait, none fails", holds_descriptors_in_flight, BOTH),
    Attack("flood for the supervisor", "an error or 200", lie("forge_reports", *ANY), PYTHON),
    Attack("closes the supervisor's channel", "an error or all of it", lie("channel_close", *ANY, lines=10), PYTHON),
    Attack("done and then exit", "all of it or nothing", partial, PYTHON),
    Attack("a forked copy that returns", FAILED, forked, PYTHON),
    Attack("output by a child that outlives the run", "an error, or what was there", lie("flip_output", *ANY), PYTHON),
    Attack("another pipe in the output's place", "an error or nothing", lie("drop_output", *ANY), PYTHON),
    Attack("squats on its storlet's connections", "never another storlet's", lie("squat", *ANY), PYTHON, fresh=True),
    Attack("keeps duplicates of all descriptors", "the next runs are right", lie("hoard", *ANY), PYTHON),
)  # fmt: skip
