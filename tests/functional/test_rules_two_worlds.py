"""No answer to a covered caller depends on what a rule covers.

Two accounts differ only in their covered objects.  A covered caller sends the same random requests
to both, with guesses of lengths and hashes that are right in one of them, and must get the same
answers.
"""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import pytest

from tests.functional.two_worlds import OBJECTS, SECRETS, Asked, Requests, World, make_world
from tests.functional.wards import RESEARCHER
from tests.support.http import Client

#: Requests per set of rules, and the first seed.
COUNT: Final = int(os.environ.get("STORLETS_REQUESTS", "90"))
SEED: Final = int(os.environ.get("STORLETS_SEED", "1"))
#: A request is sent to both worlds at once.
THREADS: Final = ThreadPoolExecutor(len(SECRETS))
RULES: Final = {
    "container": "container: [patients, kept, old]",
    "size": "container: [patients, kept, old], size: {at-least: 1}",
    "metadata": "metadata: {class: secret}",
    "content-type": "content-type: {prefix: text/x-secret}",
    "name": "any: [{object: [a, secret, static, dynamic]}, {object: {prefix: seg/}, container: patients}]",
}


@pytest.mark.parametrize("condition", RULES)
def test_both_worlds_answer_alike(users: dict[str, Client], condition: str) -> None:
    rules = (
        f"version: 1\nrules:\n- name: hide\n  when: {{method: GET, user: '{RESEARCHER}',"
        f" {RULES[condition]}}}\n  mandatory: true\n  run: keep.py\n"
    )
    worlds = list(THREADS.map(lambda secret: make_world(users, secret, rules), SECRETS))
    requests = Requests(SEED)
    history = []
    for _ in range(COUNT):
        asked = requests.next()
        history.append(asked)
        _assert_alike(worlds, asked, history)
    # The objects that the caller has written are equal, also for a reader that is not covered: as
    # they are stored, because a manifest or a link shows such a reader what it names.
    as_stored = {"multipart-manifest": "get", "symlink": "get"}
    for path in OBJECTS:
        if path.startswith(("inbox/", "open/new")):
            asked = Asked("GET", path, query=as_stored)
            _assert_alike(worlds, asked, history, of_reader=True)


def _assert_alike(
    worlds: list[World], asked: Asked, history: list[Asked], *, of_reader: bool = False
) -> None:
    # A container's listing and sums may follow a write with a delay.

    def told_in(world: World) -> tuple[int, bool, dict[str, str], str]:
        return world.told(world.ask(asked, world.reader if of_reader else None))

    for wait in (0, 0.5, 2):
        time.sleep(wait)
        told = list(THREADS.map(told_in, worlds))
        if told[0] == told[1]:
            return
        if asked.method not in ("GET", "HEAD"):
            break
    shown = "\n".join(map(str, history[-8:]))
    assert told[0] == told[1], f"{asked}\nlast requests:\n{shown}"
