"""Requests of the filter and answers of the node daemon (``PROTOCOL.rst``, section 5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from storlet_daemon.protocol.values import dataclass

from .control import Group, Resources
from .fields import (
    BAD_REQUEST,
    Kinds,
    Message,
    each,
    kinds_of,
    one_of,
    read_count,
    read_file_name,
    read_hash,
    read_name,
    read_number,
    read_object,
    read_text,
    read_texts_by_name,
    record,
    wire,
)

NODE_CODES = ("sandbox.unavailable", "node.busy", "code.missing", BAD_REQUEST, "internal")
"""Every code that the node daemon may put into ``NodeRefused``."""


@dataclass(frozen=True)
class Storlet:
    """A storlet version whose code the filter has put into the tenant's code directory.

    ``version`` identifies the worker group: the code with its limits. ``code`` is the name of the
    folder below the code directory.
    """

    name: str = wire(read_name)
    version: str = wire(read_hash)
    code: str = wire(read_hash)
    language: str = wire(read_name)
    main: str = wire(read_name)
    file: str = wire(read_file_name)
    language_version: str | None = wire(read_name, default=None)
    dependencies: Sequence[str] = wire(each(read_file_name), default=())
    arguments: Sequence[str] = wire(each(read_text), default=())
    limits: Resources = wire(record(Resources), default=Resources())


@dataclass(frozen=True)
class Prepare(Message):
    """Create the tenant's code directory and begin to start the sandbox; answered at once."""

    TYPE = "prepare"
    IS_VERSIONED = True

    account: str = wire(read_name)
    storlet: str = wire(read_name)


@dataclass(frozen=True)
class Prepared(Message):
    """The directory for the tenant's code."""

    TYPE = "prepared"

    code_dir: str = wire(read_name)


@dataclass(frozen=True)
class Acquire(Message):
    """Answer when the tenant's sandbox runs and has loaded this storlet."""

    TYPE = "load"
    IS_VERSIONED = True

    account: str = wire(read_name)
    storlet: Storlet = wire(record(Storlet))


@dataclass(frozen=True)
class Acquired(Message):
    """The path of the storlet's listening socket."""

    TYPE = "loaded"

    socket: str = wire(read_name)


@dataclass(frozen=True)
class AskNodeStatus(Message):
    """Request the status of the node's sandboxes."""

    TYPE = "status"
    IS_VERSIONED = True


@dataclass(frozen=True)
class AskSelfTest(Message):
    """Test a sandbox of each trust class now; the answer, a status, follows the last test."""

    TYPE = "self_test"
    IS_VERSIONED = True


@dataclass(frozen=True)
class SelfTest:
    """Result of the last self-test of a trust class; ``state`` is pass, fail or untested.

    ``faults`` is by name of the test; a test that passed has an empty text.
    """

    trust_class: str = wire(read_name)
    state: str = wire(read_name)
    faults: Mapping[str, str] = wire(read_texts_by_name, default_factory=dict)
    at: float = wire(read_number, default=0)


@dataclass(frozen=True)
class Sandbox:
    """Status of one sandbox of the node; a pre-warmed sandbox has no account."""

    account: str = wire(read_text)
    key: str = wire(read_name)
    state: str = wire(read_name)
    trust_class: str = wire(read_text, default="")
    image: str = wire(read_text, default="")
    container: str | None = wire(read_text, default=None)
    uid: int | None = wire(read_count, default=None)
    started_at: float | None = wire(read_number, default=None)
    groups: Sequence[Group] = wire(each(record(Group)), default=())


@dataclass(frozen=True)
class NodeStatus(Message):
    """Status of the node's sandboxes."""

    TYPE = "status"

    sandboxes: Sequence[Sandbox] = wire(each(record(Sandbox)), default=())
    images: Mapping[str, Any] = wire(read_object, default_factory=dict)
    self_tests: Sequence[SelfTest] = wire(each(record(SelfTest)), default=())


@dataclass(frozen=True)
class NodeRefused(Message):
    """The request was refused: a code, one line of text, and seconds until a retry, if any."""

    TYPE = "error"

    code: str = wire(one_of(*NODE_CODES))
    message: str = wire(read_text)
    retry_after: int | None = wire(read_count, default=None)


NODE_REQUESTS: Kinds = kinds_of(Prepare, Acquire, AskNodeStatus, AskSelfTest)
NODE_ANSWERS: Kinds = kinds_of(Prepared, Acquired, NodeStatus, NodeRefused)
