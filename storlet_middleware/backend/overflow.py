"""Modes of a node without a free slot: ``[placement] overflow``."""

from __future__ import annotations

from typing import Final

#: Queue it.
NONE: Final = "none"
#: Refuse it, so that Swift's proxy server tries another replica.
REPLICA: Final = "replica"
#: Answer with the plain data, so that the storlet runs at the proxy.
PROXY: Final = "proxy"
