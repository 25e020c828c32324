"""MD5 and SHA-256 of an object, in one thread or in two.

The benchmark's client uses the same class on a GET.
"""

from __future__ import annotations

import hashlib
import queue
import threading
from typing import Any

CHUNK_BYTES = 1024 * 1024
_AHEAD = 8


class Hashes:
    """Both hashes of a stream of bytes; with two ``threads`` each hash has its thread."""

    def __init__(self, threads: int) -> None:
        self._hashes = (hashlib.md5(usedforsecurity=False), hashlib.sha256())
        self._queues: list[queue.Queue[bytes]] = []
        self._threads: list[threading.Thread] = []
        for digest in self._hashes if threads > 1 else ():
            pieces: queue.Queue[bytes] = queue.Queue(_AHEAD)
            thread = threading.Thread(target=self._work, args=(digest, pieces), daemon=True)
            thread.start()
            self._queues.append(pieces)
            self._threads.append(thread)

    @staticmethod
    def _work(digest: Any, pieces: queue.Queue[bytes]) -> None:
        while piece := pieces.get():
            digest.update(piece)

    def feed(self, data: bytes) -> None:
        """Hash ``data``; with threads the caller must not change it afterwards."""
        if self._queues:
            for pieces in self._queues:
                pieces.put(data)
        else:
            for digest in self._hashes:
                digest.update(data)

    def finish(self) -> str:
        """Both as hexadecimal digits, with a space between them."""
        for pieces in self._queues:
            pieces.put(b"")
        for thread in self._threads:
            thread.join()
        return " ".join(digest.hexdigest() for digest in self._hashes)


class Fixity:
    """The storlet."""

    def __init__(self, logger: Any) -> None:
        self.logger = logger

    def __call__(self, in_files: list[Any], out_files: list[Any], params: dict[str, str]) -> None:
        source, target = in_files[0], out_files[0]
        target.set_metadata({})
        hashes = Hashes(int(params.get("threads", "2")))
        while data := source.read(CHUNK_BYTES):
            hashes.feed(data)
        target.write(hashes.finish().encode())
