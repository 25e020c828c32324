"""Reports of a worker to its supervisor (``PROTOCOL.rst``, section 3)."""

from __future__ import annotations

from storlet_daemon.protocol.values import dataclass

from .fields import Kinds, Message, kinds_of, read_flag, read_text, wire


@dataclass(frozen=True)
class Ready(Message):
    """The code is loaded; the worker accepts connections from now on."""

    TYPE = "ready"


@dataclass(frozen=True)
class LoadFailed(Message):
    """The code could not be loaded; the worker answers every invocation with this."""

    TYPE = "load_failed"

    message: str = wire(read_text)
    traceback: str | None = wire(read_text, default=None)


@dataclass(frozen=True)
class Begin(Message):
    """The worker has received an invocation; the descriptor is a duplicate of its connection."""

    TYPE = "begin"
    DESCRIPTORS = 1


@dataclass(frozen=True)
class End(Message):
    """The invocation is over, except for a ``done`` that is still to be sent.

    After ``recycle`` the worker process exits by itself.
    """

    TYPE = "end"

    recycle: bool = wire(read_flag, default=False)
    failed: bool = wire(read_flag, default=False)


WORKER_REPORTS: Kinds = kinds_of(Ready, LoadFailed, Begin, End)
