"""Attacks through inputs at the proxy server: reads that are not taken, floods, lies, and inputs
that are opened by the hundred.

Those in C write to the sockets of the inputs, too, and use the worker's functions in many threads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

from tests.attack.arena import DEADLINES, ENDS_SOON, FLOOD_ENDS, Attacker, must, outcome
from tests.attack.attack import NATIVE, PYTHON, Attack
from tests.attack.exhaustion import BROKEN, FIRST_BYTE, MEMORY
from tests.attack.lies import FAILED
from tests.attack.sharing import TOTAL
from tests.support.http import Answer
from tests.support.storlets import declaration, usage

STORLET: Final = "seeking.py"
#: The same without seekable inputs.
STREAMING: Final = "streaming.py"
#: The hostile storlet in C, with seekable inputs.
SHARED_OBJECT: Final = "seeking.so"
#: Its parameter ``do`` names the attack.
SOURCE: Final = b"""
import random
import struct
import time


def ask(source, first, length):
    source.raw._socket.write(struct.pack(">QQ", first, length))


class Seeking:
    def __init__(self, logger):
        pass

    def __call__(self, in_files, out_files, params):
        getattr(self, params["do"])(in_files, out_files[0])

    def ask_and_take_nothing(self, sources, out):
        for _ in range(100):
            for source in sources:
                ask(source, random.randrange(source.size - (1 << 20)), 1 << 20)
        time.sleep(60)

    def take_nothing(self, sources, out):
        time.sleep(60)  # longer than its deadline, which ends it

    def flood(self, sources, out):
        while True:
            for source in sources:
                ask(source, random.randrange(source.size), 1)
                source.raw._socket.read(1)

    def large_reads(self, sources, out):
        while True:
            for source in sources:
                source.seek(random.randrange(source.size - (1 << 20)))
                source.raw.readinto(bytearray(1 << 20))

    def lie(self, sources, out):
        ask(sources[0], 1 << 63, 1 << 63)
        sources[0].raw._socket.read(1)
        out.write(b"got through")
"""
OBJECT: Final = "data/sought"
OBJECT_BYTES: Final = 16 << 20
#: Inputs of a run: the object and extra resources.
INPUTS: Final = 8
#: The most that the configuration allows.
MAX_INPUTS: Final = 16
#: Runs at once, which request 64 ranges together, and runs of a crowd: four times the workers, or
#: in ``make test`` a few more than workers.
SEVERAL: Final = 8
MANY: Final = 32
FEW: Final = 10
#: The least that a flood reads, in single bytes and in reads of 1 MiB.
FEW_BYTES: Final = 8
LARGE_BYTES: Final = 4 << 20


def at_proxy(
    attacker: Attacker,
    runs: int,
    do: str,
    *allowed: str,
    storlet: str = STORLET,
    inputs: int = INPUTS,
    ends: Mapping[str, str] = ENDS_SOON,
    least: int = 0,
    **parameters: str,
) -> str:
    """``runs`` GETs at once end with an allowed outcome, and the next run works.

    :param ends: the deadlines of a run.
    :param least: bytes of its inputs that each run must have read before its end.
    """
    prepare(attacker)
    extra = ", ".join([quote(f"/{OBJECT}")] * (inputs - 1))
    headers = {
        **ends,
        "X-Run-Storlet": storlet,
        "X-Storlet-Run-On-Proxy": "",
        "X-Storlet-Extra-Resources": extra,
    }

    def one(_: int) -> Answer:
        return attacker.client.get(OBJECT, headers, query={"do": do, **parameters})

    answers = list(attacker.arena.pool.map(one, range(runs)))
    seen = sorted({outcome(answer) for answer in answers})
    must(set(seen) <= set(allowed), seen)
    if least:
        must(all(usage(answer)["in"] >= least for answer in answers), answers)
    attacker.recovers()
    return ", ".join(seen)


def prepare(attacker: Attacker) -> None:
    """Upload the storlet and the object, once in an account."""
    client = attacker.client
    if client.head(OBJECT).status == 200:
        return
    headers = declaration("python", "seeking.Seeking", Input="seekable", **DEADLINES)
    must(client.put(f"storlet/{STORLET}", SOURCE, headers).status == 201, "the storlet")
    headers = declaration("python", "streaming.Seeking", **DEADLINES)
    must(client.put(f"storlet/{STREAMING}", SOURCE, headers).status == 201, "the storlet")
    headers = declaration("native", f"{SHARED_OBJECT}:hostile", Input="seekable", **DEADLINES)
    native = attacker.arena.native
    must(client.put(f"storlet/{SHARED_OBJECT}", native, headers).status == 201, "the storlet")
    must(client.put(OBJECT, b"0123456789abcdef" * (OBJECT_BYTES >> 4)).status == 201, "the object")


BUSY: Final = ("429 tenant.busy", "503 node.busy")


def takes_nothing(attacker: Attacker) -> str:
    return at_proxy(attacker, SEVERAL, "ask_and_take_nothing", FIRST_BYTE, TOTAL)


def many_inputs(attacker: Attacker) -> str:
    return at_proxy(
        attacker,
        len(attacker.repeats(SEVERAL, SEVERAL // 2)),
        "take_nothing",
        FIRST_BYTE,
        TOTAL,
        storlet=STREAMING,
        inputs=MAX_INPUTS,
    )


def crowd(attacker: Attacker) -> str:
    runs = len(attacker.repeats(MANY, FEW))
    return at_proxy(attacker, runs, "ask_and_take_nothing", FIRST_BYTE, TOTAL, *BUSY)


def flood(attacker: Attacker) -> str:
    return at_proxy(attacker, 1, "flood", TOTAL, FIRST_BYTE, ends=FLOOD_ENDS, least=FEW_BYTES)


def large_reads(attacker: Attacker) -> str:
    return at_proxy(
        attacker, 1, "large_reads", TOTAL, FIRST_BYTE, ends=FLOOD_ENDS, least=LARGE_BYTES
    )


def lie(attacker: Attacker) -> str:
    return at_proxy(attacker, 4, "lie", FAILED, BROKEN)


WAYS: Final = ("far", "past", "across", "long", "empty")


def outside(attacker: Attacker) -> str:
    """A range after the object, across its end, of no byte, and one that is too long."""
    seen = {
        at_proxy(attacker, 1, "outside", FAILED, BROKEN, storlet=SHARED_OBJECT, way=way)
        for way in WAYS
    }
    return ", ".join(sorted(seen))


def shared_flood(attacker: Attacker) -> str:
    return at_proxy(
        attacker, 1, "flood_reads", TOTAL, FIRST_BYTE,
        storlet=SHARED_OBJECT, ends=FLOOD_ENDS, least=FEW_BYTES,
    )  # fmt: skip


def race(attacker: Attacker) -> str:
    """The worker may crash: that is an error of its own run."""
    allowed = (FAILED, BROKEN, MEMORY, TOTAL, FIRST_BYTE)
    return at_proxy(attacker, 4, "race_reads", *allowed, storlet=SHARED_OBJECT)


ROWS: Final = (
    # Eight plain clients that send the same 128 GETs delay the neighbour's p99 by 26 to 94 times,
    # these requests, whose inputs are opened at a slower pace, by 0.6 to 5.3 times.
    Attack("opens 128 inputs by eight requests", "422 first byte or total", many_inputs, PYTHON, by_median=True),
    Attack("seekable inputs: requests bytes and takes none", "422 first byte or total", takes_nothing, PYTHON),
    Attack("seekable inputs: the same by 32 runs at once", "422 first byte or total; 429", crowd, PYTHON, flood=True),
    Attack("seekable inputs: a flood of single bytes", TOTAL, flood, PYTHON),
    Attack("seekable inputs: a flood of reads of 1 MiB", TOTAL, large_reads, PYTHON, by_median=True),
    Attack("seekable inputs: a read outside of the object", FAILED, lie, PYTHON),
    Attack("seekable inputs: reads outside of the object, in C", FAILED, outside, NATIVE),
    Attack("seekable inputs: a flood of single bytes, in C", TOTAL, shared_flood, NATIVE),
    Attack("seekable inputs: read by many threads at once, in C", "422, an error of its own run", race, NATIVE),
)  # fmt: skip
