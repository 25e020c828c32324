"""A storlet that uses the store as the parameter ``ask`` says; its output is the outcomes.

``ask`` is a list in JSON: ``["open", "/c/o"]``, ``["seek", "/c/o", [[0, 10], [-5, 5]]]``, ...  The
output is a list of the outcomes: ``["ok", ...]``, or the exception, its code and its text.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import threading
import time
from typing import Any

from storlet import services


#: Repetitions of a text that are written at once.
BLOCK = 1 << 16


def md5(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


class Asker:
    def __init__(self, logger: Any) -> None:
        self.logger = logger

    def __call__(self, in_files: list[Any], out_files: list[Any], params: dict[str, str]) -> None:
        self.output = out_files[0]
        asked = json.loads(params["ask"])
        outcomes = [self.outcome(*each) for each in asked]
        out_files[0].write(json.dumps(outcomes).encode())

    def outcome(self, name: str, *args: Any) -> list[Any]:
        try:
            return ["ok", *getattr(self, f"do_{name}")(*args)]
        except OSError as error:
            return [type(error).__name__, getattr(error, "code", ""), str(error)]

    def do_open(self, path: str, span: list[int] | None = None) -> list[Any]:
        with services.open(path, span) as file:
            data = file.read()
            return [md5(data), file.size, file.etag, file.metadata, data[:100].decode("latin-1")]

    def do_seek(self, path: str, spans: list[list[int]]) -> list[Any]:
        """The bytes at some places, the last ones first where the place is negative."""
        parts = []
        with services.open(path) as file:
            for start, count in spans:
                file.seek(start, 2 if start < 0 else 0)
                parts.append(file.read(count).decode("latin-1"))
        return parts

    def do_replaced(self, path: str, place: int, marker: str) -> list[Any]:
        """Read the start, say so with ``marker``, wait until the object has another length, and
        read at ``place``.
        """
        with services.open(path) as file:
            start = file.read(5)
            services.set_metadata(marker, {"Opened": "yes"})
            while services.stat(path).size == file.size:
                time.sleep(0.05)
            file.seek(place)
            return [start.decode(), file.read(5).decode()]

    def do_raw(self, operation: str, fields: dict[str, Any], times: int = 1) -> list[Any]:
        """Send a message as the library of the language would not."""
        for _ in range(times):
            answer = services._channel.ask(operation, fields)
            if answer.fd >= 0:
                # Else the worker would have the stream until its end, in runs of other tests too.
                os.close(answer.fd)
        return []

    def do_stat(self, path: str) -> list[Any]:
        return [services.stat(path)._asdict()]

    def do_list(self, container: str, **query: Any) -> list[Any]:
        return [[list(entry) for entry in services.list(container, **query)]]

    def do_find(self, container: str, query: dict[str, Any]) -> list[Any]:
        return [[entry.name for entry in services.list(container, **query)]]

    def do_set(self, path: str, changes: dict[str, str | None]) -> list[Any]:
        services.set_metadata(path, changes)
        return []

    def do_set_many(self, path: str, count: int) -> list[Any]:
        """Set an item in each of many threads."""
        threads = [
            threading.Thread(target=services.set_metadata, args=(path, {f"Item-{number}": "x"}))
            for number in range(count)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return []

    def do_copy(self, source: str, target: str) -> list[Any]:
        services.copy(source, target)
        return []

    def do_delete(self, path: str) -> list[Any]:
        services.delete(path)
        return []

    def do_create(
        self, path: str, text: str, options: dict[str, Any] | None = None, times: int = 1
    ) -> list[Any]:
        with services.create(path, **(options or {})) as file:
            for count in [BLOCK] * (times // BLOCK) + [times % BLOCK]:
                file.write(text.encode() * count)
        return []

    def do_create_late(self, path: str, marker: str) -> list[Any]:
        """Create an object, say so with ``marker``, and write when ``marker`` has the item Go."""
        with services.create(path) as file:
            services.set_metadata(marker, {"Created": "yes"})
            while "Go" not in services.stat(marker).metadata:
                time.sleep(0.05)
            file.write(b"late")
        return []

    def do_create_many(self, paths: list[str], text: str) -> list[Any]:
        """Create objects at the same time, a byte of each in turn."""
        files = [services.create(path) for path in paths]
        for byte in text.encode():
            for file in files:
                file.write(bytes([byte]))
                file.flush()
        for file in files:
            file.close()
        return []

    def do_leave(self, path: str, text: str, how: str) -> list[Any]:
        """Create an object, and end without it, or with a part of it."""
        file = services.create(path)
        file.write(text.encode())
        if how == "open":
            self.left = file
        elif how == "discarded":
            file.discard()
        elif how == "closed and discarded":
            file.close()
            file.discard()
        elif how == "exception":
            with file:
                raise OSError("in the block")
        return []

    def do_wait(self, size: int) -> list[Any]:
        """Begin a large output, and wait for the end of the client."""
        while True:
            self.output.write(b"x" * size)

    def do_fail(self) -> list[Any]:
        raise ValueError("on purpose")

    def do_refused(self, path: str, is_discarded: bool) -> list[Any]:
        """Write until the store refuses more."""
        file = services.create(path)
        try:
            while True:
                file.write(b"x" * 65536)
        except services.ServiceError:
            if is_discarded:
                file.discard()
            raise

    def do_hold(self, path: str, count: int) -> list[Any]:
        """Open an object many times and read none of them."""
        files = [services.open(path) for _ in range(count)]
        return [len(files)]

    def do_parts(self, path: str, count: int) -> list[Any]:
        """Read an object in many threads."""
        sums: list[str] = []

        def read() -> None:
            with services.open(path) as file:
                sums.append(md5(file.read()))

        threads = [threading.Thread(target=read) for _ in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return [sorted(set(sums)), len(sums)]

    def do_call(self, storlet: str, path: str, *more: Any) -> list[Any]:
        """Call a storlet with parameters and ranges; its output."""
        with services.call(storlet, path, *more) as result:
            data = result.read()
            text = data[:5000].decode("latin-1")
            return [md5(data), len(data), result.metadata, result.content_type, text]

    def do_call_on(self, storlet: str, data: str, times: int, *more: Any) -> list[Any]:
        """Call a storlet on data, as bytes and as a file; both outputs."""
        whole = data.encode() * times
        found = []
        for source in (whole, io.BytesIO(whole)):
            with services.call(storlet, source, *more) as result:
                output = result.read()
                found += [md5(output), len(output), result.metadata]
        return [*found, output[:5000].decode("latin-1")]

    def do_store_on(self, storlet: str, data: str, output: str, *more: Any) -> list[Any]:
        return [services.call(storlet, data.encode(), *more, output=output)._asdict()]

    def do_cut(self, storlet: str, output: str) -> list[Any]:
        """Be killed while the input of a called storlet is being written."""
        threading.Timer(1.0, os.kill, (os.getpid(), 9)).start()
        reading, _ = os.pipe()
        with os.fdopen(reading, "rb") as never_ends:
            services.call(storlet, never_ends, output=output)
        return []

    def do_broken(self, storlet: str) -> list[Any]:
        """Call a storlet on a file that cannot be read to its end."""

        class Broken(io.RawIOBase):
            def read(self, size: int = -1, /) -> bytes:
                raise FileNotFoundError("the file is broken")

        with services.call(storlet, Broken()) as result:
            return [len(result.read())]

    def do_store(self, storlet: str, path: str, output: str, *more: Any) -> list[Any]:
        """Call a storlet, and store its output."""
        return [services.call(storlet, path, *more, output=output)._asdict()]

    def do_call_many(self, storlet: str, path: str, count: int) -> list[Any]:
        """Call a storlet in many threads; the outcomes."""
        outcomes: list[Any] = []

        def call() -> None:
            outcomes.append(self.outcome("call", storlet, path))

        threads = [threading.Thread(target=call) for _ in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return [outcomes]

    def do_head_of(self, storlet: str, path: str, count: int) -> list[Any]:
        """Read the first bytes of a result, and close it."""
        with services.call(storlet, path, {"do": "flood", "bytes": "50000000"}) as result:
            return [len(result.read(count))]

    # hostile uses of the socket

    def do_lie(self, path: str) -> list[Any]:
        """Report another number of bytes than were written."""
        file = services.create(path)
        file.write(b"abc")
        file.flush()
        services._channel.ask("close", {"file": file._sent._id, "bytes": 2})
        return []

    def do_die_creating(self, path: str, times: int) -> list[Any]:
        """Be killed while an object is being created."""
        file = services.create(path)
        for _ in range(times):
            file.write(b"x" * 65536)
        os.kill(os.getpid(), 9)
        return []

    def do_garbage(self) -> list[Any]:
        services._channel._socket.send(b"garbage")
        # The run is ended here; the test waits for the end, not for this time.
        time.sleep(60)
        return []

    def do_flood(self, path: str) -> list[Any]:
        """Send requests, and read no reply."""
        channel = services._channel
        while True:
            channel._send("stat", {"path": path})

    def do_flood_calls(self, storlet: str, path: str) -> list[Any]:
        """Call a storlet, and read no reply."""
        channel = services._channel
        while True:
            channel._send("call", {"storlet": storlet, "path": path})

    def do_die(self, path: str) -> list[Any]:
        """Be killed while a file is open."""
        file = services.open(path)
        file.read(1)
        os.kill(os.getpid(), 9)
        return []
