"""One worker process and its state."""

from __future__ import annotations

import enum
import math
import socket
import time
from dataclasses import field

from storlet_daemon.idle import Meter
from storlet_daemon.protocol.values import dataclass


class State(enum.Enum):
    """The state of a worker; see the package."""

    WAITING = enum.auto()
    LOADING = enum.auto()
    IDLE = enum.auto()
    BUSY = enum.auto()
    REFUSING = enum.auto()
    ENDING = enum.auto()


@dataclass(eq=False)
class WorkerProcess:
    """One worker process.

    ``connection`` is the supervisor's duplicate of the running invocation's connection.
    ``ended`` is the connection of the last invocation, kept until the next one begins or the worker
    is known to be quiet: if the worker dies before it sends ``done``, the supervisor sends it.
    ``cancelled`` is the connection whose hang-up made the supervisor stop the process.
    ``taken_at`` is when the supervisor saw that the filter has the running invocation's ``done``.
    ``kill_reason`` is the code and text if the supervisor kills the worker for misbehaviour.
    ``seen`` are the inode numbers of all connections that the worker has reported.
    """

    pid: int
    channel: socket.socket | None
    output: int
    state: State
    deadline: float
    since: float
    connection: socket.socket | None = None
    cancelled: socket.socket | None = None
    ended: socket.socket | None = None
    started_at: float = field(default_factory=time.monotonic)
    is_long: bool = False
    is_watched: bool = False
    taken_at: float = math.inf
    is_retiring: bool = False
    was_killed: bool = False
    has_loaded: bool = False
    loaded_at: float = math.inf
    is_placed: bool = False
    has_failed: bool = False
    runs: int = 0
    load_error: str | None = None
    kill_reason: tuple[str, str] | None = None
    meter: Meter = field(default_factory=Meter)
    seen: set[int] = field(default_factory=set)

    @property
    def may_hold_resources(self) -> bool:
        """True if it is about to exit and may hold all that the storlet's limits allow."""
        return self.state is State.ENDING and (self.has_failed or self.was_killed)

    @property
    def serves(self) -> bool:
        """True if it answers connections, or will."""
        return self.state is not State.ENDING and not self.is_retiring

    def close_ended(self) -> None:
        """Close the connection of the last invocation."""
        if self.ended is not None:
            self.ended.close()
            self.ended = None
