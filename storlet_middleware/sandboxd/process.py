"""Process 1 of a sandbox, killed by us: its memory is free a millisecond later, while Docker takes 50 to remove a container.

The kernel kills every other process of the sandbox with it, and says that it has ended when all of them have.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable


def kill(pid: int, is_alive: Callable[[], bool], on_end: Callable[[], None]) -> None:
    """Kill process ``pid`` and call ``on_end`` when it has ended; raises :class:`OSError`.

    ``is_alive`` says whether the sandbox that had this pid still lives: asked when the process can no more be taken for
    another one.
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
