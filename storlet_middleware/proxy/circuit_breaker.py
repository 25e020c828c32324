"""Circuit breaker: object nodes that could not run storlets lately are passed over for a while.

After a node has failed before it ran anything, for a reason of its own, the circuit to it is open
for ``[placement] unable_seconds``.  Requests name the node in ``X-Backend-Storlet-Avoid``, and it
refuses at once, so that Swift's proxy server queries the next replica.  Then the circuit is
half-open: one request each :data:`PROBE_SECONDS` does not name the node.  The first success closes
the circuit, and a failure opens it again.

A tenant can break its own sandbox, and such a failure looks like one of the node.  So a circuit
belongs to an account and a node, and one tenant's failures never move another's runs.  Only a node
whose sandboxd does not answer has a circuit for all accounts: no tenant can cause that.

All requests of a proxy process share the circuits.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from storlet_middleware import metrics
from storlet_middleware.concurrency import monotonic
from storlet_middleware.errors import StorletError
from storlet_middleware.recon import ReconCache

#: Interval of the probes of a half-open circuit.
PROBE_SECONDS: Final = 1.0
#: The account of a circuit for all accounts.
ALL: Final = ""
#: Accounts with open circuits that a process remembers; the least recently failed is forgotten.
MAX_ACCOUNTS: Final = 1000
#: Nodes that an account's requests avoid: their names have to fit into a header.
MAX_NODES: Final = 32


@dataclass
class _Circuit:
    """One circuit that is not closed; ``retry_at`` is the time of the next probe."""

    retry_at: float
    code: str


class CircuitBreaker:
    """One per proxy process.

    :param seconds: ``[placement] unable_seconds``; 0: no node is ever passed over.
    """

    def __init__(self, seconds: float, logger: Any, recon: ReconCache) -> None:
        self._seconds = seconds
        self._logger = logger
        self._recon = recon
        self._circuits: OrderedDict[str, dict[str, _Circuit]] = OrderedDict()

    def avoided(self, account: str) -> set[str]:
        """The nodes that a request of ``account`` passes over; it may be the probe of others."""
        found = set()
        now = monotonic()
        for owner in (ALL, account):
            for node, circuit in self._circuits.get(owner, {}).items():
                if now < circuit.retry_at:
                    found.add(node)
                else:
                    circuit.retry_at = now + PROBE_SECONDS
        return found

    def record_failure(
        self, node: str, account: str, error: StorletError, *, is_of_whole_node: bool
    ) -> None:
        """Open the circuit: ``node`` failed before it ran anything, for a reason of its own."""
        if not self._seconds:
            return
        owner = ALL if is_of_whole_node else account
        circuits = self._circuits.setdefault(owner, {})
        self._circuits.move_to_end(owner)
        is_new = node not in circuits
        circuits[node] = _Circuit(monotonic() + self._seconds, error.code)
        while len(circuits) > MAX_NODES:
            del circuits[next(iter(circuits))]
        while len(self._circuits) > MAX_ACCOUNTS:
            self._circuits.popitem(last=False)
        if is_new:
            metrics.node_avoided(self._logger)
            self._logger.warning(
                "object node avoided node=%s account=%s code=%s seconds=%g why=%s",
                node,
                quote(owner) or "all",
                error.code,
                self._seconds,
                error,
            )
            self._publish()

    def record_success(self, node: str, account: str) -> None:
        """Close the circuit: ``node`` has run a storlet of ``account``."""
        has_closed = False
        for owner in (ALL, account):
            circuits = self._circuits.get(owner)
            if circuits is not None and circuits.pop(node, None) is not None:
                has_closed = True
                if not circuits:
                    del self._circuits[owner]
        if has_closed:
            self._logger.info("object node used again node=%s account=%s", node, quote(account))
            self._publish()

    def _publish(self) -> None:
        """Write the nodes that are avoided, each with its accounts and the last error code."""
        nodes: dict[str, Any] = {}
        for owner, circuits in self._circuits.items():
            for node, circuit in circuits.items():
                known = nodes.setdefault(node, {"accounts": 0, "all_accounts": False})
                known["code"] = circuit.code
                known["accounts"] += owner != ALL
                known["all_accounts"] = known["all_accounts"] or owner == ALL
        self._recon.write({"storlet_nodes_avoided": nodes})
