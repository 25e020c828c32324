"""How sandboxes end: deleted from the table at once, removed by Docker in the background.

The next sandbox of the same key waits for that removal, because its container gets the same name.
Ends in a row are counted per key: see ``backoff``.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Coroutine
from typing import Any

from storlet_middleware import metrics
from storlet_middleware.errors import StorletError
from storlet_middleware.sandboxd.background import Background
from storlet_middleware.sandboxd.docker import LABEL_ACCOUNT, LABEL_KEY, Container
from storlet_middleware.sandboxd.errors import EngineFault, SandboxdFault, SandboxLost
from storlet_middleware.sandboxd.node import Node
from storlet_middleware.sandboxd.pool.backoff import Backoffs
from storlet_middleware.sandboxd.pool.table import Entry, SandboxTable
from storlet_middleware.sandboxd.sandbox.sandbox import Sandbox
from storlet_middleware.sandboxd.wording import shown

log = logging.getLogger("storlet.sandboxd")


class Endings:
    """The removals under way, and the back-offs."""

    def __init__(self, node: Node, table: SandboxTable, background: Background) -> None:
        self._node = node
        self._table = table
        self._background = background
        self._removals: dict[str, asyncio.Task[None]] = {}
        self._has_ended = asyncio.Event()
        self.backoffs = Backoffs()

    # --- the ends ---------------------------------------------------------------------------------

    def lost(self, sandbox: Sandbox, reason: str) -> None:
        """A running sandbox ended by itself."""
        key, account = sandbox.plan.demand.key, sandbox.plan.account
        log.warning(
            "sandbox lost key=%s account=%s seconds=%.1f reason=%s",
            key, shown(account), sandbox.lived_seconds, shown(reason),
        )  # fmt: skip
        metrics.sandbox_lost(self._node.stats)
        self.backoffs.ended(key, sandbox.lived_seconds, reason)
        entry = self._table.get(key)
        if sandbox in self._table.draining:
            self._table.draining.discard(sandbox)
            sandbox.cut()
            self._remove_later(sandbox.container.id or "", sandbox.remove_lost())
        elif entry is not None and entry.sandbox is sandbox:
            self._table.delete(entry)
            self._table.recently_ended.append(key)
            sandbox.cut()
            self._remove_later(key, sandbox.remove_lost())

    def failed(self, entry: Entry, error: SandboxdFault | StorletError, lived: float) -> None:
        """A start or adoption failed after ``lived`` seconds: drop the entry."""
        log.warning(
            "sandbox failed key=%s account=%s reason=%s",
            entry.key, shown(entry.account), shown(error),
        )  # fmt: skip
        metrics.sandbox_failed(self._node.stats)
        if isinstance(error, SandboxLost):
            self.backoffs.ended(entry.key, lived, str(error))
        self.drop(entry)

    def drop(self, entry: Entry) -> None:
        """Delete an entry and end its sandbox."""
        self._table.delete(entry)
        if entry.sandbox is not None:
            entry.sandbox.cut()
            self._remove_later(entry.key, entry.sandbox.remove())

    def retired(self, entry: Entry, sandbox: Sandbox, reason: str) -> None:
        """End the idle sandbox of an entry."""
        log.info(
            "sandbox stopped key=%s account=%s reason=%s", entry.key, shown(entry.account), reason
        )
        self._table.recently_ended.append(entry.key)
        self.drop(entry)

    def end(self, sandbox: Sandbox) -> None:
        """End a sandbox that has no entry."""
        sandbox.cut()
        self._remove_later(sandbox.plan.key, sandbox.remove())

    def drained(self, sandbox: Sandbox) -> None:
        """End a sandbox that has drained."""
        self._table.draining.discard(sandbox)
        sandbox.cut()
        self._remove_later(sandbox.container.id or "", sandbox.remove())

    def remove_stale(self, container: Container) -> None:
        """Remove a container that belongs to no sandbox."""
        account, key = (container.labels.get(name, "") for name in (LABEL_ACCOUNT, LABEL_KEY))
        log.info(
            "stale sandbox removed key=%s account=%s container=%s",
            shown(key), shown(account), container.id[:12],
        )  # fmt: skip
        self._remove_later(key, self._node.removing.call(self._node.engine.remove, container.id))

    # --- removals ---------------------------------------------------------------------------------

    def __len__(self) -> int:
        """The number of removals under way."""
        return len(self._removals)

    @property
    def removals(self) -> set[asyncio.Task[None]]:
        """The removals under way."""
        return set(self._removals.values())

    def is_ending(self, key: str) -> bool:
        """Whether the container of a sandbox key, or of a container id, is being removed."""
        return key in self._removals

    async def wait_for_removal(self, key: str) -> None:
        """Return when no earlier container of a key is being removed."""
        removal = self._removals.get(key)
        if removal is not None:
            await asyncio.wait({removal})

    async def wait_until_at_most(self, count: int) -> None:
        """Return when at most ``count`` removals are under way."""
        while len(self._removals) > count:
            await asyncio.wait(self._removals.values(), return_when=asyncio.FIRST_COMPLETED)

    async def wait_for_end(self, seconds: float) -> None:
        """Return when a removal has ended since the last call, at the latest after ``seconds``."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._has_ended.wait(), seconds)
        self._has_ended.clear()

    def _remove_later(self, key: str, removal: Coroutine[Any, Any, None]) -> None:
        before = self._removals.get(key)

        async def remove() -> None:
            if before is not None:
                await asyncio.wait({before})
            try:
                await removal
            except EngineFault as fault:
                # Its sockets were removed, so it is unused; the sweep or the next start removes it.
                log.warning("sandbox not removed key=%s reason=%s", key, shown(fault))

        task = self._background.start(remove())
        self._removals[key] = task
        task.add_done_callback(lambda done: self._forget(key, done))

    def _forget(self, key: str, removal: asyncio.Task[None]) -> None:
        self._has_ended.set()
        if self._removals.get(key) is removal:
            del self._removals[key]
