"""The storlet that most functional tests run; Multitool.java is the Java version.

The parameter ``do`` names the action. If ``count`` names a file of the sandbox, each run first
appends a byte to it, so that a test can count the runs.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import pathlib
import threading
import time
from typing import Any

VERSION = "1"
CHUNK = 256 * 1024


class Multitool:
    """Facts about the run, for tests."""

    def __init__(self, logger: Any) -> None:
        self.logger = logger

    def __call__(self, in_files: list[Any], out_files: list[Any], params: dict[str, str]) -> None:
        self.ins, self.out, self.params = in_files, out_files[0], params
        self.outs = out_files
        if "count" in params:
            with open(f"/tmp/count-{params['count']}", "ab") as file:
                file.write(b"x")
        if "log" in params:
            for _ in range(int(params.get("times", "1"))):
                self.logger.info(params["log"])
        getattr(self, params.get("do", "identity"))()
        if "late" in params:
            self.logger.info(params["late"])

    def _set_metadata(self) -> None:
        self.out.set_metadata({key[4:]: value for key, value in self.params.items() if key.startswith("set-")})

    def identity(self) -> None:
        self._set_metadata()
        for source in self.ins:
            while chunk := source.read(CHUNK):
                self.out.write(chunk)

    def upper(self) -> None:
        self._set_metadata()
        for source in self.ins:
            while chunk := source.read(CHUNK):
                self.out.write(chunk.upper())

    def seek(self) -> None:
        """The size of each input, and the bytes at its ``places``, ``times`` times; a storlet with
        seekable inputs."""
        self._set_metadata()
        for _ in range(int(self.params.get("times", "1"))):
            for source in self.ins:
                pieces = [b"%d" % source.size]
                for place in self.params["places"].split():
                    offset, length = map(int, place.split(","))
                    source.seek(offset if offset >= 0 else source.size + offset)
                    pieces.append(source.read(length))
                self.out.write(b"|".join(pieces) + b"\n")
            self.out.flush()

    def silent(self) -> None:
        """Data without metadata."""
        while chunk := self.ins[0].read(CHUNK):
            self.out.write(chunk)

    def nothing(self) -> None:
        """Neither metadata nor data."""

    def spread(self) -> None:
        """Number, input and ``bytes`` more bytes into each output, from the last to the first; a
        pause before the first and at the end; then fail if ``how`` is given."""
        data = self.ins[0].read()
        for number in reversed(range(len(self.outs))):
            if number == 0:
                time.sleep(float(self.params.get("before", "0")))
            self.outs[number].set_metadata({"Content-Type": f"text/x-{number}", "Number": str(number)})
            self.outs[number].write(b"%d:" % number + data + b"x" * int(self.params.get("bytes", "0")))
            self.outs[number].flush()
        time.sleep(float(self.params.get("pause", "0")))
        if "how" in self.params:
            self.fail()

    def describe(self) -> None:
        """The facts of the run, one ``key=value`` a line; values in hexadecimal."""
        lines = [("inputs", str(len(self.ins)))]
        for number, source in enumerate(self.ins):
            digest, size = hashlib.md5(), 0
            for key, value in source.get_metadata().items():
                lines.append((f"input.{number}.meta.{key.lower()}", value))
            while chunk := source.read(CHUNK):
                digest.update(chunk)
                size += len(chunk)
            lines += [(f"input.{number}.bytes", str(size)), (f"input.{number}.md5", digest.hexdigest())]
        lines += [(f"param.{key}", value) for key, value in self.params.items()]
        self._set_metadata()
        self.out.write("".join(f"{key}={value.encode().hex()}\n" for key, value in lines).encode())

    def fail(self) -> None:
        """Write ``after`` bytes, then fail in the way that ``how`` names."""
        after = int(self.params.get("after", "0"))
        if after:
            self._set_metadata()
            self.out.write(b"x" * after)
            time.sleep(float(self.params.get("pause", "0")))
        how = self.params.get("how", "raise")
        if how == "exit":
            os._exit(0)
        raise RuntimeError("fails on purpose: " + self.params.get("word", "-"))

    def counted(self) -> None:
        """The count of ``of``."""
        path = pathlib.Path(f"/tmp/count-{self.params['of']}")
        self.out.write(str(path.stat().st_size if path.exists() else 0).encode())

    def slow(self) -> None:
        """Sleep, then write ``pieces`` pieces with a pause after each."""
        time.sleep(float(self.params.get("before", "0")))
        self._set_metadata()
        for number in range(int(self.params.get("pieces", "1"))):
            self.out.write(f"{VERSION}:{number}\n".encode())
            time.sleep(float(self.params.get("pause", "0")))

    def version(self) -> None:
        self.out.write(VERSION.encode())

    def dependency(self) -> None:
        """The content of a dependency."""
        self.out.write((pathlib.Path(self.params["storlet_execution_path"]) / self.params["file"]).read_bytes())

    def code(self) -> None:
        """A value that a function of a dependency returns."""
        self.out.write(str(importlib.import_module(self.params["name"]).Helper()).encode())

    def flood(self) -> None:
        """``bytes`` bytes of output, in a pattern that makes missing parts detectable."""
        block = bytes(range(256)) * 1024
        left = int(self.params["bytes"])
        while left:
            self.out.write(block[:left])
            left -= min(left, len(block))

    def hoard(self) -> None:
        """Allocate and write ``bytes`` bytes of memory."""
        held = bytearray(int(self.params["bytes"]))
        held[::4096] = b"x" * len(held[::4096])
        self.out.write(b"had room")

    def burn(self) -> None:
        """``seconds`` of CPU time."""
        until = time.process_time() + float(self.params["seconds"])
        while time.process_time() < until:
            pass
        self.out.write(b"burnt")

    def threads(self) -> None:
        """``count`` threads at the same time."""
        done = threading.Event()
        started: list[threading.Thread] = []
        try:
            for _ in range(int(self.params["count"])):
                thread = threading.Thread(target=done.wait)
                thread.start()
                started.append(thread)
        finally:
            done.set()
            for thread in started:
                thread.join()
        self.out.write(b"had room")

    def files(self) -> None:
        """``count`` open files."""
        held = [open("/dev/null", "rb") for _ in range(int(self.params["count"]))]
        for file in held:
            file.close()
        self.out.write(b"had room")

    def fill(self) -> None:
        """Write a file of ``bytes`` bytes in /tmp, then delete it."""
        path = pathlib.Path(f"/tmp/fill-{os.getpid()}")
        try:
            with path.open("wb") as file:
                for _ in range(int(self.params["bytes"]) // 65536):
                    file.write(bytes(65536))
        finally:
            path.unlink()
        self.out.write(b"had room")
