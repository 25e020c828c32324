"""Plain traffic at a steady rate beside a load, as the users of other accounts see it.

Requests begin when it is their time, whatever became of those before (an open loop), and a response
time counts from then: also while it waits because all connections are busy.
"""

from __future__ import annotations

import threading
import time
from itertools import count
from typing import Final, Self

from tests.bench.http import BadAnswer, Connection, Request, open_tcp
from tests.bench.site import CONTAINER, Account

RATE: Final = 30
_BYTES: Final = 10_000
#: At most so many at a time; the more, the sooner a request goes out that finds the others slow.
_CONNECTIONS: Final = 20


class Background:
    """GET and PUT of 10 KB in turn; use with ``with`` for as long as it is to last.

    ``latencies`` are seconds by method, ``errors`` what went wrong.
    """

    def __init__(self, account: Account) -> None:
        self._account = account
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self.latencies: dict[str, list[float]] = {"GET": [], "PUT": []}
        self.errors: list[str] = []

    @staticmethod
    def get_ready(account: Account) -> None:
        """Make what :class:`Background` reads."""
        account.send("PUT", "")
        account.send("PUT", CONTAINER)
        account.send("PUT", f"{CONTAINER}/read", body=bytes(_BYTES))

    def __enter__(self) -> Self:
        # Beforehand: a proxy that is busy is slow to accept, and users' connections are kept.
        connections = [self._connect() for _ in range(_CONNECTIONS)]
        began = time.perf_counter()
        for number, connection in enumerate(connections):
            thread = threading.Thread(
                target=self._work, args=(number, began, connection), daemon=True
            )
            self._threads.append(thread)
            thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _connect(self) -> Connection:
        return Connection(lambda: open_tcp(self._account.address))

    def _work(self, first: int, began: float, connection: Connection) -> None:
        """Every ``_CONNECTIONS``-th request."""
        for number in count(first, _CONNECTIONS):
            due = began + number / RATE
            if self._stop.wait(max(0.0, due - time.perf_counter())):
                break
            request = self._request(number)
            try:
                connection.exchange(request)
                self.latencies[request.text.partition(" ")[0]].append(time.perf_counter() - due)
            except (BadAnswer, OSError) as error:
                self.errors.append(str(error))
                connection.close()
                connection = self._connect()
        connection.close()

    def _request(self, number: int) -> Request:
        # Of _CONNECTIONS, an even number, each would else only read or only write.
        if (number + number // _CONNECTIONS) % 2:
            return self._account.request(
                "PUT", f"{CONTAINER}/written-{number % _CONNECTIONS}", body=bytes(_BYTES)
            )
        return self._account.request("GET", f"{CONTAINER}/read")
