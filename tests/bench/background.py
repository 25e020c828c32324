"""Plain traffic at a steady rate beside a load: the traffic of other accounts.

Requests are due at fixed times regardless of earlier ones (an open loop). A response time counts
from the due time, including any wait for a free connection.
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
#: The maximum number of concurrent requests; with more, slow requests delay later ones less.
_CONNECTIONS: Final = 20


class Background:
    """Alternating GET and PUT of 10 KB, for the duration of a ``with`` block.

    ``latencies`` are seconds by method, ``errors`` the texts of failures.
    """

    def __init__(self, account: Account) -> None:
        self._account = account
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self.latencies: dict[str, list[float]] = {"GET": [], "PUT": []}
        self.errors: list[str] = []

    @staticmethod
    def get_ready(account: Account) -> None:
        """Create the objects that :class:`Background` reads."""
        account.send("PUT", "")
        account.send("PUT", CONTAINER)
        account.send("PUT", f"{CONTAINER}/read", body=bytes(_BYTES))

    def __enter__(self) -> Self:
        # Connect in advance: a busy proxy is slow to accept, and users keep connections alive.
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
        """Send every ``_CONNECTIONS``-th request."""
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
        # _CONNECTIONS is even: without this, each connection would only read or only write.
        if (number + number // _CONNECTIONS) % 2:
            return self._account.request(
                "PUT", f"{CONTAINER}/written-{number % _CONNECTIONS}", body=bytes(_BYTES)
            )
        return self._account.request("GET", f"{CONTAINER}/read")
