"""Many concurrent clients in one thread; each sends its next request after the last response (a
closed loop)."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from tests.bench.http import Address, Answer, BadAnswer, Request, open_tcp

_RECEIVE_BYTES = 1 << 16


@dataclass
class Crowded:
    """The measurements of a crowd."""

    seconds: float = 0.0
    answers: int = 0
    errors: list[str] = field(default_factory=list)
    latencies: list[float] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Responses a second."""
        return self.answers / self.seconds


class Reader(Protocol):
    """A client's processing of a response body; its time counts as part of the request."""

    def feed(self, data: memoryview) -> object: ...

    def finish(self) -> object: ...


class Unread:
    """Nothing."""

    def feed(self, data: memoryview) -> None: ...

    def finish(self) -> None: ...


class _Member:
    """One client of the crowd."""

    def __init__(self, address: Address, make_reader: Callable[[], Reader]) -> None:
        self.socket = open_tcp(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.answer = Answer()
        self.began = 0.0
        self._make_reader = make_reader
        self._reader = make_reader()

    def send_request(self, request: Request) -> None:
        self._reader = self._make_reader()
        self.answer = Answer(self._reader.feed)
        self.began = time.perf_counter()
        self.socket.sendall(request.head)

    def receive(self) -> bool:
        """Receive the available bytes; return True if the response is complete."""
        data = self.socket.recv(_RECEIVE_BYTES)
        if not data:
            raise BadAnswer("the connection ended")
        is_whole = self.answer.feed(memoryview(data))
        if is_whole:
            self._reader.finish()
        return is_whole


class Crowd:
    """``clients`` open connections to one server, kept over several :meth:`run`."""

    def __init__(
        self, address: Address, clients: int, make_reader: Callable[[], Reader] = Unread
    ) -> None:
        self._address = address
        self._make_reader = make_reader
        self._poll = select.epoll()
        self._members: dict[int, _Member] = {}
        for _ in range(clients):
            self._join()

    def _join(self) -> _Member:
        member = _Member(self._address, self._make_reader)
        self._members[member.socket.fileno()] = member
        self._poll.register(member.socket, select.EPOLLIN)
        return member

    def run(self, request: Request, seconds: float) -> Crowded:
        """Run a load for ``seconds``; each client then waits for the response to its last
        request."""
        seen = Crowded()
        began = time.perf_counter()
        until = began + seconds
        for member in list(self._members.values()):
            member.send_request(request)
        busy = len(self._members)
        while busy:
            for number, _ in self._poll.poll():
                member = self._members[number]
                try:
                    if not member.receive():
                        continue
                    self._count(seen, member, request)
                except (BadAnswer, OSError) as error:
                    seen.errors.append(str(error))
                    member = self._replace(number)
                if time.perf_counter() < until:
                    member.send_request(request)
                else:
                    busy -= 1
        seen.seconds = time.perf_counter() - began
        return seen

    @staticmethod
    def _count(seen: Crowded, member: _Member, request: Request) -> None:
        seen.latencies.append(time.perf_counter() - member.began)
        if member.answer.status // 100 == 2:
            seen.answers += 1
        else:
            seen.errors.append(f"{request.text}: {member.answer.status}")

    def _replace(self, number: int) -> _Member:
        self._members.pop(number).socket.close()
        return self._join()

    def close(self) -> None:
        for member in self._members.values():
            member.socket.close()
        self._poll.close()
