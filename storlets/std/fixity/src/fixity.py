"""Digests of an object: several in one pass, and compared with expected ones.

Each digest has a thread.  ``hashlib`` and ``zlib`` release Python's global lock while they work on
a block, so several digests take the time of the slowest one where there are CPUs for them.  The
main thread reads the next block meanwhile; two buffers are all the memory that is needed.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
import zlib
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

import digest_manifest
import packages
from refusal import Refusal

BLOCK_BYTES = 1 << 20
HASHES = ("md5", "sha1", "sha256", "sha512", "blake2b")
#: Each algorithm with the number of hexadecimal digits of its digest.
DIGITS = {**digest_manifest.DIGITS, "crc32": 8, "crc32c": 8}
HEXADECIMAL = re.compile(r"[0-9a-f]+")


class FixityError(Refusal):
    """The object is not the expected one."""


class Fixity:
    """See the README for the parameters."""

    def __init__(self, logger: Any) -> None:
        self.logger = logger

    def __call__(self, in_files: list[Any], out_files: list[Any], params: dict[str, str]) -> None:
        source, target = in_files[0], out_files[0]
        expected, names = wanted(params, in_files[1:])
        is_copied = params["output"] == "data"
        target.set_metadata(
            source.get_metadata() if is_copied else {"Content-Type": "application/json"}
        )
        size, found = digests_of(source, names, target if is_copied else None)
        wrong = [name for name in expected if found[name] != expected[name]]
        if wrong and params["mode"] == "fail":
            raise FixityError(
                "; ".join(f"{name} is {found[name]}, not {expected[name]}" for name in wrong)
            )
        if not is_copied:
            target.write(report(size, found, expected, wrong))


def wanted(params: dict[str, str], manifests: list[Any]) -> tuple[dict[str, str], list[str]]:
    """The expected digests by algorithm, and all algorithms to compute.

    :param manifests: further inputs: lists of digests, each of which has the object.
    :raises FixityError: with every fault of the parameters and the lists.
    """
    faults: list[str] = []
    names: list[str] = []
    if bool(manifests) != bool(params["path"]):
        faults.append(
            "path: is the object's name in a manifest, which is the second input: want both"
        )
    for name in words(params["algorithms"]):
        if name not in DIGITS:
            faults.append(f"algorithms: {name}: unknown: want some of {', '.join(DIGITS)}")
        names.append(name)
    expected: dict[str, str] = {}
    given = words(params["expected"])
    for lines in manifests if params["path"] else ():
        try:
            found = digest_manifest.expected_of(lines, params["path"], DIGITS, names)
            given.append(":".join(found))
        except digest_manifest.ManifestError as error:
            faults.append(str(error))
    for word in given:
        name, _, digest = word.partition(":")
        if name not in DIGITS:
            faults.append(
                f"expected: {word}: want ALGORITHM:DIGEST with one of {', '.join(DIGITS)}"
            )
        elif len(digest) != DIGITS[name] or not HEXADECIMAL.fullmatch(digest):
            faults.append(f"expected: {word}: {name} has {DIGITS[name]} hexadecimal digits")
        elif expected.get(name, digest) != digest:
            faults.append(f"expected: {name} has two digests")
        expected[name] = digest
    for name in dict.fromkeys([*names, *expected]):
        try:
            if name in DIGITS:
                digest_of(name)
        except packages.PackageError as error:
            faults.append(f"algorithms: {error}")
    if params["mode"] == "fail" and not expected and not manifests:
        faults.append("mode=fail: there is no digest in expected, and no manifest")
    if params["output"] == "data" and params["mode"] != "fail":
        faults.append("output=data: has no report: set mode=fail")
    if faults:
        raise FixityError("; ".join(faults))
    return expected, list(dict.fromkeys([*names, *expected])) or ["sha256"]


def words(text: str) -> list[str]:
    return [word.strip().lower() for word in text.split(",") if word.strip()]


def report(size: int, found: dict[str, str], expected: dict[str, str], wrong: list[str]) -> bytes:
    """The output of the mode ``report``: JSON in one line, so that outputs can be concatenated."""
    facts: dict[str, Any] = {"bytes": size, "digests": found}
    if expected:
        facts |= {"matches": not wrong, "wrong": wrong}
    return json.dumps(facts).encode() + b"\n"


def digests_of(source: Any, names: list[str], copy: Any) -> tuple[int, dict[str, str]]:
    """Size and digests of the input; its data are also written to ``copy``, if there is one."""
    lanes = [Lane(name) for name in names]
    buffers = [memoryview(bytearray(BLOCK_BYTES)) for _ in range(2)]
    size = 0
    try:
        while count := source.readinto(buffers[0]):
            for lane in lanes:
                lane.finish()
            block = buffers[0][:count]
            for lane in lanes:
                lane.begin(block)
            if copy is not None:
                copy.write(block)
            size += count
            # The threads may use this buffer until ``finish``; the next read fills the other one.
            buffers.reverse()
        for lane in lanes:
            lane.finish()
    finally:
        for lane in lanes:
            lane.end()
    return size, {lane.name: lane.digest.hexdigest() for lane in lanes}


class Lane:
    """One digest, which a thread computes.

    A sandbox with a low limit of processes may have no thread for it: then the caller's computes
    it.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.digest = digest_of(name)
        self._blocks: SimpleQueue[Any] = SimpleQueue()
        self._done: SimpleQueue[BaseException | None] = SimpleQueue()
        self._is_busy = False
        self._thread: threading.Thread | None = threading.Thread(target=self._work, daemon=True)
        try:
            self._thread.start()
        except RuntimeError:
            self._thread = None

    def begin(self, block: memoryview) -> None:
        """Add a block, which must not change before :meth:`finish`."""
        if self._thread is None:
            self.digest.update(block)
        else:
            self._blocks.put(block)
            self._is_busy = True

    def finish(self) -> None:
        """Wait until the block is added."""
        if self._is_busy:
            self._is_busy = False
            failure = self._done.get()
            if failure is not None:
                raise failure

    def end(self) -> None:
        """End the thread."""
        if self._thread is not None:
            self._blocks.put(None)
            self._thread.join()

    def _work(self) -> None:
        while (block := self._blocks.get()) is not None:
            try:
                self.digest.update(block)
            except BaseException as error:
                self._done.put(error)
            else:
                self._done.put(None)


def digest_of(name: str) -> Any:
    """A new object with the methods of ``hashlib``'s.

    :raises packages.PackageError: the image does not have the package of the algorithm.
    """
    if name in HASHES:
        return hashlib.new(name, usedforsecurity=False)
    if name == "crc32":
        return Checksum(zlib.crc32)
    package = packages.loaded(name, name)
    return package.blake3() if name == "blake3" else Checksum(package.crc32c)


class Checksum:
    """A checksum of 32 bits with the methods of ``hashlib``'s objects."""

    def __init__(self, function: Callable[[memoryview, int], int]) -> None:
        self._function = function
        self._value = 0

    def update(self, data: memoryview) -> None:
        self._value = self._function(data, self._value)

    def hexdigest(self) -> str:
        return f"{self._value:08x}"
