"""The rows, each a module or a function of one; :data:`ROWS` is the table, in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from tests.bench.bench import Bench
from tests.bench.figures import Figure
from tests.bench.rows import driver, first, fixity, isolation, latency, load, memory, scan, stream, tenants, traffic


@dataclass(frozen=True)
class Row:
    """``name`` is what ``ROWS=`` takes; ``is_quick``: also part of ``make bench-quick``."""

    name: str
    title: str
    measure: Callable[[Bench], Iterator[Figure]]
    is_quick: bool = True


ROWS: Final = (
    Row("driver", "what the benchmark's own client costs", driver.measure),
    # First: memory is counted by parts, and sandboxes of other rows would share it.
    Row("memory", "memory of an idle sandbox", memory.measure),
    Row("latency", "GET of 1 KiB through a no-op", latency.measure),
    Row("stream", "GET of 100 MiB through identity", stream.get),
    Row("put", "PUT of 100 MiB through identity", stream.put),
    Row("copy", "COPY of 100 MiB through identity", stream.copy),
    Row("load", "requests a second with 16 and 64 clients", load.measure),
    Row("first", "first calls", first.measure),
    Row("isolation", "the same daemon in a sandbox and without one", isolation.measure, is_quick=False),
    Row("fixity", "MD5 and SHA-256 of 100 MiB", fixity.measure, is_quick=False),
    Row("scan", "a filter that keeps 1% of an object", scan.measure, is_quick=False),
    Row("traffic", "plain requests with the filter in the pipelines", traffic.measure, is_quick=False),
    Row("tenants", "many tenants, few sandboxes", tenants.measure, is_quick=False),
)

NAMES: Final = tuple(row.name for row in ROWS)
