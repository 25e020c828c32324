"""Stages of a GET of 1 KiB, through a no-op and plain, from probes in the servers and the storlet.

The servers are separate from the cluster's (:mod:`tests.bench.probed`).  The cost of the probes is
measured in the same processes, in rounds with and without them.
"""

from __future__ import annotations

import io
import re
import subprocess
import tempfile
import time
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from storlet_middleware.aio import cache, packages
from tests.bench import stages
from tests.bench.bench import WARM_UP, Bench
from tests.bench.figures import Figure
from tests.bench.http import Request
from tests.bench.probed import ProbedServers, probed_servers
from tests.bench.site import PLAIN, SMALL, STORLETS, Account, Code, Site, Treatment, python_code

_ROUNDS: Final = 6
#: After probes were inserted or removed, Python's adaptive interpreter must specialise again.
_AGAIN: Final = 10
_HEADER: Final = r"(?im)^{}: *([^\r\n]*)"
_ID: Final = re.compile(_HEADER.format("x-trans-id"))
_SAID: Final = re.compile(_HEADER.format("x-object-meta-probe"))


def _place(treatment: Treatment) -> str:
    """``object``, ``proxy`` or ``plain``."""
    return treatment.key.rpartition(".")[2]


@dataclass
class _Asked:
    """The requests of one treatment."""

    treatment: Treatment
    request: Request
    #: Requests with probes: transaction id, the client's stamps, the storlet's stamps.
    noted: list[tuple[str, dict[str, int], stages.StorletTimes | None]] = field(
        default_factory=list
    )

    def note(self, sent: int, whole: int, head: str) -> None:
        identity, said = _ID.search(head), _SAID.search(head)
        told = stages.StorletTimes.read(said[1]) if said else None
        self.noted.append(
            (identity[1] if identity else "", {stages.SENT: sent, stages.WHOLE: whole}, told)
        )

    def requests(
        self, taken: dict[str, dict[str, int]], ended: dict[int, dict[str, int]]
    ) -> list[dict[str, float]]:
        """The stages of every request, except those whose storlet had no later run to report
        them."""
        course = stages.COURSES[_place(self.treatment)]
        return [
            stages.lengths(
                course, {**taken.get(identity, {}), **own, **(ended[told.began] if told else {})}
            )
            for identity, own, told in self.noted
            if told is None or told.began in ended
        ]


def measure(bench: Bench) -> Iterator[Figure]:
    """Microseconds of each stage."""
    codes = {"python": python_code("probe.py", "Probe"), "java": _java_probe(bench.site)}
    account = bench.site.account()
    account.get_ready(*codes.values())
    treatments = [
        replace(
            one, headers={**one.headers, "X-Run-Storlet": codes[one.key.partition(".")[0]].name}
        )
        for one in sorted(bench.site.treatments(), key=_place)
    ]
    with probed_servers(bench.site) as servers:
        own = servers.account(account)
        asked = [
            _Asked(one, own.request("GET", SMALL, one.headers)) for one in (PLAIN, *treatments)
        ]
        cost = _rounds(bench, servers, own, asked)
        taken = servers.take()
    # A worker serves more than one treatment.
    ended = stages.ended(told for one in asked for _, _, told in one.noted if told)
    for one in asked:
        yield from _figures(one, one.requests(taken, ended))
    yield from cost


def _rounds(
    bench: Bench, servers: ProbedServers, account: Account, asked: list[_Asked]
) -> list[Figure]:
    """Requests with probes, which are recorded, and without; the cost of the probes."""
    by_key = {one.treatment.key: one for one in asked}
    treatments = [one.treatment for one in asked[1:]]
    figures = {
        key: Figure(
            f"breakdown.probes.{key}", f"with probes against without, {one.treatment.title}", "us"
        )
        for key, one in by_key.items()
    }

    def exchange(treatment: Treatment) -> float:
        one = by_key[treatment.key]
        sent = time.monotonic_ns()
        answer = account.connection.exchange(one.request)
        whole = time.monotonic_ns()
        if is_noted:
            one.note(sent, whole, answer.head.decode("latin-1"))
        return (whole - sent) / 1000

    count = max(1, bench.plan.small // 2 // _ROUNDS)
    is_noted = False
    bench.alternate(treatments, WARM_UP, exchange)
    for number in range(_ROUNDS):
        for is_on in (bool(number % 2), not number % 2):
            servers.switch(on=is_on)
            is_noted = False
            bench.alternate(treatments, _AGAIN, exchange)
            is_noted = is_on
            for key, samples in bench.alternate(treatments, count, exchange).items():
                (figures[key].treated if is_on else figures[key].plain).extend(samples)
    return list(figures.values())


def _figures(asked: _Asked, every: list[dict[str, float]]) -> Iterator[Figure]:
    """The figures of one treatment: its stages and their sum."""
    requests = stages.usual(every)
    key, title = f"breakdown.{asked.treatment.key}", asked.treatment.title
    for name, stage in stages.STAGES.items():
        samples = [request[name] for request in requests if name in request]
        if samples:
            yield Figure(f"{key}.{name}", f"{title}: {stage.title}", "us", samples, quantile=None)
    note = f"the middle half of {len(every)} requests; its stages add up to this"
    whole = [sum(request.values()) for request in requests]
    yield Figure(
        f"{key}.{stages.SUM}", f"{title}: the whole", "us", whole, quantile=None, notes=[note]
    )


def _java_probe(site: Site) -> Code:
    """The Java storlet, compiled."""
    packages.install([packages.JDK], cache.cache_root() / "bench.log")
    with tempfile.TemporaryDirectory() as folder:
        api, source = site.cluster.java_api_jar, STORLETS / "java_probe/ProbeStorlet.java"
        command = [
            "javac",
            "--release",
            "17",
            "-encoding",
            "UTF-8",
            "-cp",
            str(api),
            "-d",
            folder,
            str(source),
        ]
        subprocess.run(command, check=True, capture_output=True)
        jar = io.BytesIO()
        with zipfile.ZipFile(jar, "w") as archive:
            for path in Path(folder).rglob("*.class"):
                archive.write(path, path.relative_to(folder))
    return Code("probe-1.0.jar", "java", "ProbeStorlet", jar.getvalue())
