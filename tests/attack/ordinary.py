"""An ordinary tenant that works without pause, with whose effect on a neighbour an attack is
compared; and the priority of clients that represent other machines.

A tenant may compute and write all the time.  On a small machine that alone delays the slowest of a
neighbour's requests: they wait for a server or a core that is in use.  An attack that a storlet is
not allowed to make has to add to that delay to be one.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from tests.support.accounts import unique
from tests.support.http import Client
from tests.support.storlets import Tool
from tests.support.tenant import CONTENT, DATA, make_tenant

#: Clients that compute, one for each core of a small machine, and clients that write.
COMPUTING: Final = 2
WRITING: Final = 1
#: How long one run computes.
COMPUTE_SECONDS: Final = 0.5
#: ``nice`` of a client that represents another machine: its own work must not take a core from
#: Swift.
CLIENT_NICENESS: Final = 15
STORLET: Final = b"""
import time


class Ordinary:
    def __init__(self, logger):
        pass

    def __call__(self, in_files, out_files, params):
        content = in_files[0].read()
        out_files[0].set_metadata({})
        end = time.monotonic() + float(params.get("seconds", "0"))
        total = 0
        while time.monotonic() < end:
            total += sum(content)
        out_files[0].write(content)
"""


def lower_priority() -> None:
    """Lower the priority of the calling thread."""
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), CLIENT_NICENESS)


@contextlib.contextmanager
def as_a_client() -> Iterator[None]:
    """Lower the priority of the calling thread for a block; without the right to raise it again,
    not at all."""
    thread = threading.get_native_id()
    before = os.getpriority(os.PRIO_PROCESS, thread)
    if os.geteuid() != 0:
        yield
        return
    lower_priority()
    try:
        yield
    finally:
        os.setpriority(os.PRIO_PROCESS, thread, before)


class Ordinary:
    """The ordinary tenant, in an account of its own."""

    def __init__(self, admin: Client) -> None:
        tenant = make_tenant(admin)
        name = tenant.upload(unique("ordinary") + ".py", STORLET, "Ordinary")
        self._tool = Tool(tenant.client, name)
        self._path = tenant.path
        self._end = threading.Event()

    @contextlib.contextmanager
    def at_work(self) -> Iterator[None]:
        """Send its requests during a block; each of them must succeed."""
        # The start of its sandbox and workers is not part of the load.
        self._compute()
        self._write()
        self._end.clear()
        kinds = [self._compute] * COMPUTING + [self._write] * WRITING
        with ThreadPoolExecutor(len(kinds), initializer=lower_priority) as pool:
            loops = [pool.submit(self._loop, kind) for kind in kinds]
            try:
                yield
            finally:
                self._end.set()
                for loop in loops:
                    loop.result()

    def _loop(self, kind: Callable[[], None]) -> None:
        while not self._end.is_set():
            kind()

    def _compute(self) -> None:
        answer = self._tool.get(self._path, seconds=str(COMPUTE_SECONDS))
        if answer.status != 200 or answer.body != CONTENT or answer.is_broken:
            raise RuntimeError(f"the ordinary tenant's GET: {answer}")

    def _write(self) -> None:
        answer = self._tool.put(f"{DATA}/written.txt", CONTENT)
        if answer.status != 201:
            raise RuntimeError(f"the ordinary tenant's PUT: {answer}")
