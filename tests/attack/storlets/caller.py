"""A storlet that calls others without end; the parameter ``do`` names the attack."""

from __future__ import annotations

import ctypes
import socket
import threading
import time
from typing import Any

from storlet import services

THREADS = 12
#: ETags that no header can have; the last two are of another kind.
ODD = ("a\nb", "a\r\nX-Backend-Replication: true", "\u6f22", "\x85", "*")
PR_SET_NAME = 15


class Caller:
    def __init__(self, logger: Any) -> None:
        self.logger = logger

    def __call__(self, in_files: list[Any], out_files: list[Any], params: dict[str, str]) -> None:
        ctypes.CDLL(None).prctl(PR_SET_NAME, params["key"].encode(), 0, 0, 0)
        self.params = params
        self.sources = in_files
        self.others = params["others"].split(",")
        getattr(self, params["do"])()

    def tree(self) -> None:
        """Call all others from many threads; each does the same."""
        threads = [threading.Thread(target=self.branch, args=(n,)) for n in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def branch(self, number: int) -> None:
        while True:
            try:
                name = self.others[number % len(self.others)]
                with services.call(name, self.params["on"], self.params_of_call()) as result:
                    result.read()
            except OSError:
                pass
            number += 1

    def params_of_call(self) -> dict[str, str]:
        return {key: self.params[key] for key in ("do", "key", "others", "on")}

    def flood(self) -> None:
        """Send calls, and read no reply."""
        channel = services._channel
        while True:
            channel._send("call", {"storlet": "std:nop", "path": self.params["on"]})

    def hoard(self) -> None:
        """Open results, and read none of them."""
        results = []
        while True:
            try:
                results.append(services.call("std:nop", self.params["on"]))
            except OSError:
                self.branch(0)

    def single_bytes(self) -> None:
        """Call a storlet on single bytes, of which it reads none."""
        params = {**self.params_of_call(), "do": "deaf"}
        answer = services._channel.ask("call", {"storlet": self.others[1], "parameters": params})
        frames = ((1).to_bytes(4, "big") + b"x") * 10_000
        with socket.socket(fileno=answer.fd) as fed:
            while True:
                fed.sendall(frames)

    def deaf(self) -> None:
        self.sources[0].close()
        time.sleep(60)  # longer than its deadline, which ends it

    def odd_headers(self) -> None:
        """Make requests whose headers HTTP cannot carry, then wait for the deadline."""
        for number in range(200):
            fields = {"path": self.params["on"], "etag": ODD[number % len(ODD)]}
            try:
                services._channel.ask("open", fields)
            except OSError:
                pass
        time.sleep(60)  # longer than its deadline, which ends it
