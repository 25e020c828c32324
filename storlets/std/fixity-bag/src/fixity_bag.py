"""A bag of BagIt, which is a folder of objects, compared with its own manifests.

``std:fixity`` computes the digests of each object on a node that has it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import bag_files
from bag_files import MANIFEST, PAYLOAD, BagError, Digests
from parameters import shown
from storlet import services

MOST_OBJECTS = 100_000
MOST_IN_ERROR = 3
INFO = "bag-info.txt"


class FixityBag:
    """See the README for the parameters."""

    def __init__(self, logger: Any) -> None:
        self.logger = logger

    def __call__(self, in_files: list[Any], out_files: list[Any], params: dict[str, str]) -> None:
        container, prefix = params["container"], params["prefix"]
        if not container or "/" in container:
            raise BagError(f"container: {shown(container)}: want the name of a container")
        version = bag_files.version_of(in_files[0])
        bag = Bag(container, prefix if prefix.endswith("/") or not prefix else f"{prefix}/")
        report = Report(bag, version)
        report.compare()
        bag.require_unchanged()
        if report.faults() and params["mode"] == "fail":
            raise BagError(f"the bag is not valid: {report.text()}")
        out_files[0].set_metadata({"Content-Type": "application/json"})
        out_files[0].write(report.line())


class Bag:
    """The objects below a prefix, by their names in the bag."""

    def __init__(self, container: str, prefix: str) -> None:
        self._container = container
        self._prefix = prefix
        self.objects = self._listed()
        if "bagit.txt" not in self.objects:
            raise BagError(
                f"{shown(self.path('bagit.txt'))} does not exist: container and prefix name the bag"
            )

    def path(self, name: str) -> str:
        return f"/{self._container}/{self._prefix}{name}"

    def open(self, name: str) -> Any:
        return services.open(self.path(name))

    def _listed(self) -> dict[str, Any]:
        """The facts of each object that is no mark of a folder."""
        found = {}
        for entry in services.list(self._container, prefix=self._prefix):
            name = entry.name[len(self._prefix) :]
            if name and not (name.endswith("/") and not entry.size):
                found[name] = entry
            if len(found) > MOST_OBJECTS:
                raise BagError(f"the bag has more than {MOST_OBJECTS} objects")
        return found

    def require_unchanged(self) -> None:
        """Raise if the bag has other objects than at the start."""
        now = self._listed()
        changed = [
            name for name in {**self.objects, **now} if self.objects.get(name) != now.get(name)
        ]
        if changed:
            raise BagError(f"the bag changed while it was checked, such as {shown(changed[0])}")


class Report:
    """The faults of a bag.

    :ivar missing: names that a manifest has, and the bag does not.
    :ivar unlisted: objects of the payload that a manifest does not have.
    :ivar wrong: digests that are others than those of the manifests.
    :ivar others: further faults, as text.
    """

    def __init__(self, bag: Bag, version: tuple[int, int]) -> None:
        self._bag = bag
        self._version = version
        self.missing: list[str] = []
        self.unlisted: list[str] = []
        self.wrong: list[dict[str, str]] = []
        self.others: list[str] = []
        self._bytes = 0
        self._checked = 0

    def compare(self) -> None:
        """Compare the whole bag.

        :raises BagError: a manifest is not valid.
        """
        digests, algorithms = self._manifests()
        payload = [name for name in self._bag.objects if name.startswith(PAYLOAD)]
        self.missing = sorted(name for name in digests if name not in self._bag.objects)
        is_each = self._version >= bag_files.COMPLETE_MANIFESTS
        for name in payload:
            listed = digests.get(name, {})
            if not listed or (is_each and len(listed) < len(algorithms)):
                self.unlisted.append(name)
        sizes = {name: self._check(name, digests.get(name, {})) for name in payload}
        for name in digests:
            if name in self._bag.objects and name not in sizes:
                self._check(name, digests[name])
        self._compare_sizes(sum(sizes.values()), len(payload))

    def _manifests(self) -> tuple[Digests, set[str]]:
        """All entries, and the algorithms of the manifests of the payload."""
        digests: Digests = {}
        algorithms = set()
        names = [name for name in self._bag.objects if MANIFEST.fullmatch(name)]
        for name in names:
            with self._bag.open(name) as source:
                bag_files.add_entries(digests, source, name, self._bag.objects)
            if not name.startswith("tag"):
                algorithms.add(bag_files.algorithm_of(name))
        if not algorithms:
            raise BagError("there is no manifest-ALGORITHM.txt beside bagit.txt")
        return digests, algorithms

    def _check(self, name: str, expected: dict[str, str]) -> int:
        """Compare one object; its size in bytes."""
        algorithms = ",".join(expected) or "md5"
        with services.call(
            "std:fixity", self._bag.path(name), {"algorithms": algorithms}
        ) as result:
            facts = json.loads(result.read())
        for algorithm, digest in expected.items():
            if facts["digests"][algorithm] != digest:
                found = facts["digests"][algorithm]
                self.wrong.append(
                    {"path": name, "algorithm": algorithm, "expected": digest, "found": found}
                )
        self._bytes += facts["bytes"]
        self._checked += 1
        return int(facts["bytes"])

    def _compare_sizes(self, size: int, count: int) -> None:
        if INFO not in self._bag.objects:
            return
        with self._bag.open(INFO) as source:
            wanted = bag_files.oxum_of(source)
        if wanted not in (None, (size, count)):
            self.others.append(
                f"{INFO}: Payload-Oxum is {wanted[0]}.{wanted[1]}, and the payload has"
                f" {size}.{count} (bytes.objects)"
            )

    def faults(self) -> list[str]:
        """Each fault in words."""
        return [
            *(f"{shown(name)} is missing" for name in self.missing),
            *(f"{shown(name)} is not in each manifest" for name in self.unlisted),
            *(
                f"{shown(each['path'])}: {each['algorithm']} is {each['found']}, not"
                f" {each['expected']}"
                for each in self.wrong
            ),
            *self.others,
        ]

    def text(self) -> str:
        """The first faults, and the number of the others."""
        faults = self.faults()
        more = f"; and {len(faults) - MOST_IN_ERROR} more" if len(faults) > MOST_IN_ERROR else ""
        return "; ".join(faults[:MOST_IN_ERROR]) + more

    def line(self) -> bytes:
        """JSON in one line."""
        facts = {
            "valid": not self.faults(),
            "objects": self._checked,
            "bytes": self._bytes,
            "missing": self.missing,
            "unlisted": self.unlisted,
            "wrong": self.wrong,
            "faults": self.others,
        }
        return json.dumps(facts, ensure_ascii=False).encode() + b"\n"
