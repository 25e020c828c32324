"""The description of an invocation: its inputs, parameters, deadlines and limits.  Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from storlet_daemon.protocol import messages
from storlet_middleware.engine.feed import Source
from storlet_middleware.engine.reads import RandomSource


@dataclass(frozen=True)
class FileInput:
    """A regular file.  The caller owns ``fd`` and keeps it open until the invocation is closed.

    ``fd`` must be open for reading only, because the storlet gets it.
    ``first`` and ``last`` are inclusive offsets; ``None`` is the start or the end of the file.
    ``size`` is given for a file in which the storlet seeks.
    """

    fd: int
    metadata: Mapping[str, str]
    first: int | None = None
    last: int | None = None
    size: int | None = None


@dataclass(frozen=True)
class StreamInput:
    """A source that the invocation reads and closes.

    ``drains``: read it to its end in any case.  ``is_ours``: no connection of a client or a server
    depends on it, so a read may be interrupted.
    """

    source: Source
    metadata: Mapping[str, str]
    drains: bool = False
    is_ours: bool = False


@dataclass(frozen=True)
class SeekableInput:
    """A source in which the storlet seeks; the invocation reads what the storlet requests, and
    closes it.
    """

    source: RandomSource
    metadata: Mapping[str, str]


#: Any input of an invocation.
Input = FileInput | StreamInput | SeekableInput


@dataclass(frozen=True)
class Deadlines:
    """Seconds; :mod:`storlet_middleware.engine.progress` defines the time that counts."""

    queue: float
    first_byte: float
    idle: float
    total: float


@dataclass(frozen=True)
class ServiceLimits:
    """The bounds of a run's use of the store; 0 in ``bytes`` is no limit.

    ``rate`` is in operations per second.
    """

    operations: int = 10_000
    rate: int = 200
    concurrency: int = 8
    files: int = 16
    creations: int = 8
    bytes: int = 0


@dataclass(frozen=True)
class Limits:
    """Bytes; 0 in ``output`` is no limit."""

    output: int
    metadata: int
    log: int
    services: ServiceLimits = ServiceLimits()


@dataclass(frozen=True)
class Task:
    """The description of an invocation, without its state.

    ``wants_log``: the whole log is read.  ``keeps_log_tail``: its end is, if the run fails.
    ``resources`` are its worker group's.  ``log_delay_seconds``: see
    :class:`~storlet_middleware.engine.log_pieces.LogPieces`.  ``secrets`` are values for the
    storlet, which no text about the run may have.
    """

    id: str
    parameters: Mapping[str, str]
    deadlines: Deadlines
    limits: Limits
    wants_log: bool = False
    keeps_log_tail: bool = False
    log_delay_seconds: float | None = None
    resources: messages.Resources = field(default_factory=messages.Resources)
    secrets: Mapping[str, bytes] = field(default_factory=dict, repr=False)
