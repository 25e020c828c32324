"""Commands of the node daemon and reports of a supervisor (``PROTOCOL.rst``, section 4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from storlet_daemon.protocol.values import dataclass

from .fields import (
    Kinds,
    Message,
    each,
    kinds_of,
    read_count,
    read_file_name,
    read_hash,
    read_name,
    read_number,
    read_text,
    read_texts_by_name,
    record,
    wire,
)


@dataclass(frozen=True)
class Resources:
    """Limits that all workers of a group share; ``open_files`` is per process.

    0 means that only the sandbox's own limit holds.
    """

    memory_bytes: int = wire(read_count, default=0)
    cpus: float = wire(read_number, default=0)
    processes: int = wire(read_count, default=0)
    open_files: int = wire(read_count, default=0)
    scratch_bytes: int = wire(read_count, default=0)


@dataclass(frozen=True)
class Hello(Message):
    """First message of a supervisor on every control connection: the versions of its groups."""

    TYPE = "hello"
    IS_VERSIONED = True

    pid: int = wire(read_count)
    groups: Sequence[str] = wire(each(read_hash), default=())


@dataclass(frozen=True)
class Load(Message):
    """Create a worker group; the descriptor is its listening socket.

    ``version`` identifies the group, ``code`` the folder of its code: the same code may run under
    several sets of limits.  A worker is replaced after ``runs_per_worker`` runs, and when it is
    ``worker_seconds`` old: it may keep the objects of its runs mapped, or their descriptors in
    messages to itself, and a deleted object uses the disk until the worker exits.  No restriction
    prevents that, and the supervisor cannot read the mappings of a worker that hides its memory.
    """

    TYPE = "load"
    IS_VERSIONED = True
    DESCRIPTORS = 1

    request: int = wire(read_count)
    version: str = wire(read_hash)
    code: str = wire(read_hash)
    language: str = wire(read_name)
    main: str = wire(read_name)
    file: str = wire(read_file_name)
    name: str = wire(read_name)
    language_version: str | None = wire(read_name, default=None)
    dependencies: Sequence[str] = wire(each(read_file_name), default=())
    arguments: Sequence[str] = wire(each(read_text), default=())
    workers_max: int = wire(read_count, default=8)
    runs_per_worker: int = wire(read_count, default=1000)
    worker_seconds: float = wire(read_number, default=600)
    idle_seconds: float = wire(read_number, default=600)
    load_seconds: float = wire(read_number, default=30)
    limits: Resources = wire(record(Resources), default=Resources())


@dataclass(frozen=True)
class Loaded(Message):
    """The group has the listening socket; connections queue there while the code loads."""

    TYPE = "loaded"

    request: int = wire(read_count)


@dataclass(frozen=True)
class Unload(Message):
    """End a worker group."""

    TYPE = "unload"

    request: int = wire(read_count)
    version: str = wire(read_hash)


@dataclass(frozen=True)
class Unloaded(Message):
    """The group refuses connections; its busy workers finish."""

    TYPE = "unloaded"

    request: int = wire(read_count)


@dataclass(frozen=True)
class AskStatus(Message):
    """Request the status of all groups."""

    TYPE = "status"

    request: int = wire(read_count)


@dataclass(frozen=True)
class Group:
    """Status of one worker group.

    ``idle_seconds`` counts since its last invocation began or ended and is 0 while one runs.
    ``code`` is the folder of its code; the node daemon keeps it as long as the group exists.
    """

    version: str = wire(read_hash)
    name: str = wire(read_text)
    workers: int = wire(read_count)
    busy: int = wire(read_count)
    runs: int = wire(read_count)
    failures: int = wire(read_count)
    idle_seconds: float = wire(read_number)
    code: str = wire(read_text, default="")


@dataclass(frozen=True)
class GroupStatus(Message):
    """Status of all groups."""

    TYPE = "status"

    request: int = wire(read_count)
    groups: Sequence[Group] = wire(each(record(Group)), default=())


@dataclass(frozen=True)
class Refused(Message):
    """The command was not executed, and the reason."""

    TYPE = "error"

    request: int = wire(read_count)
    message: str = wire(read_text)


@dataclass(frozen=True)
class Assign(Message):
    """To a pre-warmed sandbox: permanently become this user, before any code of the tenant is
    loaded."""

    TYPE = "assign"
    IS_VERSIONED = True

    request: int = wire(read_count)
    uid: int = wire(read_count)
    gid: int = wire(read_count)


@dataclass(frozen=True)
class Assigned(Message):
    """The supervisor now runs as that user and has no privilege left."""

    TYPE = "assigned"

    request: int = wire(read_count)


@dataclass(frozen=True)
class Inspect(Message):
    """Request the actual limits and mounts of the sandbox.

    The answer can be trusted only before any code of a tenant runs.
    """

    TYPE = "inspect"

    request: int = wire(read_count)


@dataclass(frozen=True)
class Inspected(Message):
    """Content of files of /proc and of the control groups by path, see ``inspection.py``."""

    TYPE = "inspected"

    request: int = wire(read_count)
    files: Mapping[str, str] = wire(read_texts_by_name, default_factory=dict)


@dataclass(frozen=True)
class Check(Message):
    """Run the self-test: try to break out and to exceed the limits.

    The descriptor is a file that must not change. ``allowed`` names what the trust class permits:
    ``network``, and ``write:<path>`` for each writable mount. ``limits`` are those of the whole
    sandbox.
    """

    TYPE = "check"
    DESCRIPTORS = 1

    request: int = wire(read_count)
    allowed: Sequence[str] = wire(each(read_name), default=())
    limits: Resources = wire(record(Resources), default=Resources())


@dataclass(frozen=True)
class Checked(Message):
    """Result by name of the test: empty if the sandbox held, else what happened."""

    TYPE = "checked"

    request: int = wire(read_count)
    faults: Mapping[str, str] = wire(read_texts_by_name, default_factory=dict)


@dataclass(frozen=True)
class Place(Message):
    """Put a new worker, which waits, into the control groups of its worker group.

    ``pid`` is the number inside the sandbox.
    """

    TYPE = "place"

    version: str = wire(read_hash)
    pid: int = wire(read_count)
    limits: Resources = wire(record(Resources), default=Resources())


@dataclass(frozen=True)
class Placed(Message):
    """The worker is in its control groups, or not if ``directory`` is empty.

    ``directory`` is where the sandbox sees the group's control groups, below each of its own.
    """

    TYPE = "placed"

    pid: int = wire(read_count)
    directory: str = wire(read_text, default="")


CONTROL_COMMANDS: Kinds = kinds_of(Load, Unload, AskStatus, Assign, Inspect, Check, Placed)
CONTROL_REPORTS: Kinds = kinds_of(
    Hello, Loaded, Unloaded, GroupStatus, Assigned, Inspected, Checked, Refused, Place
)
