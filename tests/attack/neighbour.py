"""A neighbour tenant with a steady load of storlet and plain GETs; records time and outcome of
each.

Its account has other traffic besides: PUTs and GETs of larger objects, whose times are not judged.
In an empty cluster any client doubles the 99th percentile of these GETs, a hostile storlet or a few
plain PUTs, because a request that arrives while a server works on another one waits for it.  The
traffic is in the windows without attack too, so that a ratio is what an attack adds to the load of
a cluster in use.

It runs in a separate process (``python3 -m tests.attack.neighbour``), so that work of the attacking
client, such as reading a flood, is not mistaken for a slow server.  Requests are sent at fixed
times, even if earlier ones are unanswered: a load that waits for slow responses would hide them.
"""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import math
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TextIO

from tests.support.accounts import prepare_account, unique
from tests.support.cluster import CHECKOUT
from tests.support.http import Client
from tests.support.storlets import declaration
from tests.support.tenant import CONTENT, DATA
from tests.support.waiting import wait_for

KINDS: Final = ("storlet", "plain")
#: The kinds of the other traffic, whose responses are judged and whose times are not.
TRAFFIC: Final = ("write", "read")
TRAFFIC_BYTES: Final = 1 << 18
#: Objects that it writes in turn.
TRAFFIC_OBJECTS: Final = 8
#: Threads of a kind: the maximum number of requests in flight.
THREADS: Final = 2
IDENTITY: Final = b"""
class Neighbour:
    def __init__(self, logger):
        pass

    def __call__(self, in_files, out_files, params):
        out_files[0].set_metadata(in_files[0].get_metadata())
        out_files[0].write(in_files[0].read())
"""


@dataclass(frozen=True)
class Rates:
    """Requests a second of each judged kind, and of each kind of the other traffic."""

    judged: int
    traffic: int


#: For ratios of times: a part of one core, so that a two-core machine has CPU time left for Swift.
FOR_TIMES: Final = Rates(judged=25, traffic=4)
#: Where errors are judged, and no times: the load costs less than a tenth of a core.
FOR_ERRORS: Final = Rates(judged=2, traffic=1)


@dataclass(frozen=True)
class Sample:
    """One request: its kind, the number of its thread among those of the kind, its due time, the
    time from then to the complete response, and its fault if any."""

    kind: str
    thread: int
    due: float
    seconds: float
    fault: str


@dataclass(frozen=True)
class Window:
    """The samples of a period."""

    samples: list[Sample] = field(default_factory=list)

    def times(self, kind: str) -> list[float]:
        return [one.seconds for one in self.samples if one.kind == kind]

    @property
    def faults(self) -> list[str]:
        return [f"{one.kind}: {one.fault}" for one in self.samples if one.fault]

    def __add__(self, other: Window) -> Window:
        return Window(self.samples + other.samples)


def p99(times: list[float]) -> float:
    """The 99th percentile; of fewer than a hundred samples the second largest, so that one outlier
    does not decide."""
    ordered = sorted(times)
    if not ordered:
        return math.nan
    return ordered[max(0, min(len(ordered) - 2, math.ceil(len(ordered) * 0.99) - 1))]


def ratio(attacked: Window, calm: Window, kind: str) -> float:
    """The ratio of the 99th percentile under attack to that without; without samples no ratio is
    small enough."""
    if not attacked.times(kind) or not calm.times(kind):
        return math.inf
    return p99(attacked.times(kind)) / p99(calm.times(kind))


def median_ratio(attacked: Window, calm: Window, kind: str) -> float:
    """The ratio of the medians; see :func:`ratio`."""
    if not attacked.times(kind) or not calm.times(kind):
        return math.inf
    return statistics.median(attacked.times(kind)) / statistics.median(calm.times(kind))


@dataclass
class Neighbour:
    """The load, from :meth:`start` to :meth:`stop`."""

    file: Path
    _process: subprocess.Popen[bytes] | None = None
    _read: int = 0
    _samples: list[Sample] = field(default_factory=list)

    def start(self, url: str, token: str, rates: Rates) -> None:
        self.file.touch()
        words = [url, token, str(self.file), str(rates.judged), str(rates.traffic)]
        command = [sys.executable, "-m", "tests.attack.neighbour", *words]
        self._process = subprocess.Popen(command, cwd=CHECKOUT, stdin=subprocess.PIPE)

    def stop(self) -> None:
        if self._process and self._process.stdin:
            self._process.stdin.close()
            self._process.wait(60)

    def is_served(self) -> bool:
        """Return True if a request of each thread has had the right response.

        Each thread keeps its connection to the proxy, which a test would otherwise take for a
        leftover of what it did while the last of them connected.
        """
        samples = self.between(0, math.inf).samples
        served = {(one.kind, one.thread) for one in samples if not one.fault}
        return served == {(kind, n) for kind in (*KINDS, *TRAFFIC) for n in range(THREADS)}

    def since(self, begin: float) -> Window:
        """The requests due from ``begin`` on; waits until one of each judged kind has ended."""

        def is_judged() -> bool:
            ended = {one.kind for one in self.between(begin, math.inf).samples}
            return ended.issuperset(KINDS)

        wait_for(is_judged, 60, "requests of the neighbour")
        return self.between(begin, math.inf)

    def between(self, begin: float, end: float) -> Window:
        """The requests due in a past period, in seconds of ``time.monotonic``."""
        with self.file.open(encoding="utf-8") as lines:
            lines.seek(self._read)
            while (line := lines.readline()).endswith("\n"):
                self._samples.append(Sample(*json.loads(line)))
                self._read = lines.tell()
        return Window([one for one in self._samples if begin <= one.due < end])


@contextlib.contextmanager
def load_of(url: str, token: str, file: Path, rates: Rates = FOR_TIMES) -> Iterator[Neighbour]:
    """Run a neighbour's load for the duration of a block."""
    neighbour = Neighbour(file)
    neighbour.start(url, token, rates)
    try:
        # Exclude the start of its sandbox from the samples, and fail if the load does not run: it
        # would have no faults.
        wait_for(neighbour.is_served, 60, "the neighbour's first runs")
        yield neighbour
    finally:
        neighbour.stop()


# --- the separate process -------------------------------------------------------------------------


class _Load:
    """The separate process: sends the load until its standard input ends."""

    def __init__(self, client: Client, target: TextIO, rates: Rates) -> None:
        self._client = client
        self._rates = rates
        self._target = target
        self._lock = threading.Lock()
        self._end = threading.Event()
        self._storlet = ""
        self._written = itertools.count()
        self._large = os.urandom(TRAFFIC_BYTES)

    def prepare(self) -> None:
        """Create the account's containers, an object and the identity storlet."""
        name = unique("neighbour")
        prepare_account(self._client)
        self._storlet = f"{name}.py"
        for path, headers, body in (
            (DATA, {}, b""),
            (f"{DATA}/plain.txt", {}, CONTENT),
            (f"storlet/{self._storlet}", declaration("python", f"{name}.Neighbour"), IDENTITY),
            *((f"{DATA}/traffic-{n}", {}, self._large) for n in range(TRAFFIC_OBJECTS)),
        ):
            answer = self._client.put(path, body, headers)
            if answer.status // 100 != 2:
                raise SystemExit(f"PUT {path}: {answer}")

    def run(self) -> None:
        """Send requests of each kind in threads until standard input ends."""
        threads = [
            threading.Thread(target=self._work, args=(kind, n, rate))
            for kinds, rate in ((KINDS, self._rates.judged), (TRAFFIC, self._rates.traffic))
            for kind in kinds
            for n in range(THREADS)
        ]
        for thread in threads:
            thread.start()
        sys.stdin.read()
        self._end.set()
        for thread in threads:
            thread.join()

    def _work(self, kind: str, number: int, rate: int) -> None:
        period = THREADS / rate
        due = time.monotonic() + number * period / THREADS
        connection = self._connect()
        while not self._end.wait(max(0.0, due - time.monotonic())):
            fault = ""
            try:
                fault = self._fault(connection, kind)
            except (OSError, http.client.HTTPException) as error:
                fault = repr(error)
                connection.close()
                connection = self._connect()
            now = time.monotonic()
            with self._lock:
                self._target.write(json.dumps([kind, number, due, now - due, fault]) + "\n")
                self._target.flush()
            # After a delay of more than a second the schedule starts again: the delay has been
            # counted.
            due = max(due + period, now - 1)

    def _connect(self) -> http.client.HTTPConnection:
        # The connection is kept alive, as under a steady load: a sample is the request without the
        # connect.
        url = self._client.version_url
        return http.client.HTTPConnection(url.host, url.port, timeout=60)

    def _fault(self, connection: http.client.HTTPConnection, kind: str) -> str:
        """Send one request; return what is wrong with its response, if anything."""
        headers = {"X-Auth-Token": self._client.token}
        path, method, sent, wanted = f"{DATA}/plain.txt", "GET", b"", (200, CONTENT)
        if kind == "storlet":
            headers["X-Run-Storlet"] = self._storlet
        elif kind in TRAFFIC:
            path = f"{DATA}/traffic-{next(self._written) % TRAFFIC_OBJECTS}"
            wanted = (200, self._large)
            if kind == "write":
                method, sent, wanted = "PUT", self._large, (201, b"")
        connection.request(method, self._client.target(path), sent or None, headers)
        answer = connection.getresponse()
        seen = answer.status, answer.read()
        return "" if seen == wanted else f"{seen[0]} {seen[1][:200]!r}"


def main() -> None:
    url, token, file, judged, traffic = sys.argv[1:]
    # It represents a client on another machine: a sample must not include this process's wait for a
    # core.
    with contextlib.suppress(PermissionError):
        os.nice(-10)
    with Path(file).open("a", encoding="utf-8") as target:
        load = _Load(Client(url, token), target, Rates(int(judged), int(traffic)))
        load.prepare()
        load.run()


if __name__ == "__main__":
    main()
