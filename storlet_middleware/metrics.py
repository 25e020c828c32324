"""Every StatsD name, once; Swift prefixes them with the server's name.

================================ ===== ============================================================
name                             kind  meaning
================================ ===== ============================================================
``storlet.<verb>.<code>.timing`` timer an invocation, from request to last byte; code is ``ok`` or
                                       the error code with ``.`` as ``-``
``storlet.<verb>.first-byte``    timer from request to the storlet's first byte or end
``storlet.<verb>.xfer``          count bytes of output
``storlet.admission.waited``     count invocations that were let in after they had waited for the node
``storlet.admission.refused``    count invocations that were not, because they waited too long or too many did
================================ ===== ============================================================
"""

from __future__ import annotations

from typing import Any


def invocation(logger: Any, verb: str, code: str, seconds: float, first_byte_seconds: float, bytes_out: int) -> None:
    """Report one invocation to StatsD."""
    logger.timing(f"storlet.{verb}.{code.replace('.', '-')}.timing", seconds * 1000)
    logger.timing(f"storlet.{verb}.first-byte", first_byte_seconds * 1000)
    logger.update_stats(f"storlet.{verb}.xfer", bytes_out)


def admission(logger: Any, outcome: str) -> None:
    """Count an invocation that could not run at once on this node: ``waited`` or ``refused``."""
    logger.increment(f"storlet.admission.{outcome}")
