"""The amount of measurement: a full run of 20 minutes, or a quick one of three."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Plan:
    """Numbers of samples of one run of the benchmark."""

    name: str
    #: Of each treatment, for requests of milliseconds.
    small: int
    #: The same for the row ``latency``, whose 99th percentiles need more samples.
    latency: int
    #: For transfers of 100 MiB.
    large: int
    #: Rounds of load, and how long one lasts.
    load_rounds: int
    load_seconds: float
    #: With and without a sandbox, where 3% must be distinguished: transfers of 100 MiB, and many
    #: short rounds of load.
    isolation_large: int
    isolation_rounds: int
    isolation_seconds: float
    #: First calls of tenants and of storlets.
    first: int
    #: Restarts with the filter on either side (a multiple of four is balanced), and pairs of PUTs
    #: after each.
    traffic_swaps: int
    traffic_small: int
    traffic_large: int
    #: Complete scans of an object, and the size of objects and tables that storlets read whole.
    scans: int
    scan_bytes: int
    #: Objects of a distribution, and the number of distributions.
    objects: int
    distributions: int
    #: Objects of one line in a distribution.
    tiny_objects: int
    #: Objects of a query over many of them, and the size of one.
    many_objects: int
    many_bytes: int
    #: Work on slow disks over several nodes: seconds that one node takes for it.
    scaling_seconds: int
    #: Tenants that call in sequence, and the node's maximum number of sandboxes.
    tenants: int
    sandboxes: int
    #: IBM's study: rounds over all points, how long one lasts, and the points: bytes of an object,
    #: numbers of clients.
    study_rounds: int
    study_seconds: float
    study_points: tuple[tuple[int, tuple[int, ...]], ...]


_GIB: Final = 1 << 30
_MANY: Final = (1, 10, 50, 200)
_FEW: Final = (1, 5, 20)

FULL: Final = Plan(
    "full", small=600, latency=1800, large=10, load_rounds=5, load_seconds=2.0, isolation_large=330, isolation_rounds=40,
    isolation_seconds=0.5, first=10, traffic_swaps=12, traffic_small=300, traffic_large=4, scans=5, scan_bytes=_GIB, objects=1000, distributions=5, tiny_objects=10_000, many_objects=64, many_bytes=17 << 20, scaling_seconds=16, tenants=200, sandboxes=32, study_rounds=3, study_seconds=0.5,
    study_points=(
        (1_000, _MANY), (10_000, _MANY), (100_000, _MANY), (5_000_000, _FEW), (20_000_000, _FEW), (100_000_000, _FEW)
    ),
)  # fmt: skip
QUICK: Final = Plan(
    "quick", small=100, latency=100, large=3, load_rounds=2, load_seconds=1.0, isolation_large=30, isolation_rounds=4,
    isolation_seconds=0.5, first=3, traffic_swaps=2, traffic_small=100, traffic_large=2, scans=2, scan_bytes=_GIB // 4, objects=100, distributions=2, tiny_objects=1000, many_objects=8, many_bytes=4 << 20, scaling_seconds=4, tenants=30, sandboxes=15, study_rounds=1, study_seconds=0.5,
    study_points=((10_000, (1, 200)), (20_000_000, (1, 20))),
)  # fmt: skip
