"""Kill process 1 of a sandbox.

Its memory is free a millisecond later, while Docker takes 50 ms to remove a container.  The kernel
kills all other processes of the sandbox with it, and reports its end when all have ended.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable


def kill(pid: int, is_alive: Callable[[], bool], on_end: Callable[[], None]) -> None:
    """Kill process ``pid`` and call ``on_end`` when it has ended; raises :class:`OSError`.

    ``is_alive`` returns whether the sandbox with this pid is alive; it is called once a pidfd pins
    the process, so that a reused pid is noticed.
    """
    loop = asyncio.get_running_loop()
    process = os.pidfd_open(pid)
    try:
        if not is_alive():
            raise ProcessLookupError(pid)
        signal.pidfd_send_signal(process, signal.SIGKILL)
    except OSError:
        os.close(process)
        raise

    def ended() -> None:
        loop.remove_reader(process)
        os.close(process)
        on_end()

    loop.add_reader(process, ended)
