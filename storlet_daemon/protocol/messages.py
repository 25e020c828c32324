"""A frozen value per message of the protocol, what it must hold, and how it is read.

A message class is its own description: the annotation says the type, ``_wire(reader)`` says what is accepted from the
wire. ``parse`` reads a JSON object into one of the classes that are allowed at that place and reports all faults
together. Keys that no class names are ignored, so that a newer peer may say more.

===================== ================================== ====================================================
table                 from, to                           messages
===================== ================================== ====================================================
INVOCATION_REQUEST    filter -> worker                   Invoke
INVOCATION_EVENTS     worker or supervisor -> filter     Started, Metadata, Done
INVOCATION_END        filter -> supervisor               Taken
WORKER_REPORTS        worker -> supervisor               Ready, LoadFailed, Begin, End
CONTROL_COMMANDS      node daemon -> supervisor          Load, Unload, AskStatus, Assign, Inspect, Check, Placed
CONTROL_REPORTS       supervisor -> node daemon          Hello, Loaded, Unloaded, GroupStatus, Assigned, Inspected, Checked,
                                                         Refused, Place
NODE_REQUESTS         filter -> node daemon              Prepare, Acquire, AskNodeStatus, AskSelfTest
NODE_ANSWERS          node daemon -> filter              Prepared, Acquired, NodeStatus, NodeRefused
===================== ================================== ====================================================
"""

# ruff: noqa: RUF009  _wire is dataclasses.field with a reader: a description, not a value

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

VERSION = 1
MESSAGE_MAX = 65536
"""Bytes of one message."""
DESCRIPTORS_MAX = 32
TRACEBACK_MAX = 16384
"""Characters of a traceback; a longer one loses its middle."""
SUMMARY_MAX = 500
"""Characters of a one-line message."""

OK = "ok"
ERROR = "error"

LOAD = "storlet.load"
FAILED = "storlet.failed"
LIMIT_METADATA = "storlet.limit.metadata"
LIMIT_MEMORY = "storlet.limit.memory"
LIMIT_SCRATCH = "storlet.limit.scratch"
LIMIT_PROCESSES = "storlet.limit.processes"
PROTOCOL = "protocol"
SANDBOX_CODES = (LOAD, FAILED, LIMIT_METADATA, LIMIT_MEMORY, LIMIT_SCRATCH, LIMIT_PROCESSES, PROTOCOL)
"""Every code that a sandbox may put into ``Done``."""

NODE_CODES = ("sandbox.unavailable", "node.busy", "code.missing", "bad_request", "internal")
"""Every code that the node daemon may put into ``NodeRefused``."""


class ProtocolError(Exception):
    """The other side sent what the protocol does not allow; ``faults`` are all that were found, a line each."""

    def __init__(self, faults: Iterable[str]) -> None:
        self.faults = tuple(faults)
        super().__init__("; ".join(self.faults))


# Readers: what a key may hold. Each returns the value for the message, or notes a fault and returns anything.

Reader = Callable[[Any, str, list[str]], Any]
_COUNT_MAX = 2**63 - 1
_M = TypeVar("_M")


def _text(value: Any, where: str, faults: list[str]) -> Any:
    if not isinstance(value, str):
        faults.append(f"{where} is not text")
    return value


def _name(value: Any, where: str, faults: list[str]) -> Any:
    if not isinstance(value, str) or not value or "\0" in value:
        faults.append(f"{where} is not text of at least one character")
    return value


def _file(value: Any, where: str, faults: list[str]) -> Any:
    """A name of a file inside one folder; anything else could lead out of it."""
    if not isinstance(value, str) or not value or "/" in value or "\0" in value or value in (".", ".."):
        faults.append(f"{where} is not a file name")
    return value


_HEX_VERSION = re.compile("[0-9a-f]{64}")


def _version(value: Any, where: str, faults: list[str]) -> Any:
    if not isinstance(value, str) or not _HEX_VERSION.fullmatch(value):
        faults.append(f"{where} is not 64 hexadecimal digits")
    return value


def _count(value: Any, where: str, faults: list[str]) -> Any:
    # bool is an int in Python and not in JSON
    if type(value) is not int or not 0 <= value <= _COUNT_MAX:
        faults.append(f"{where} is not a whole number from 0")
    return value


def _number(value: Any, where: str, faults: list[str]) -> Any:
    if type(value) not in (int, float) or not 0 <= value <= _COUNT_MAX:
        faults.append(f"{where} is not a number from 0")
    return value


def _flag(value: Any, where: str, faults: list[str]) -> Any:
    if not isinstance(value, bool):
        faults.append(f"{where} is neither true nor false")
    return value


def _object(value: Any, where: str, faults: list[str]) -> Any:
    if not isinstance(value, dict):
        faults.append(f"{where} is not an object")
    return value


def _texts_by_name(value: Any, where: str, faults: list[str]) -> Any:
    if not isinstance(value, dict):
        faults.append(f"{where} is not an object")
    else:
        for key, item in value.items():
            if not isinstance(item, str):
                faults.append(f"{where}.{key} is not text")
    return value


def _one_of(*allowed: str) -> Reader:
    def read(value: Any, where: str, faults: list[str]) -> Any:
        if not isinstance(value, str) or value not in allowed:
            faults.append(f"{where} is none of {', '.join(allowed)}")
        return value

    return read


def _each(reader: Reader) -> Reader:
    def read(value: Any, where: str, faults: list[str]) -> Any:
        if not isinstance(value, list):
            faults.append(f"{where} is not a list")
            return value
        return tuple(reader(item, f"{where}[{position}]", faults) for position, item in enumerate(value))

    return read


def _record(kind: type[_M]) -> Reader:
    def read(value: Any, where: str, faults: list[str]) -> Any:
        if not isinstance(value, dict):
            faults.append(f"{where} is not an object")
            return value
        return _build(kind, value, f"{where}.", faults)

    return read


def _wire(reader: Reader, **options: Any) -> Any:
    return dataclasses.field(metadata={"reader": reader}, **options)


_Rows = tuple[tuple[str, Reader, bool], ...]
_ROWS: dict[type, _Rows] = {}


def _rows(kind: type) -> _Rows:
    """Name, reader and is-required of each key of ``kind``; worked out once, because this is on the path of every invocation."""
    rows = _ROWS.get(kind)
    if rows is None:
        none = dataclasses.MISSING
        rows = _ROWS[kind] = tuple(
            (field.name, field.metadata["reader"], field.default is none and field.default_factory is none)
            for field in dataclasses.fields(kind)
        )
    return rows


def _build(kind: type[_M], fields: Mapping[str, Any], where: str, faults: list[str]) -> _M | None:
    values = {}
    before = len(faults)
    for name, reader, is_required in _rows(kind):
        value = fields.get(name)
        if value is not None:
            values[name] = reader(value, where + name, faults)
        elif is_required:
            faults.append(f"{where}{name} is missing")
    return kind(**values) if len(faults) == before else None


_SCALARS = frozenset((str, int, float, bool))


def _plain(value: Any) -> Any:
    kind = type(value)
    if kind in _SCALARS:
        return value
    if kind in _ROWS or dataclasses.is_dataclass(kind):
        return {name: _plain(item) for name, _, _ in _rows(kind) if (item := getattr(value, name)) is not None}
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    return value if kind is dict else dict(value)


@dataclass(frozen=True)
class Message:
    """What all messages share: their ``type``, whether they name the version, how many descriptors they carry."""

    TYPE: ClassVar[str] = ""
    IS_VERSIONED: ClassVar[bool] = False
    DESCRIPTORS: ClassVar[int] = 0

    def fields(self) -> dict[str, Any]:
        """The JSON object of this message; keys without a value are left out."""
        head: dict[str, Any] = {"v": VERSION, "type": self.TYPE} if self.IS_VERSIONED else {"type": self.TYPE}
        for name, _, _ in _rows(type(self)):
            value = getattr(self, name)
            if value is not None:
                head[name] = _plain(value)
        return head

    def descriptor_faults(self, count: int) -> list[str]:
        """What is wrong with the message when ``count`` descriptors came with it."""
        if count == self.DESCRIPTORS:
            return []
        return [f"{self.TYPE} came with {count} descriptors, it needs {self.DESCRIPTORS}"]


Kinds = Mapping[str, "type[Message]"]


def parse(fields: Mapping[str, Any], kinds: Kinds, descriptors: int = 0) -> Any:
    """The message in ``fields``, one of ``kinds`` (a table below), that came with so many ``descriptors``.

    Raises ``ProtocolError`` with every fault. A wrong version is reported alone: nothing else can be judged then.
    """
    kind = kinds.get(fields["type"])
    if kind is None:
        raise ProtocolError([f"a message of type {fields['type']!r:.60} is not expected here"])
    version = fields.get("v")
    if (kind.IS_VERSIONED or version is not None) and (type(version) is not int or version != VERSION):
        raise ProtocolError([f"protocol version {version!r:.20} is not spoken here, only {VERSION}"])
    faults: list[str] = []
    message = _build(kind, fields, "", faults)
    if message is not None:
        faults = message.descriptor_faults(descriptors)
    if message is None or faults:
        raise ProtocolError(faults)
    return message


def _table(*kinds: type[Message]) -> Kinds:
    return {kind.TYPE: kind for kind in kinds}


# 2a: one invocation


@dataclass(frozen=True)
class Input:
    """An input: ``fd`` is a position among the message's descriptors; ``start`` and ``end`` are inclusive byte offsets."""

    fd: int = _wire(_count)
    metadata: Mapping[str, str] = _wire(_texts_by_name, default_factory=dict)
    start: int | None = _wire(_count, default=None)
    end: int | None = _wire(_count, default=None)


@dataclass(frozen=True)
class Output:
    """The output: ``fd`` is a position among the message's descriptors."""

    fd: int = _wire(_count)


@dataclass(frozen=True)
class Log:
    """The invocation's log: the position of a sealed memory file, and its size in bytes."""

    fd: int = _wire(_count)
    limit: int = _wire(_count)


@dataclass(frozen=True)
class Limits:
    """Bounds that the worker itself must keep, because nobody else can; 0 means none."""

    metadata_bytes: int = _wire(_count, default=4096)


@dataclass(frozen=True)
class Invoke(Message):
    """Run the storlet once. Every descriptor of the message is named exactly once in it."""

    TYPE = "invoke"
    IS_VERSIONED = True

    id: str = _wire(_name)
    inputs: Sequence[Input] = _wire(_each(_record(Input)))
    output: Output = _wire(_record(Output))
    parameters: Mapping[str, str] = _wire(_texts_by_name, default_factory=dict)
    log: Log | None = _wire(_record(Log), default=None)
    limits: Limits = _wire(_record(Limits), default=Limits())

    def descriptor_faults(self, count: int) -> list[str]:
        positions = [item.fd for item in self.inputs] + [self.output.fd] + ([self.log.fd] if self.log else [])
        faults = [f"there is no descriptor {fd}" for fd in positions if fd >= count]
        if not self.inputs:
            faults.append("inputs is empty")
        if len(set(positions)) != len(positions):
            faults.append("a descriptor is named twice")
        if count > len(set(positions)):
            faults.append(f"{count} descriptors came, {len(set(positions))} are named")
        faults += [
            f"inputs[{position}].end is before its start"
            for position, item in enumerate(self.inputs)
            if item.end is not None and item.end < (item.start or 0)
        ]
        return faults


@dataclass(frozen=True)
class Started(Message):
    """A worker has taken the invocation; the code is loaded."""

    TYPE = "started"


@dataclass(frozen=True)
class Metadata(Message):
    """The output's metadata; sent once, before the first byte of the output."""

    TYPE = "metadata"

    metadata: Mapping[str, str] = _wire(_texts_by_name)


@dataclass(frozen=True)
class Usage:
    """What the run took. Memory is the most that the worker ever held, not this run's share."""

    cpu_seconds: float = _wire(_number, default=0)
    peak_memory_bytes: int = _wire(_count, default=0)


@dataclass(frozen=True)
class Done(Message):
    """The end mark. Without one that says ``ok`` the output is not to be believed."""

    TYPE = "done"

    outcome: str = _wire(_one_of(OK, ERROR))
    code: str | None = _wire(_one_of(*SANDBOX_CODES), default=None)
    message: str | None = _wire(_text, default=None)
    traceback: str | None = _wire(_text, default=None)
    usage: Usage | None = _wire(_record(Usage), default=None)

    @property
    def is_ok(self) -> bool:
        """Whether the storlet has succeeded."""
        return self.outcome == OK

    def descriptor_faults(self, count: int) -> list[str]:
        faults = super().descriptor_faults(count)
        if self.outcome == ERROR and (self.code is None or self.message is None):
            faults.append("a done with outcome error needs a code and a message")
        return faults

    @staticmethod
    def error(code: str, message: str, traceback: str | None = None, usage: Usage | None = None) -> Done:
        """A ``Done`` for a run that failed: the message made one line, both texts cut to what the protocol allows."""
        return Done(ERROR, code, one_line(message), None if traceback is None else cut_middle(traceback), usage)


def one_line(text: str) -> str:
    """``text`` without control characters and at most ``SUMMARY_MAX`` long."""
    line = " ".join("".join(char if char.isprintable() else " " for char in text[: 4 * SUMMARY_MAX]).split())
    return line if len(line) <= SUMMARY_MAX else line[: SUMMARY_MAX - 3] + "..."


def cut_middle(text: str, limit: int = TRACEBACK_MAX) -> str:
    """``text`` with at most ``limit`` bytes of UTF-8, the middle left out: both ends of a traceback tell the most."""
    data = text.encode("utf-8", "replace")
    if len(data) <= limit:
        return data.decode("utf-8")
    mark = b"\n[...]\n"
    head = (limit - len(mark)) // 2
    tail = limit - len(mark) - head
    return data[:head].decode("utf-8", "ignore") + mark.decode() + data[-tail:].decode("utf-8", "ignore")


@dataclass(frozen=True)
class Taken(Message):
    """The filter has the ``done``, and closes the connection now. The worker does not read it, the supervisor sees that it is there."""

    TYPE = "taken"


INVOCATION_REQUEST: Kinds = _table(Invoke)
INVOCATION_EVENTS: Kinds = _table(Started, Metadata, Done)
INVOCATION_END: Kinds = _table(Taken)


# 2b: worker and supervisor


@dataclass(frozen=True)
class Ready(Message):
    """The code is loaded; the worker accepts connections from now on."""

    TYPE = "ready"


@dataclass(frozen=True)
class LoadFailed(Message):
    """The code could not be loaded; the worker answers every invocation with this."""

    TYPE = "load_failed"

    message: str = _wire(_text)
    traceback: str | None = _wire(_text, default=None)


@dataclass(frozen=True)
class Begin(Message):
    """The worker has received an invocation; the descriptor is a duplicate of its connection."""

    TYPE = "begin"
    DESCRIPTORS = 1

    id: str = _wire(_text)


@dataclass(frozen=True)
class End(Message):
    """The invocation is over, but for its ``done`` where that comes later. After ``recycle`` the worker ends by itself."""

    TYPE = "end"

    recycle: bool = _wire(_flag, default=False)
    failed: bool = _wire(_flag, default=False)


WORKER_REPORTS: Kinds = _table(Ready, LoadFailed, Begin, End)


# 2c: node daemon and supervisor


@dataclass(frozen=True)
class Resources:
    """What all workers of a group together may use; ``open_files`` is each process's own. 0 means no limit but the sandbox's."""

    memory_bytes: int = _wire(_count, default=0)
    cpus: float = _wire(_number, default=0)
    processes: int = _wire(_count, default=0)
    open_files: int = _wire(_count, default=0)
    scratch_bytes: int = _wire(_count, default=0)


@dataclass(frozen=True)
class Hello(Message):
    """First message of a supervisor on every control connection: which versions it has groups for."""

    TYPE = "hello"
    IS_VERSIONED = True

    pid: int = _wire(_count)
    groups: Sequence[str] = _wire(_each(_version), default=())


@dataclass(frozen=True)
class Load(Message):
    """Make a worker group; the descriptor is its listening socket.

    ``version`` names the group, ``code`` the folder of its code: one code may run under several sets of limits.
    """

    TYPE = "load"
    IS_VERSIONED = True
    DESCRIPTORS = 1

    request: int = _wire(_count)
    version: str = _wire(_version)
    code: str = _wire(_version)
    language: str = _wire(_name)
    main: str = _wire(_name)
    file: str = _wire(_file)
    name: str = _wire(_name)
    language_version: str | None = _wire(_name, default=None)
    dependencies: Sequence[str] = _wire(_each(_file), default=())
    workers_max: int = _wire(_count, default=8)
    runs_per_worker: int = _wire(_count, default=1000)
    idle_seconds: float = _wire(_number, default=600)
    load_seconds: float = _wire(_number, default=30)
    limits: Resources = _wire(_record(Resources), default=Resources())


@dataclass(frozen=True)
class Loaded(Message):
    """The group has the listening socket; connections wait in its backlog while the code loads."""

    TYPE = "loaded"

    request: int = _wire(_count)


@dataclass(frozen=True)
class Unload(Message):
    """End a worker group."""

    TYPE = "unload"

    request: int = _wire(_count)
    version: str = _wire(_version)


@dataclass(frozen=True)
class Unloaded(Message):
    """The group refuses connections; its busy workers finish."""

    TYPE = "unloaded"

    request: int = _wire(_count)


@dataclass(frozen=True)
class AskStatus(Message):
    """Say how the groups are."""

    TYPE = "status"

    request: int = _wire(_count)


@dataclass(frozen=True)
class Group:
    """One worker group; ``idle_seconds`` since its last invocation began or ended, 0 while one runs.

    ``code`` is the folder of its code, of which the node daemon keeps a copy while the group is there.
    """

    version: str = _wire(_version)
    name: str = _wire(_text)
    workers: int = _wire(_count)
    busy: int = _wire(_count)
    runs: int = _wire(_count)
    failures: int = _wire(_count)
    idle_seconds: float = _wire(_number)
    code: str = _wire(_text, default="")


@dataclass(frozen=True)
class GroupStatus(Message):
    """How the groups are."""

    TYPE = "status"

    request: int = _wire(_count)
    groups: Sequence[Group] = _wire(_each(_record(Group)), default=())


@dataclass(frozen=True)
class Refused(Message):
    """The command was not done, and why."""

    TYPE = "error"

    request: int = _wire(_count)
    message: str = _wire(_text)


@dataclass(frozen=True)
class Assign(Message):
    """To a pre-warmed sandbox: become this user for good, before anything of a tenant's is loaded."""

    TYPE = "assign"
    IS_VERSIONED = True

    request: int = _wire(_count)
    uid: int = _wire(_count)
    gid: int = _wire(_count)


@dataclass(frozen=True)
class Assigned(Message):
    """The supervisor is that user now and has no privilege left."""

    TYPE = "assigned"

    request: int = _wire(_count)


@dataclass(frozen=True)
class Inspect(Message):
    """Say what the sandbox has really become: before any code of a tenant runs, the supervisor is believed."""

    TYPE = "inspect"

    request: int = _wire(_count)


@dataclass(frozen=True)
class Inspected(Message):
    """The content of files of /proc and of the control groups, by path; see ``storlet_daemon/inspection.py``."""

    TYPE = "inspected"

    request: int = _wire(_count)
    files: Mapping[str, str] = _wire(_texts_by_name, default_factory=dict)


@dataclass(frozen=True)
class Check(Message):
    """Try to break out and to break the limits; the descriptor is a file that must stay what it is.

    ``allowed`` names what the trust class may have: ``network``, and ``write:<path>`` for each writable mount.
    ``limits`` are those of the whole sandbox.
    """

    TYPE = "check"
    DESCRIPTORS = 1

    request: int = _wire(_count)
    allowed: Sequence[str] = _wire(_each(_name), default=())
    limits: Resources = _wire(_record(Resources), default=Resources())


@dataclass(frozen=True)
class Checked(Message):
    """By name of the test: empty when the sandbox held, else what happened."""

    TYPE = "checked"

    request: int = _wire(_count)
    faults: Mapping[str, str] = _wire(_texts_by_name, default_factory=dict)


@dataclass(frozen=True)
class Place(Message):
    """Put a new worker, which waits, into the control groups of its group; ``pid`` as the sandbox knows it."""

    TYPE = "place"

    version: str = _wire(_version)
    pid: int = _wire(_count)
    limits: Resources = _wire(_record(Resources), default=Resources())


@dataclass(frozen=True)
class Placed(Message):
    """``directory`` is where the sandbox sees the group's control groups, below each of its own; empty: not placed."""

    TYPE = "placed"

    pid: int = _wire(_count)
    directory: str = _wire(_text, default="")


CONTROL_COMMANDS: Kinds = _table(Load, Unload, AskStatus, Assign, Inspect, Check, Placed)
CONTROL_REPORTS: Kinds = _table(Hello, Loaded, Unloaded, GroupStatus, Assigned, Inspected, Checked, Refused, Place)


# 2d: filter and node daemon


@dataclass(frozen=True)
class Storlet:
    """What the filter knows of a storlet version whose code it has put into the tenant's code directory.

    ``version`` names the worker group: the code with its limits. ``code`` names the folder below the code directory.
    """

    name: str = _wire(_name)
    version: str = _wire(_version)
    code: str = _wire(_version)
    language: str = _wire(_name)
    main: str = _wire(_name)
    file: str = _wire(_file)
    language_version: str | None = _wire(_name, default=None)
    dependencies: Sequence[str] = _wire(_each(_file), default=())
    limits: Resources = _wire(_record(Resources), default=Resources())


@dataclass(frozen=True)
class Prepare(Message):
    """Make the tenant's code directory and begin to start the sandbox for this storlet; answered at once."""

    TYPE = "prepare"
    IS_VERSIONED = True

    account: str = _wire(_name)
    storlet: str = _wire(_name)


@dataclass(frozen=True)
class Prepared(Message):
    """Where the tenant's code goes."""

    TYPE = "prepared"

    code_dir: str = _wire(_name)


@dataclass(frozen=True)
class Acquire(Message):
    """Answer when the tenant's sandbox runs and has taken this storlet."""

    TYPE = "load"
    IS_VERSIONED = True

    account: str = _wire(_name)
    storlet: Storlet = _wire(_record(Storlet))


@dataclass(frozen=True)
class Acquired(Message):
    """The path of the storlet's listening socket."""

    TYPE = "loaded"

    socket: str = _wire(_name)


@dataclass(frozen=True)
class AskNodeStatus(Message):
    """Say how the node's sandboxes are."""

    TYPE = "status"
    IS_VERSIONED = True


@dataclass(frozen=True)
class AskSelfTest(Message):
    """Test a sandbox of each trust class now; the answer, a status, comes when that is done."""

    TYPE = "self_test"
    IS_VERSIONED = True


@dataclass(frozen=True)
class SelfTest:
    """How the sandboxes of a trust class withstood the last self-test: ``state`` is pass, fail or untested.

    ``faults`` by name of the test; a test that passed has an empty text.
    """

    trust_class: str = _wire(_name)
    state: str = _wire(_name)
    faults: Mapping[str, str] = _wire(_texts_by_name, default_factory=dict)
    at: float = _wire(_number, default=0)


@dataclass(frozen=True)
class Sandbox:
    """One sandbox of the node; a pre-warmed one has no account yet."""

    account: str = _wire(_text)
    key: str = _wire(_name)
    state: str = _wire(_name)
    trust_class: str = _wire(_text, default="")
    image: str = _wire(_text, default="")
    container: str | None = _wire(_text, default=None)
    uid: int | None = _wire(_count, default=None)
    started_at: float | None = _wire(_number, default=None)
    groups: Sequence[Group] = _wire(_each(_record(Group)), default=())


@dataclass(frozen=True)
class NodeStatus(Message):
    """How the node's sandboxes are."""

    TYPE = "status"

    sandboxes: Sequence[Sandbox] = _wire(_each(_record(Sandbox)), default=())
    images: Mapping[str, Any] = _wire(_object, default_factory=dict)
    self_tests: Sequence[SelfTest] = _wire(_each(_record(SelfTest)), default=())


@dataclass(frozen=True)
class NodeRefused(Message):
    """The request was not done: a code, a line for people, and when to come back (seconds), if that helps."""

    TYPE = "error"

    code: str = _wire(_one_of(*NODE_CODES))
    message: str = _wire(_text)
    retry_after: int | None = _wire(_count, default=None)


NODE_REQUESTS: Kinds = _table(Prepare, Acquire, AskNodeStatus, AskSelfTest)
NODE_ANSWERS: Kinds = _table(Prepared, Acquired, NodeStatus, NodeRefused)
