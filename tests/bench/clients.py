"""``python -m tests.bench.clients``: a crowd of clients in a separate process, so that clients that
compute use more than one CPU.

Each line of input is a load, each line of output its measurements::

    {"address": ["127.0.0.1", 8080], "head": "GET /v1/AUTH_a/study/1000 HTTP/1.1...", "clients": 10, "seconds": 0.5, "hashes": true}
    {"seconds": 0.53, "answers": 251, "errors": [], "latencies": [0.0021, ...]}

It ends when its standard input ends, and so with its parent.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from typing import IO, Any, Final, Self

from tests.bench.crowd import Crowd, Crowded, Unread
from tests.bench.http import Address, Request
from tests.bench.storlets.fixity import Hashes
from tests.support.cluster import CHECKOUT

_COMMAND: Final = (sys.executable, "-m", "tests.bench.clients")


@dataclass(frozen=True)
class Load:
    """``clients`` in a closed loop; with ``hashes`` each computes MD5 and SHA-256 of the response
    body."""

    address: Address
    head: str
    clients: int
    seconds: float
    hashes: bool


def divided(clients: int, processes: int) -> list[int]:
    """The number of clients of each process; processes without clients are left out."""
    shares = [(clients + number) // processes for number in range(processes)]
    return sorted(filter(None, shares), reverse=True)


def together(parts: Sequence[Crowded]) -> Crowded:
    """Combine the parts of one load, which began at the same time."""
    return Crowded(
        max(part.seconds for part in parts),
        sum(part.answers for part in parts),
        [error for part in parts for error in part.errors],
        [latency for part in parts for latency in part.latencies],
    )


class Clients:
    """One process per CPU; use with ``with``."""

    def __init__(self) -> None:
        self._processes: list[subprocess.Popen[str]] = []
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        for _ in range(os.cpu_count() or 1):
            process = subprocess.Popen(
                _COMMAND, cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            self._stack.enter_context(process)
            self._stack.callback(process.terminate)
            self._processes.append(process)
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stack.close()

    def run(
        self, address: Address, request: Request, clients: int, seconds: float, *, hashes: bool
    ) -> Crowded:
        """Run a load for ``seconds`` and until each client has its last response; without clients,
        only wait."""
        if not clients:
            time.sleep(seconds)
            return Crowded(seconds)
        shares = divided(clients, len(self._processes))
        busy = self._processes[: len(shares)]
        for process, share in zip(busy, shares, strict=True):
            load = Load(address, request.head.decode("latin-1"), share, seconds, hashes)
            pipe = _require_pipe(process.stdin)
            pipe.write(json.dumps(asdict(load)) + "\n")
            pipe.flush()
        return together([Crowded(**_measurements_of(process)) for process in busy])


def _measurements_of(process: subprocess.Popen[str]) -> dict[str, Any]:
    line = _require_pipe(process.stdout).readline()
    if not line:
        raise RuntimeError("a process of the benchmark's clients has ended")
    said: dict[str, Any] = json.loads(line)
    return said


def _require_pipe(pipe: IO[str] | None) -> IO[str]:
    if pipe is None:
        raise RuntimeError("no pipe to the clients")
    return pipe


class _Fixity:
    """The storlet's computation in the client."""

    def __init__(self) -> None:
        self._hashes = Hashes(1)

    def feed(self, data: memoryview) -> None:
        self._hashes.feed(bytes(data))

    def finish(self) -> None:
        self._hashes.finish()


def serve() -> None:
    """Serve until standard input ends."""
    for line in sys.stdin:
        said = json.loads(line)
        load = Load(**said | {"address": tuple(said["address"])})
        print(json.dumps(asdict(_run(load))), flush=True)


def _run(load: Load) -> Crowded:
    crowd = Crowd(load.address, load.clients, _Fixity if load.hashes else Unread)
    try:
        return crowd.run(
            Request(load.head.encode("latin-1"), text=load.head.partition(" HTTP")[0]), load.seconds
        )
    finally:
        crowd.close()


if __name__ == "__main__":
    serve()
