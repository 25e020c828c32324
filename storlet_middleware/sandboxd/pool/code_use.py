"""Which code is in use, so that ``code_space`` can evict the rest."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from storlet_middleware import metrics
from storlet_middleware.sandboxd.background import Background
from storlet_middleware.sandboxd.directories.code_space import CodeSpace
from storlet_middleware.sandboxd.node import Node
from storlet_middleware.sandboxd.pool.adoption import Adoption
from storlet_middleware.sandboxd.pool.table import SandboxTable

#: Delay from the load of new code to the eviction of old code: new code comes in bursts.
EVICT_AFTER_SECONDS: Final = 2.0


class CodeUse:
    """Code being loaded, and code of the sandboxes in the table."""

    def __init__(
        self, node: Node, table: SandboxTable, adoption: Adoption, background: Background
    ) -> None:
        limit = node.config.sandbox.code_cache_bytes
        self._space = CodeSpace(node.paths.code.root, limit, node.threads)
        self._stats = node.stats
        self._table = table
        self._adoption = adoption
        self._background = background
        self._loading: Counter[Path] = Counter()
        self._evicting: asyncio.Task[None] | None = None

    @contextlib.contextmanager
    def loading(self, path: Path) -> Iterator[None]:
        """Keep the code of a storlet version during the block."""
        self._loading[path] += 1
        if self._space.note_use(path):
            self.evict_after(EVICT_AFTER_SECONDS)
        try:
            yield
        finally:
            self._loading[path] -= 1
            if not self._loading[path]:
                del self._loading[path]

    def evict_after(self, seconds: float) -> None:
        """Evict unused code in the background, unless that is planned already."""
        if self._evicting is None or self._evicting.done():
            self._evicting = self._background.start(self._evict(seconds))

    async def _evict(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await self._adoption.done()  # before that, the running sandboxes are not known
        count = await self._space.evict(self._in_use)
        if count:
            metrics.cache_evicted(self._stats, count)

    def _in_use(self) -> set[Path]:
        sandboxes = self._table.sandboxes()
        return set(self._loading).union(*(sandbox.code_in_use() for sandbox in sandboxes))
