"""Attacks through rules: proxies evaluate them, before any sandbox, for all accounts."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from threading import Event
from typing import Final

from tests.attack.arena import Attacker, must
from tests.attack.attack import HTTP, Attack
from tests.support.http import Answer, Client

RULES: Final = "storlet_rules/rules.yaml"
ACCEPTED: Final = {"X-Storlet-Rules-Accept-Warnings": "true"}
#: Together slightly less than the limit of cost (rules.check.cost), in the most expensive tests.
EXPENSIVE_RULES: Final = 395
TESTS_IN_RULE: Final = 19
#: Rules that take long to check, and objects of a listing.
LONG_RULES: Final = 100
ENTRIES: Final = 300
#: Clients that upload rules, and those that list and read under rules.
UPLOADERS: Final = 6
READERS: Final = 4
#: The same in ``make test``: requests that begin before the end of a measurement take less long.
SHORT_RULES: Final = 30
SHORT_ENTRIES: Final = 30
#: GETs of a client after each listing.
READS: Final = 10
#: Measured requests of the other account, and the limits of their median times.
UPLOADS: Final = 9
GETS: Final = 100
UPLOAD_RATIO: Final = 3.0
GET_RATIO: Final = 1.5
#: The ordinary rules of the other account.
SMALL: Final = b"version: 1\nrules:\n- name: night\n  when: {container: night}\n  deny: not now\n"


def expensive(rules: int = EXPENSIVE_RULES, tests: int = TESTS_IN_RULE) -> bytes:
    """Rules of which none decides, so each test is evaluated for each object."""
    lines = ["version: 1", "rules:"]
    for rule in range(rules):
        names = ", ".join(f"{{object: none-{rule}-{test}}}" for test in range(tests))
        lines.append(f"- {{name: r{rule}, when: {{any: [{names}]}}, mandatory: true, deny: x}}")
    return "\n".join(lines).encode()


def upload(client: Client, text: bytes) -> Answer:
    return client.put(RULES, text, ACCEPTED)


def median_of(times: Sequence[int], send: Callable[[], Answer], status: int) -> float:
    """The median time of a request."""
    taken = []
    for _ in times:
        began = time.monotonic()
        answer = send()
        must(answer.status == status, answer)
        taken.append(time.monotonic() - began)
    return statistics.median(taken)


def beside(
    attacker: Attacker, clients: int, load: Callable[[int], object], measure: Callable[[], float]
) -> float:
    """The result of ``measure`` beside ``clients`` that repeat ``load``."""
    over = Event()

    def repeat(number: int) -> None:
        while not over.is_set():
            load(number)

    loads = [attacker.arena.pool.submit(repeat, number) for number in range(clients)]
    try:
        result = measure()
    finally:
        over.set()
    for running in loads:
        running.result(120)
    return result


def judged(what: str, reference: float, attacked: float, ratio: float) -> str:
    seen = f"{what} {reference * 1000:.0f} ms, under attack {attacked * 1000:.0f} ms"
    must(attacked <= ratio * reference, seen)
    return seen


def other_account(attacker: Attacker) -> Client:
    other = attacker.arena.users["admin:admin"].on("AUTH_attack-rules-other")
    for path in ("storlet_rules", "data", "data/o"):
        other.put(path)
    return other


def too_expensive(attacker: Attacker) -> str:
    """A text above the limit of cost is refused with the figure and the rule to change."""
    attacker.client.put("storlet_rules")
    answer = upload(attacker.client, expensive(rules=600))
    must(answer.status == 400 and "[size.cost]" in answer.text, answer)
    return f"400 {answer.text.split(': ', 2)[-1][:80]}"


def many_uploads(attacker: Attacker) -> str:
    """Uploads that take long to check."""
    attacker.client.put("storlet_rules")
    other, rules = other_account(attacker), len(attacker.repeats(LONG_RULES, SHORT_RULES))
    texts = [expensive(rules + number) for number in range(UPLOADERS)]

    def measure() -> float:
        return median_of(attacker.repeats(UPLOADS, 5), lambda: upload(other, SMALL), 201)

    def load(number: int) -> None:
        upload(attacker.client, texts[number])

    return judged("upload", measure(), beside(attacker, UPLOADERS, load, measure), UPLOAD_RATIO)


def evaluations(attacker: Attacker) -> str:
    """GETs and listings under rules at the limit of cost, compared with the same without rules."""
    client, other = attacker.client, other_account(attacker)
    for container in ("storlet_rules", "entries"):
        client.put(container)
    entries = attacker.repeats(ENTRIES, SHORT_ENTRIES)
    list(attacker.arena.pool.map(lambda name: client.put(f"entries/{name}", b"x"), entries))

    def measure() -> float:
        return median_of(attacker.repeats(GETS, 30), lambda: other.get("data/o"), 200)

    def load(number: int) -> None:
        listing = client.get("entries", query={"format": "json"})
        must(listing.status == 200, listing)
        for _ in range(READS):
            must(client.get(f"entries/{number}").status == 200, "an object")

    reference = beside(attacker, READERS, load, measure)
    answer = upload(client, expensive())
    must(answer.status == 201, answer)
    try:
        return judged("GET", reference, beside(attacker, READERS, load, measure), GET_RATIO)
    finally:
        client.delete(RULES)


ROWS: Final = (
    Attack("rules above the limit of cost", "400 size.cost", too_expensive, HTTP, by_median=True),
    Attack("uploads of long rules by six clients", "another account's upload at most 3x", many_uploads, HTTP, fresh=True, by_median=True, once=True, is_timed=True),
    Attack("listings under rules at the limit of cost", "another account's GET at most 1.5x of the load", evaluations, HTTP, fresh=True, flood=True, once=True, is_timed=True),
)  # fmt: skip
