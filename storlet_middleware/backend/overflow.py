"""What a full object node may do with an invocation in place of queueing it: ``[placement] overflow``."""

from __future__ import annotations

from typing import Final

#: Queue it.
NONE: Final = "none"
#: Refuse it, so that Swift's proxy asks another replica.
REPLICA: Final = "replica"
#: Answer with the plain data, so that the storlet runs at the proxy.
PROXY: Final = "proxy"
