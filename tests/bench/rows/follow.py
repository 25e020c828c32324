"""Cost for others of following an account's log lines: GET of 1 KiB through a no-op while another
account is followed, against the GET while none is; and the CPU time of a stream.

A stream without news polls once in two seconds, so it lasts for a stretch of requests, which are
resampled together, and then there is none for as many.  The CPU time of a stream is measured while
there are no requests.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Final

from tests.bench.bench import WARM_UP, Bench
from tests.bench.figures import Figure
from tests.bench.http import make_request, open_tcp
from tests.bench.rows.records import cpu_seconds
from tests.bench.site import SMALL, Account

_FOLLOW: Final = "?storlet-runs&follow&lines"
#: Requests with a stream, or without one: some four seconds, in which a stream polls twice.
_STRETCH: Final = 960
_STRETCHES_PER_SMALL: Final = 60
#: Time after which a stream polls as it does without news, or has ended.
_SETTLE_SECONDS: Final = 5.5
#: Measurements of the CPU time of a stream: the number, and the length of one.
_WINDOWS: Final = 5
_WINDOW_SECONDS: Final = 6.0


def measure(bench: Bench) -> Iterator[Figure]:
    """One client, one connection, the storlet in Python at the object node."""
    account, other = bench.site.main, bench.site.new_account("followed")
    (treatment, _) = bench.site.treatments("python")
    request = account.request("GET", SMALL, treatment.headers)
    other.get_ready()
    # As an account has it that has run storlets.
    other.send("PUT", "storletlog")
    for _ in range(WARM_UP):
        account.connection.exchange(request)
    samples: dict[bool, list[float]] = {False: [], True: []}
    stretches = 2 * max(1, bench.plan.small // _STRETCHES_PER_SMALL)
    for number in range(stretches):
        # Balanced: with, without, without, with.
        is_followed = number % 4 in (0, 3)
        with _stream_of(other) if is_followed else nullcontext():
            settled = time.monotonic() + _SETTLE_SECONDS
            while time.monotonic() < settled:
                account.connection.exchange(request)
            samples[is_followed] += [
                account.connection.exchange(request).whole * 1000 for _ in range(_STRETCH)
            ]
        bench.progress.step(number + 1, stretches)
    for suffix, title, quantile in (("p50", "median", 0.5), ("mean", "mean", None)):
        yield Figure(
            f"follow.{suffix}",
            f"GET 1 KiB, while another account is followed against while none is, {title}",
            "ms",
            samples[True],
            samples[False],
            quantile=quantile,
            block=_STRETCH,
        )
    title = "CPU time of the proxy and of container servers for a stream without news"
    yield Figure("follow.cpu", title, "ms/s", _cpu_of_stream(bench, other))


def _cpu_of_stream(bench: Bench, account: Account) -> list[float]:
    """Milliseconds a second of a stream of ``account``, beyond those of idle servers."""
    names = (str(item["name"]) for item in bench.site.cluster.description["processes"])
    servers = [name for name in names if name == "proxy" or name.startswith("container-")]
    found = (bench.site.cluster.process(name).pid for name in servers)
    pids = [pid for pid in found if pid is not None]

    def used() -> float:
        before, began = sum(map(cpu_seconds, pids)), time.monotonic()
        time.sleep(_WINDOW_SECONDS)
        return (sum(map(cpu_seconds, pids)) - before) / (time.monotonic() - began) * 1000

    found = []
    # Alternated: the servers have other work of their own now and then.
    for _ in range(_WINDOWS):
        time.sleep(_SETTLE_SECONDS)
        idle = used()
        with _stream_of(account):
            time.sleep(_SETTLE_SECONDS)
            found.append(used() - idle)
    return found


@contextmanager
def _stream_of(account: Account) -> Iterator[None]:
    """A stream of the log lines of ``account``, which has begun."""
    token = {"X-Auth-Token": account.token}
    with open_tcp(account.address) as stream:
        stream.sendall(make_request("GET", account.path_of("") + _FOLLOW, token).head)
        answer = b""
        while b"\r\n\r\n" not in answer:
            chunk = stream.recv(65536)
            if not chunk:
                raise RuntimeError("the stream ended before its headers")
            answer += chunk
        if b" 200 " not in answer.partition(b"\r\n")[0]:
            raise RuntimeError(f"no stream: {answer[:200]!r}")
        yield
