"""``python3 -m tests.bench``: what a storlet costs, as ratios to plain Swift measured side by side in one run.

Starts an all-in-one cluster of its own, alternates plain and storlet requests over several rounds, and prints medians
and ratios with their spread over the rounds.  Absolute figures are this machine's at this moment; ratios hold.

``--rows latency,stream`` runs some rows, ``--quick`` fewer rounds, ``--json FILE`` keeps the raw figures.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from storlet_middleware.aio.java import SAMPLE_JARS
from tests.support.cluster import CHECKOUT, Cluster, bring_up

USER: Final = "test:tester"
SMALL: Final = 1024
LARGE: Final = 100 * 1024 * 1024
CONTAINER: Final = "bench"
_META: Final = {
    "X-Object-Meta-Storlet-Interface-Version": "1.0",
    "X-Object-Meta-Storlet-Object-Metadata": "no",
}
IDENTITY: Final = """
class Identity:
    def __init__(self, logger):
        self.logger = logger

    def __call__(self, in_files, out_files, params):
        source, target = in_files[0], out_files[0]
        target.set_metadata(source.get_metadata())
        for chunk in iter(lambda: source.read(262144), b""):
            target.write(chunk)
"""


@dataclass
class Row:
    """A treatment against plain Swift: one figure of each a round, in ``unit``."""

    name: str
    unit: str
    is_rate: bool
    plain: list[float] = field(default_factory=list)
    treated: list[float] = field(default_factory=list)

    def line(self) -> str:
        ratios = [treated / plain for treated, plain in zip(self.treated, self.plain, strict=True)]
        better = "higher is better" if self.is_rate else "lower is better"
        return (
            f"{self.name:<34} plain {statistics.median(self.plain):8.2f} {self.unit:<5}"
            f" storlet {statistics.median(self.treated):8.2f} {self.unit:<5}"
            f" ratio {statistics.median(ratios):5.2f}x ({min(ratios):.2f} to {max(ratios):.2f}), {better}"
        )


class Client:
    """One keep-alive connection of the benchmark's user."""

    def __init__(self, url: str, token: str) -> None:
        parts = urlsplit(url)
        self._path = parts.path
        self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port or 80, timeout=120)
        self._headers = {"X-Auth-Token": token}

    def __call__(self, method: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, int]:
        """Status and number of bytes of the answer's body."""
        spelled = {name.replace("_", "-"): value for name, value in headers.items()}
        self._connection.request(method, self._path + path, body=body, headers={**self._headers, **spelled})
        answer = self._connection.getresponse()
        size = 0
        while chunk := answer.read(1 << 20):
            size += len(chunk)
        return answer.status, size

    def must(self, method: str, path: str, body: bytes | None = None, **headers: str) -> int:
        """Size of a successful answer; anything else ends the benchmark with what it was."""
        status, size = self(method, path, body, **headers)
        if status // 100 != 2:
            raise SystemExit(f"{method} {path} {headers}: {status}")
        return size


@dataclass(frozen=True)
class Treatment:
    """A way to run a no-op: headers of the request."""

    name: str
    headers: dict[str, str]


class Bench:
    """The rows.  ``rounds`` alternations of plain and treated, each of ``samples`` requests where they are small."""

    def __init__(self, cluster: Cluster, rounds: int, samples: int) -> None:
        self._rounds = rounds
        self._samples = samples
        self._url, self._token = cluster.token(USER)
        self._client = self._connect()
        self._prepare(cluster)

    def _connect(self) -> Client:
        return Client(self._url, self._token)

    def _prepare(self, cluster: Cluster) -> None:
        client = self._client
        client.must("POST", "", X_Account_Meta_Storlet_Enabled="True")
        for container in ("storlet", "dependency", CONTAINER):
            client.must("PUT", f"/{container}")
        client.must("PUT", f"/{CONTAINER}/small", b"x" * SMALL)
        client.must("PUT", f"/{CONTAINER}/large", os.urandom(1 << 20) * (LARGE >> 20))
        self._upload("identity.py", IDENTITY.encode(), "python", "identity.Identity")
        manifest = json.loads((CHECKOUT / "storlets/java_identity/manifest.json").read_text(encoding="utf-8"))
        jar = Path(cluster.description["java_dir"], SAMPLE_JARS, manifest["file"])
        self._upload(jar.name, jar.read_bytes(), "java", manifest["main"])
        python, java, proxy = "identity.py", jar.name, {"X_Storlet_Run_On_Proxy": ""}
        self._treatments = [
            Treatment("python, object node", {"X_Run_Storlet": python}),
            Treatment("java, object node", {"X_Run_Storlet": java}),
            Treatment("python, proxy", {"X_Run_Storlet": python, **proxy}),
            Treatment("java, proxy", {"X_Run_Storlet": java, **proxy}),
        ]

    def _upload(self, name: str, code: bytes, language: str, main: str) -> None:
        meta = {**_META, "X-Object-Meta-Storlet-Language": language, "X-Object-Meta-Storlet-Main": main}
        self._client.must("PUT", f"/storlet/{name}", code, **{k.replace("-", "_"): v for k, v in meta.items()})

    def latency(self) -> list[Row]:
        """GET of 1 KiB, milliseconds, median of a round."""
        rows = [Row(f"GET 1 KiB p50, {t.name}", "ms", is_rate=False) for t in self._treatments]
        for treatment in self._treatments:
            self._get_small(treatment.headers, 20)
        for _ in range(self._rounds):
            plain = self._get_small({}, self._samples)
            for row, treatment in zip(rows, self._treatments, strict=True):
                row.plain.append(plain)
                row.treated.append(self._get_small(treatment.headers, self._samples))
        return rows

    def _get_small(self, headers: dict[str, str], count: int) -> float:
        times = []
        for _ in range(count):
            began = time.perf_counter()
            self._client.must("GET", f"/{CONTAINER}/small", **headers)
            times.append((time.perf_counter() - began) * 1000)
        return statistics.median(times)

    def stream(self) -> list[Row]:
        """GET of 100 MiB, MB/s."""
        return self._rates("GET 100 MiB", lambda headers: ("GET", f"/{CONTAINER}/large", None, headers))

    def put(self) -> list[Row]:
        """PUT of 100 MiB, MB/s."""
        body = b"y" * LARGE
        return self._rates("PUT 100 MiB", lambda headers: ("PUT", f"/{CONTAINER}/put", body, headers), proxy_only=True)

    def copy(self) -> list[Row]:
        """COPY of 100 MiB, MB/s."""
        target = {"Destination": f"{CONTAINER}/copied"}
        return self._rates("COPY 100 MiB", lambda headers: ("COPY", f"/{CONTAINER}/large", None, {**target, **headers}))

    def _rates(self, name: str, request: Callable[[dict[str, str]], Any], *, proxy_only: bool = False) -> list[Row]:
        treatments = [t for t in self._treatments if not proxy_only or "object" in t.name]
        rows = [Row(f"{name}, {t.name}" if not proxy_only else f"{name}, {t.name.split(',')[0]}", "MB/s", is_rate=True)
                for t in treatments]  # fmt: skip
        for _ in range(self._rounds):
            plain = self._rate(*request({}))
            for row, treatment in zip(rows, treatments, strict=True):
                row.plain.append(plain)
                row.treated.append(self._rate(*request(treatment.headers)))
        return rows

    def _rate(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> float:
        began = time.perf_counter()
        self._client.must(method, path, body, **headers)
        return LARGE / (time.perf_counter() - began) / 1e6

    def load(self) -> list[Row]:
        """Requests a second with 16 clients."""
        rows = [Row(f"GET 1 KiB, 16 clients, {t.name}", "1/s", is_rate=True) for t in self._treatments]
        for _ in range(self._rounds):
            plain = self._requests_per_second({})
            for row, treatment in zip(rows, self._treatments, strict=True):
                row.plain.append(plain)
                row.treated.append(self._requests_per_second(treatment.headers))
        return rows

    def _requests_per_second(self, headers: dict[str, str], clients: int = 16, seconds: float = 2.0) -> float:
        until = time.perf_counter() + seconds
        counts = [0] * clients

        def work(index: int) -> None:
            client = self._connect()
            while time.perf_counter() < until:
                client.must("GET", f"/{CONTAINER}/small", **headers)
                counts[index] += 1

        threads = [threading.Thread(target=work, args=(index,)) for index in range(clients)]
        began = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return sum(counts) / (time.perf_counter() - began)

    def first(self) -> list[Row]:
        """First call of a storlet that this node has never seen, in a running sandbox, milliseconds."""
        row = Row("first call of a new storlet, python", "ms", is_rate=False)
        for index in range(self._rounds):
            name = f"fresh{index}.py"
            self._upload(name, IDENTITY.encode(), "python", f"fresh{index}.Identity")
            row.plain.append(self._get_small({}, 10))
            row.treated.append(self._get_small({"X_Run_Storlet": name}, 1))
        return [row]


ROWS: Final = ("latency", "load", "stream", "put", "copy", "first")


def main() -> int:
    """Entry point; returns the exit code."""
    parser = argparse.ArgumentParser(prog="tests.bench", description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--rows", default=",".join(ROWS), help=f"some of {','.join(ROWS)}")
    parser.add_argument("--quick", action="store_true", help="fewer rounds: about a minute")
    parser.add_argument("--json", type=Path, help="write the figures of every round to this file")
    options = parser.parse_args()
    wanted = options.rows.split(",")
    unknown = [row for row in wanted if row not in ROWS]
    if unknown:
        parser.error(f"unknown rows {', '.join(unknown)}: there are {', '.join(ROWS)}")
    home = Path(tempfile.mkdtemp(prefix="storlets-bench-", dir="/var/tmp"))
    try:
        bench = Bench(bring_up(home), rounds=3 if options.quick else 9, samples=100 if options.quick else 300)
        rows: list[Row] = []
        for name in wanted:
            print(f"# {getattr(bench, name).__doc__}", flush=True)
            for row in getattr(bench, name)():
                print(row.line(), flush=True)
                rows.append(row)
        if options.json:
            options.json.write_text(json.dumps([vars(row) for row in rows], indent=1), encoding="utf-8")
    finally:
        Cluster(home, {**os.environ, "STORLETS_HOME": str(home)}).run("down")
        shutil.rmtree(home, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
