"""The output of a run, for the S3 API's filter: frames with a kind and a length.

A failure of the query is a frame, not a failure of the run, so that it has its code and its text
for every caller.  A run that is cut has no last frame.  ``storlet_middleware/s3select/frames.py``
reads them.
"""

from __future__ import annotations

import json
import struct
import threading
import time
from typing import Any

RECORDS, PROGRESS, STATS, ERROR = b"R", b"P", b"S", b"E"
#: Bound of the data in one frame; S3's clients have a buffer of 128 KiB for a message.
MOST_BYTES = 64 * 1024
_HEAD = struct.Struct(">cI")
_COUNTS = struct.Struct(">QQ")
PROGRESS_SECONDS = 1.0


class Frames:
    """Writes frames; one lock holds for all threads."""

    def __init__(self, target: Any) -> None:
        self._target = target
        self._lock = threading.Lock()
        self._reported = time.monotonic()

    def records(self, data: bytes) -> None:
        """Send data of records, in as many frames as it needs."""
        for at in range(0, len(data), MOST_BYTES):
            self._write(RECORDS, data[at : at + MOST_BYTES])

    def progress(self, scanned: int, processed: int) -> None:
        """Send the bytes read so far, if the last time is a second ago."""
        now = time.monotonic()
        if now - self._reported >= PROGRESS_SECONDS:
            self._reported = now
            self._write(PROGRESS, _COUNTS.pack(scanned, processed))

    def end(self, scanned: int, processed: int) -> None:
        """Send the last frame of a complete result."""
        self._write(STATS, _COUNTS.pack(scanned, processed))

    def error(self, code: str, text: str) -> None:
        """Send the last frame of a query that has failed."""
        self._write(ERROR, json.dumps({"code": code, "text": text[:1000]}).encode())

    def _write(self, kind: bytes, data: bytes) -> None:
        with self._lock:
            self._target.write(_HEAD.pack(kind, len(data)) + data)
