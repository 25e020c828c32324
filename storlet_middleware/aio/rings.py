"""The rings: three replicas over four devices, two on each object server.

The databases of accounts and containers may have fewer (``STORLETS_DATABASE_REPLICAS``): one server
serves all of them, so each further replica is only one more request for each change.  So may the
objects of the default policy (``STORLETS_OBJECT_REPLICAS``); two are one on each object server.

Run as ``python -m storlet_middleware.aio.rings PLAN`` in the cluster's Python environment, because
it needs Swift.  ``PLAN`` is JSON::

    {"directory": ..., "rings": [{"file": "object", "replicas": 3,
     "devices": [{"device": "d1", "port": 6010, "zone": 1}, ...]}, ...]}

An existing ring keeps its devices, replicas and partitions, and only gets new ports: the data stays
on the disks that the ring names.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from .home import Home

PART_POWER: Final = 8
REPLICAS: Final = 3
DISKS: Final = {"d1": 1, "d2": 1, "d3": 2, "d4": 2}
"""Device name to the number of its object server, which is also its zone."""

DATABASES: Final = ("account", "container")
OBJECTS: Final = "object"
FRAGMENTS: Final = "object-1"
"""The ring of the erasure coding policy, which has as many replicas as an object has fragments."""

FILES: Final = (*DATABASES, OBJECTS, FRAGMENTS)


@dataclass(frozen=True)
class Replicas:
    """Numbers of replicas, each from 1 to the number of disks: of the databases of accounts and
    containers, and of objects of the default policy."""

    databases: int = REPLICAS
    objects: int = REPLICAS

    def of(self, file: str) -> int:
        """The replicas of one of :data:`FILES`."""
        if file in DATABASES:
            return self.databases
        return self.objects if file == OBJECTS else REPLICAS


DEFAULT: Final = Replicas()


def plan(home: Home, replicas: Replicas = DEFAULT) -> dict[str, Any]:
    """The input of :func:`build` for this cluster."""
    return {
        "directory": str(home.real_conf),
        "rings": [
            {"file": file, "replicas": replicas.of(file), "devices": _devices(home, file)}
            for file in FILES
        ],
    }


def build(wanted: Mapping[str, Any]) -> None:
    """Make or update every ring of ``wanted``."""
    for ring in wanted["rings"]:
        _build_one(Path(wanted["directory"]) / f"{ring['file']}.builder", ring)


def _devices(home: Home, file: str) -> list[dict[str, Any]]:
    kind = file.partition("-")[0]
    return [
        {
            "device": name,
            "zone": node,
            "port": home.ports[f"{kind}-{node if kind == 'object' else 1}"],
        }
        for name, node in DISKS.items()
    ]


def _build_one(path: Path, ring: Mapping[str, Any]) -> None:
    from swift.common.ring import RingBuilder  # noqa: PLC0415  (everything else here runs without Swift)

    if path.exists():
        builder = RingBuilder.load(str(path))
    else:
        builder = RingBuilder(PART_POWER, ring["replicas"], 0)
        for device in ring["devices"]:
            builder.add_dev(
                {
                    "region": 1,
                    "ip": "127.0.0.1",
                    "weight": 100.0,
                    "replication_ip": "127.0.0.1",
                    "replication_port": device["port"],
                    "meta": "",
                    **device,
                }
            )
        builder.rebalance(seed="storlets")
    ports = {device["device"]: device["port"] for device in ring["devices"]}
    for device in builder.devs:
        if device:
            device["port"] = device["replication_port"] = ports[device["device"]]
    ring_file = path.with_suffix(".ring.gz")
    new = path.with_name(f".{path.stem}.new")
    # Atomic: after a power failure half a builder would make new rings, which place the data on
    # other disks.
    builder.save(str(new))
    new.replace(path)
    builder.get_ring().save(f"{new}.gz")
    Path(f"{new}.gz").replace(ring_file)
    ring_file.chmod(0o644)


if __name__ == "__main__":
    build(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
