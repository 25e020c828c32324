"""The table of the node's sandboxes: one entry per sandbox key in use, and those that drain.

An entry owns the one task that starts or adopts its sandbox, so all callers wait for the same
start.  When the sandbox is lost, retired or fails to start, its entry is deleted at once, and a
background task removes the container (``endings``).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from storlet_middleware.sandboxd.plan import Demand
from storlet_middleware.sandboxd.sandbox.sandbox import Sandbox, State


@dataclass(eq=False)
class Entry:
    """A sandbox key in use; ``task`` returns the running sandbox."""

    demand: Demand
    task: asyncio.Task[Sandbox] = field(init=False)
    sandbox: Sandbox | None = None

    @property
    def key(self) -> str:
        """The key of its sandbox."""
        return self.demand.key

    @property
    def account(self) -> str:
        """The tenant's account."""
        return self.demand.account


class SandboxTable:
    """State only; lives in the loop."""

    def __init__(self, recent_max: int) -> None:
        self.entries: dict[str, Entry] = {}
        #: Outdated sandboxes that finish their invocations beside their replacements.
        self.draining: set[Sandbox] = set()
        #: Keys of sandboxes that ended recently, for any reason.
        self.recently_ended: deque[str] = deque(maxlen=recent_max)

    def __len__(self) -> int:
        return len(self.entries) + len(self.draining)

    def get(self, key: str) -> Entry | None:
        """The entry of a key."""
        return self.entries.get(key)

    def add(self, demand: Demand) -> Entry:
        """Make the entry of a demand; the caller must set its task."""
        entry = self.entries[demand.key] = Entry(demand)
        return entry

    def has(self, entry: Entry) -> bool:
        """Whether this very entry is current."""
        return self.entries.get(entry.key) is entry

    def delete(self, entry: Entry) -> None:
        """Delete an entry, if it is current."""
        if self.has(entry):
            del self.entries[entry.key]

    def running(self) -> list[Entry]:
        """Entries whose sandbox runs."""
        return [
            entry
            for entry in self.entries.values()
            if entry.sandbox is not None and entry.sandbox.state is State.RUNNING
        ]

    def sandboxes(self) -> Iterator[Sandbox]:
        """All sandboxes of tenants: of entries, and those that drain."""
        yield from self.draining
        for entry in self.entries.values():
            if entry.sandbox is not None:
                yield entry.sandbox
