"""A server process of a node, for the tests of admission; executes commands from a pipe.

::

    take <account> <group> <memory>    -> taken | refused <code> <retry_after>     (waits in a task)
    free <account>                     -> freed            the slot that was taken first
    try <account>                      -> taken | full
    spin <seconds> <account> ...       -> spun <count>     takes and frees slots, three tasks an account
    pairs <seconds> <account> ...      -> spun <count>     the same with two slots at a time
    absent <seconds>                   -> absent           a silent waiter is skipped from then on

Answers come in the order in which things happen, each with the account.
"""

from __future__ import annotations

import os
import time
from multiprocessing.connection import Connection
from pathlib import Path

import eventlet

from storlet_middleware.admission import shared_table
from storlet_middleware.admission.controller import Admission, Slot
from storlet_middleware.concurrency import spawn
from storlet_middleware.config import parse
from storlet_middleware.errors import StorletError
from tests.unit.middleware.logger import Logger

SLOTS: dict[str, list[Slot]] = {}


#: The end of the pipe that answers are written to.
ANSWERS: list[Connection] = []


def say(*words: object) -> None:
    os.write(ANSWERS[0].fileno(), (" ".join(map(str, words)) + "\n").encode())


def take(admission: Admission, account: str, group: str = "g", memory: str = "1048576") -> None:
    waiting = admission.acquire(admission.claim(account, group, int(memory)), None)
    try:
        next(waiting)
    except StopIteration as end:
        SLOTS.setdefault(account, []).append(end.value)
        say("taken", account)
    except StorletError as error:
        say("refused", account, error.code, error.retry_after)


def spin(admission: Admission, seconds: float, accounts: list[str], *groups: str) -> int:
    """How often a slot was taken, or one of each of ``groups``."""
    end = time.monotonic() + seconds

    def turn(account: str) -> int:
        count = 0
        while time.monotonic() < end:
            claims = [admission.claim(account, group, 1048576) for group in groups]
            waiting = (
                admission.acquire_together(claims, None)
                if len(claims) > 1
                else admission.acquire(claims[0], None)
            )
            try:
                next(waiting)
            except StopIteration as got:
                eventlet.sleep(0.002)
                for slot in got.value if len(claims) > 1 else [got.value]:
                    slot.release()
                count += 1
        return count

    return sum(task.wait() for task in [spawn(turn, account) for account in accounts * 3])


def main(conf: Path, connection: Connection) -> None:
    ANSWERS.append(connection)
    admission = Admission(parse(conf.read_text(encoding="utf-8")), Logger())
    say("ready")
    while True:
        eventlet.hubs.trampoline(connection.fileno(), read=True)
        for line in os.read(connection.fileno(), 65536).decode().splitlines():
            command, *words = line.split()
            if command == "take":
                spawn(take, admission, *words)
            elif command == "try":
                slot = admission.acquire_at_once(admission.claim(words[0], "g", 1048576))
                if slot is not None:
                    SLOTS.setdefault(words[0], []).append(slot)
                say("taken" if slot else "full", *words)
            elif command == "free":
                SLOTS[words[0]].pop(0).release()
                say("freed", *words)
            elif command == "spin":
                say("spun", spin(admission, float(words[0]), words[1:], "g"))
            elif command == "pairs":
                say("spun", spin(admission, float(words[0]), words[1:], "g", "h"))
            elif command == "absent":
                shared_table._ABSENT_SECONDS = float(words[0])  # type: ignore[misc]
                say("absent")
            else:
                return
            eventlet.sleep(0)
