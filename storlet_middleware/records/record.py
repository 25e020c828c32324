"""The record of a run: one value, and the table of its fields.

A field of :class:`Record` is a row of :data:`TABLE`.  The JSON of a record, the reference page and
the part of a record that a caller sees are all made from it.  To add a field, add one row.  A value
that is not known is absent from the JSON.
"""

from __future__ import annotations

import dataclasses
import json
import operator
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum, StrEnum
from typing import Any, Final

from storlet_middleware import errors
from storlet_middleware.errors import Blame, row_of

#: Codes of a run other than error codes.
OK: Final = "ok"
REFUSED: Final = "refused"
#: The last bytes of a failed run's log that its record has, and the longest texts.
LOG_BYTES: Final = 4096
_TEXT_LENGTH: Final = 1024
_ROW: Final = "row"


class Outcome(StrEnum):
    """The end of a run, for people; the code has the reason."""

    OK = "ok"
    FAILED = "failed"
    REFUSED = "refused"
    CANCELLED = "cancelled"


def outcome_of(code: str) -> Outcome:
    """The outcome of a run with ``code``: blame of the client is a refusal."""
    if code == OK:
        return Outcome.OK
    if code == errors.CLIENT_GONE:
        return Outcome.CANCELLED
    is_refusal = code == REFUSED or row_of(code).blame is Blame.CLIENT
    return Outcome.REFUSED if is_refusal else Outcome.FAILED


class Seen(Enum):
    """The callers that see a field of their own runs; owners of the account see all fields."""

    CALLER = "caller"
    #: Not if a rule decided the run, or one that it is in.
    WITHOUT_RULE = "caller, unless a rule decided"
    #: Not if the text may quote what the storlet read, or describe its input.
    OWN_TEXT = "caller, unless it quotes data"
    OWNER = "owner"


class Kind(Enum):
    """The form of a value in JSON."""

    TEXT = "text"
    TIME = "time, UTC"
    COUNT = "whole number"
    SECONDS = "seconds"
    BYTES = "bytes"
    FLAG = "boolean"
    BY_NAME = "values by name"
    STORLETS = "list of {name, hash, sha256, version}"
    PATHS = "list of texts"


@dataclass(frozen=True)
class Row:
    """One field."""

    name: str
    kind: Kind
    seen: Seen
    help: str


def _row(kind: Kind, seen: Seen, meaning: str, **more: Any) -> Any:
    return dataclasses.field(metadata={_ROW: (kind, seen, meaning)}, **more)


@dataclass(frozen=True)
class StorletRef:
    """A storlet of a run; ``hash`` is the key of its version, empty if that was not resolved.

    ``sha256`` and ``version`` are those of a bundle; 0: the version has no number.
    """

    name: str
    hash: str = ""
    sha256: str = ""
    version: int = 0


# fmt: off
@dataclass(kw_only=True, slots=True)
class Record:
    """See the module.

    Not frozen: a frozen dataclass sets each of its fields by a call, and every run has a record.
    With slots: a dictionary of that many fields takes 2 KiB, and twice the time.
    The log line and the metrics of a run are made from it before the fields that only a kept record
    has are added (:class:`~storlet_middleware.proxy.completion.Completion`).
    """

    id: str = _row(Kind.TEXT, Seen.CALLER, "the invocation, as in ``X-Storlet-Invocation``")
    parent: str = _row(
        Kind.TEXT, Seen.CALLER,
        "of an inner run: the run whose storlet has called this one, or opened the object; of a"
        " split or a merge: the distribution, which has no record of its own",
        default="")
    time: float = _row(Kind.TIME, Seen.CALLER, "end of the run")
    account: str = _row(Kind.TEXT, Seen.CALLER, "the account of storlet and object")
    storlets: tuple[StorletRef, ...] = _row(
        Kind.STORLETS, Seen.WITHOUT_RULE,
        "the storlets in their order, each with the hash of the version that ran, and the SHA-256"
        " and the number of the version of a bundle")
    caller: str = _row(
        Kind.TEXT, Seen.CALLER, "name of the user; absent for anonymous and signed requests",
        default="")
    caller_id: str = _row(Kind.TEXT, Seen.CALLER, "Keystone's id of the user", default="")
    method: str = _row(Kind.TEXT, Seen.CALLER, "``GET``, ``PUT`` or ``COPY``")
    object: str = _row(
        Kind.TEXT, Seen.CALLER, "container and name of what was read (PUT: written)", default="")
    target: str = _row(
        Kind.TEXT, Seen.CALLER, "container and name of what a COPY has written", default="")
    outputs: tuple[str, ...] = _row(
        Kind.PATHS, Seen.CALLER,
        "container and name of the objects of further outputs, and of those that a storlet has"
        " created; they are stored if the code is ``ok``, and may be if it is ``client.gone``",
        default=())
    parameters: Mapping[str, str] | None = _row(
        Kind.BY_NAME, Seen.WITHOUT_RULE,
        "parameters of the first storlet, without the manifest's defaults; absent if they are"
        " longer than 4 KiB", default=None)
    limits: Mapping[str, float] | None = _row(
        Kind.BY_NAME, Seen.WITHOUT_RULE, "limits that the request lowered", default=None)
    range: str = _row(Kind.TEXT, Seen.WITHOUT_RULE, "``X-Storlet-Range``", default="")
    resources: tuple[str, ...] = _row(
        Kind.PATHS, Seen.WITHOUT_RULE, "further inputs, each container and name", default=())
    resource_etags: tuple[str, ...] = _row(
        Kind.PATHS, Seen.OWNER, "ETag of each further input; absent if they were not all read",
        default=())
    etag: str = _row(
        Kind.TEXT, Seen.OWNER, "ETag of the object that was read", default="")
    rule: str = _row(
        Kind.TEXT, Seen.OWNER,
        "the rule that decided the run; of an inner run, else that of the run that it is in",
        default="")
    undoes_rule: bool = _row(
        Kind.FLAG, Seen.OWNER, "the first storlets reverse those that ran at the upload",
        default=False)
    placement: str = _row(
        Kind.TEXT, Seen.WITHOUT_RULE, "``object`` or ``proxy``, of each storlet that has begun",
        default="")
    why: str = _row(Kind.TEXT, Seen.OWNER, "why the first storlet ran there", default="")
    node: str = _row(
        Kind.TEXT, Seen.OWNER, "``[sandbox] node_id`` of the nodes they ran on", default="")
    code: str = _row(
        Kind.TEXT, Seen.CALLER, "``ok``, an error code, or ``refused`` if Swift refused")
    outcome: str = _row(
        Kind.TEXT, Seen.CALLER,
        "``ok``, ``failed``, ``refused`` (the request was) or ``cancelled`` (by the client)",
        init=False)
    message: str = _row(
        Kind.TEXT, Seen.OWN_TEXT, "the error, one line of at most 1,024 characters", default="")
    failed_step: int | None = _row(
        Kind.COUNT, Seen.WITHOUT_RULE, "number of the storlet that failed, of several",
        default=None)
    auth_seconds: float | None = _row(
        Kind.SECONDS, Seen.CALLER, "checks of the request, until the storlets were known",
        default=None)
    queue_seconds: float | None = _row(
        Kind.SECONDS, Seen.CALLER, "wait for slots of nodes", default=None)
    cold_start_seconds: float | None = _row(
        Kind.SECONDS, Seen.CALLER,
        "from the slot until the sandbox has the run; next to nothing when warm", default=None)
    code_seconds: float | None = _row(
        Kind.SECONDS, Seen.CALLER, "of a cold start: the fetch of the code", default=None)
    sandbox_seconds: float | None = _row(
        Kind.SECONDS, Seen.CALLER,
        "of a cold start: the wait for the sandbox, which starts during the fetch", default=None)
    worker_seconds: float | None = _row(
        Kind.SECONDS, Seen.CALLER,
        "after that, until a worker has begun; a new one loads the code", default=None)
    first_byte_seconds: float | None = _row(
        Kind.SECONDS, Seen.CALLER, "from the request to the first byte of output, or to its end",
        default=None)
    total_seconds: float = _row(
        Kind.SECONDS, Seen.CALLER, "from the request to the end of the run")
    cpu_seconds: float | None = _row(
        Kind.SECONDS, Seen.WITHOUT_RULE, "CPU time of the storlets", default=None)
    peak_memory_bytes: int | None = _row(
        Kind.BYTES, Seen.WITHOUT_RULE, "peak memory of the storlets", default=None)
    bytes_in: int | None = _row(
        Kind.BYTES, Seen.WITHOUT_RULE, "input that the storlet has taken", default=None)
    bytes_out: int | None = _row(
        Kind.BYTES, Seen.WITHOUT_RULE, "output, further ones included", default=None)
    service_operations: int | None = _row(
        Kind.COUNT, Seen.WITHOUT_RULE, "operations of the storlets on the store", default=None)
    service_bytes_in: int | None = _row(
        Kind.BYTES, Seen.WITHOUT_RULE, "bytes that the storlets read there", default=None)
    service_bytes_out: int | None = _row(
        Kind.BYTES, Seen.WITHOUT_RULE, "bytes that the storlets wrote there", default=None)
    output_sha256: str = _row(
        Kind.TEXT, Seen.WITHOUT_RULE,
        "of a success where all runs are recorded: SHA-256 of an output of at most 16 MiB",
        default="")
    traceparent: str = _row(
        Kind.TEXT, Seen.CALLER, "the request's header of this name (W3C Trace Context)",
        default="")
    traceback: str = _row(
        Kind.TEXT, Seen.OWNER, "of a failure: the storlet's traceback, its last 4 KiB", default="")
    log: str = _row(
        Kind.TEXT, Seen.OWNER, "of a failure: the last 4 KiB of the storlets' logs", default="")

    def __post_init__(self) -> None:
        self.outcome = outcome_of(self.code)

    @property
    def is_failure(self) -> bool:
        """Whether the run gave no result."""
        return self.code != OK

    @property
    def size_bytes(self) -> int:
        """About the memory that the record takes until it is written."""
        given = (text for pair in (self.parameters or {}).items() for text in pair)
        texts = (
            self.object, self.target, *self.outputs, *self.resources, *self.resource_etags,
            *given, self.range, self.caller, *(storlet.name for storlet in self.storlets),
            self.message, self.traceback, self.log,
        )
        return _FIXED_BYTES + sum(map(len, texts))

    def mapping(self) -> dict[str, Any]:
        """The JSON object: the known fields."""
        # A busy process encodes hundreds a second: no call for each field.  Zero is known.
        shown = {
            name: value
            for name, value in zip(_NAMES, _values_of(self), strict=True)
            if value is not None and value is not False and value not in ("", ())
        }
        for name in _SECONDS & shown.keys():
            shown[name] = round(shown[name], 6)
        shown["time"] = time_text(self.time)
        shown["storlets"] = [_of_storlet(storlet) for storlet in self.storlets]
        return shown

    def as_line(self) -> bytes:
        """The record as a line of JSON."""
        return _ENCODER.encode(self.mapping()).encode() + b"\n"
# fmt: on


TABLE: Final = tuple(
    Row(field.name, *field.metadata[_ROW])
    for field in dataclasses.fields(Record)
    if _ROW in field.metadata
)
_NAMES: Final = tuple(row.name for row in TABLE)
_values_of: Final = operator.attrgetter(*_NAMES)
_SECONDS: Final = {row.name for row in TABLE if row.kind is Kind.SECONDS}
_ENCODER: Final = json.JSONEncoder(separators=(",", ":"))
_FIXED_BYTES: Final = 1500


def _of_storlet(storlet: StorletRef) -> dict[str, str]:
    return {name: value for name, value in vars(storlet).items() if value}


def time_text(seconds: float) -> str:
    """``2026-11-23T19:11:17.123456Z``."""
    moment = datetime.fromtimestamp(seconds, UTC)
    return moment.isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"


def one_line(text: str) -> str:
    """``text`` as the message of a record."""
    return " ".join(text.split())[:_TEXT_LENGTH]


def tail(text: str | bytes) -> str:
    """The end of ``text``, at most :data:`LOG_BYTES` long."""
    data = text if isinstance(text, bytes) else text.encode("utf-8", "backslashreplace")
    return data[-LOG_BYTES:].decode("utf-8", "replace")


# --- what a caller sees ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Viewer:
    """The caller that reads records.

    :param caller: the user's name; ``caller_id``: Keystone's id.
    """

    is_owner: bool
    caller: str = ""
    caller_id: str = ""

    def view(self, record: Mapping[str, Any]) -> dict[str, Any] | None:
        """The fields of a record, as JSON has them, that the caller sees; ``None`` for the record
        of another caller's run.
        """
        if self.is_owner:
            return dict(record)
        if not self._is_own(record):
            return None
        return {
            row.name: record[row.name]
            for row in TABLE
            if row.name in record and _is_seen(row.seen, record)
        }

    def _is_own(self, record: Mapping[str, Any]) -> bool:
        # Names of Keystone's users are unique in a domain only, and can change.
        if self.caller_id or "caller_id" in record:
            return bool(self.caller_id) and record.get("caller_id") == self.caller_id
        return bool(self.caller) and record.get("caller") == self.caller


def _is_seen(seen: Seen, record: Mapping[str, Any]) -> bool:
    if seen is Seen.WITHOUT_RULE:
        return "rule" not in record
    if seen is Seen.OWN_TEXT:
        row = row_of(str(record.get("code")))
        return "rule" not in record and not (row.has_tenant_text or row.has_source_text)
    return seen is Seen.CALLER
