"""One invocation: filter, worker and supervisor (``PROTOCOL.rst``, section 2)."""

from __future__ import annotations

import binascii
from collections.abc import Mapping, Sequence

from storlet_daemon.protocol.values import dataclass

from .fields import (
    Kinds,
    Message,
    each,
    kinds_of,
    one_of,
    read_count,
    read_name,
    read_number,
    read_text,
    read_texts_by_name,
    record,
    wire,
)

TRACEBACK_MAX = 16384
"""Bytes of a traceback; a longer one is cut in the middle."""
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
LIMIT_SERVICES = "storlet.limit.services"
PROTOCOL = "protocol"
SANDBOX_CODES = (
    LOAD,
    FAILED,
    LIMIT_METADATA,
    LIMIT_MEMORY,
    LIMIT_SCRATCH,
    LIMIT_PROCESSES,
    LIMIT_SERVICES,
    PROTOCOL,
)
"""Every code that a sandbox may put into ``Done``."""


SEEK_FILE = "file"
SEEK_READS = "reads"
READ_MAX = 1 << 20
"""Bytes of one read of a seekable input (``PROTOCOL.rst``, section 2.2)."""


@dataclass(frozen=True)
class Input:
    """An input. ``fd`` is a position among the message's descriptors.

    ``start`` and ``end`` are inclusive byte offsets. ``seekable`` says how the storlet seeks: in
    the file ``fd``, or by reads that the filter answers; such an input has ``size`` bytes.
    """

    fd: int = wire(read_count)
    metadata: Mapping[str, str] = wire(read_texts_by_name, default_factory=dict)
    start: int | None = wire(read_count, default=None)
    end: int | None = wire(read_count, default=None)
    seekable: str | None = wire(one_of(SEEK_FILE, SEEK_READS), default=None)
    size: int | None = wire(read_count, default=None)

    @property
    def fault(self) -> str:
        """Why the keys do not fit together; empty if they do."""
        if self.end is not None and self.end < (self.start or 0):
            return "end is before its start"
        if self.seekable is None:
            return ""
        if self.size is None:
            return "seekable needs a size"
        return "seekable has a range" if (self.start, self.end) != (None, None) else ""


@dataclass(frozen=True)
class Output:
    """An output. ``fd`` is a position among the message's descriptors."""

    fd: int = wire(read_count)


@dataclass(frozen=True)
class Log:
    """The invocation's log: the position of a sealed memory file, and its size in bytes."""

    fd: int = wire(read_count)
    limit: int = wire(read_count)


@dataclass(frozen=True)
class Limits:
    """Limits that only the worker itself can enforce; 0 means none."""

    metadata_bytes: int = wire(read_count, default=4096)


@dataclass(frozen=True)
class Services:
    """The store for the storlet: the position of its end of the socket pair, and the operations
    that it declares."""

    fd: int = wire(read_count)
    operations: Sequence[str] = wire(each(read_name))


@dataclass(frozen=True)
class Invoke(Message):
    """Run the storlet once. Every descriptor of the message is named exactly once in it."""

    TYPE = "invoke"
    IS_VERSIONED = True

    id: str = wire(read_name)
    inputs: Sequence[Input] = wire(each(record(Input)))
    output: Output = wire(record(Output))
    parameters: Mapping[str, str] = wire(read_texts_by_name, default_factory=dict)
    log: Log | None = wire(record(Log), default=None)
    limits: Limits = wire(record(Limits), default=Limits())
    further_outputs: Sequence[Output] | None = wire(each(record(Output)), default=None)
    services: Services | None = wire(record(Services), default=None)
    secrets: Mapping[str, str] | None = wire(read_texts_by_name, default=None, repr=False)

    @property
    def secret_values(self) -> dict[str, bytes]:
        """The values of the secrets, which are base64 in the message."""
        return {
            name: binascii.a2b_base64(text, strict_mode=True)
            for name, text in (self.secrets or {}).items()
        }

    @property
    def outputs(self) -> list[Output]:
        """The output and the further ones, by their numbers."""
        return [self.output, *(self.further_outputs or ())]

    def descriptor_faults(self, count: int) -> list[str]:
        positions = [item.fd for item in self.inputs] + [item.fd for item in self.outputs]
        positions += [one.fd for one in (self.log, self.services) if one]
        faults = [f"there is no descriptor {fd}" for fd in positions if fd >= count]
        if not self.inputs:
            faults.append("inputs is empty")
        if len(set(positions)) != len(positions):
            faults.append("a descriptor is named twice")
        if count > len(set(positions)):
            faults.append(f"{count} descriptors came, {len(set(positions))} are named")
        faults += [
            f"inputs[{position}].{item.fault}"
            for position, item in enumerate(self.inputs)
            if item.fault
        ]
        if self.secrets:
            try:
                self.secret_values  # noqa: B018
            except ValueError:
                faults.append("a secret is not base64")
        return faults


@dataclass(frozen=True)
class Started(Message):
    """A worker has accepted the invocation; the code is loaded."""

    TYPE = "started"


@dataclass(frozen=True)
class Metadata(Message):
    """The metadata of one output; sent once for each, before the first byte of that output.

    ``output`` is its number; absent for the first output.
    """

    TYPE = "metadata"

    metadata: Mapping[str, str] = wire(read_texts_by_name)
    output: int | None = wire(read_count, default=None)


@dataclass(frozen=True)
class Usage:
    """The resources that the run used. Memory is the worker's peak, not this run's share.

    ``input_bytes`` are those that it has read from files in which it can seek.
    """

    cpu_seconds: float = wire(read_number, default=0)
    peak_memory_bytes: int = wire(read_count, default=0)
    input_bytes: int | None = wire(read_count, default=None)


@dataclass(frozen=True)
class Done(Message):
    """The end mark. Without an ``ok`` end mark the output is invalid."""

    TYPE = "done"

    outcome: str = wire(one_of(OK, ERROR))
    code: str | None = wire(one_of(*SANDBOX_CODES), default=None)
    message: str | None = wire(read_text, default=None)
    traceback: str | None = wire(read_text, default=None)
    usage: Usage | None = wire(record(Usage), default=None)

    @property
    def is_ok(self) -> bool:
        """True if the storlet succeeded."""
        return self.outcome == OK

    def descriptor_faults(self, count: int) -> list[str]:
        faults = super().descriptor_faults(count) if count != self.DESCRIPTORS else []
        if self.outcome == ERROR and (self.code is None or self.message is None):
            faults.append("a done with outcome error needs a code and a message")
        return faults

    @staticmethod
    def error(
        code: str, message: str, traceback: str | None = None, usage: Usage | None = None
    ) -> Done:
        """A ``Done`` for a failed run; both texts are cut to what the protocol allows."""
        cut = None if traceback is None else cut_middle(traceback)
        return Done(ERROR, code, one_line(message), cut, usage)


def one_line(text: str) -> str:
    """``text`` without control characters and at most ``SUMMARY_MAX`` characters long."""
    head = text[: 4 * SUMMARY_MAX]
    line = " ".join("".join(char if char.isprintable() else " " for char in head).split())
    return line if len(line) <= SUMMARY_MAX else line[: SUMMARY_MAX - 3] + "..."


def cut_middle(text: str, limit: int = TRACEBACK_MAX) -> str:
    """``text`` with at most ``limit`` bytes of UTF-8; the middle is cut out.

    Both ends of a traceback hold the most information.
    """
    data = text.encode("utf-8", "replace")
    if len(data) <= limit:
        return data.decode("utf-8")
    mark = b"\n[...]\n"
    head = (limit - len(mark)) // 2
    tail = limit - len(mark) - head
    first, last = data[:head].decode("utf-8", "ignore"), data[-tail:].decode("utf-8", "ignore")
    return first + mark.decode() + last


@dataclass(frozen=True)
class Taken(Message):
    """The filter has read ``done`` and closes the connection.

    The worker does not read this message; the supervisor only checks that it is there.
    """

    TYPE = "taken"


INVOCATION_REQUEST: Kinds = kinds_of(Invoke)
INVOCATION_EVENTS: Kinds = kinds_of(Started, Metadata, Done)
INVOCATION_END: Kinds = kinds_of(Taken)
