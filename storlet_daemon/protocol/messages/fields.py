"""How a message class describes itself, and how a JSON object is read into one.

The annotation of a field gives its type, ``wire(reader)`` gives what is accepted from the wire.
``parse`` reads a JSON object into one of the classes allowed at that point and reports all faults
together. It ignores keys that the class does not define, so a newer peer may send more.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, TypeVar

from storlet_daemon.protocol.values import dataclass

VERSION = 1
MESSAGE_MAX = 65536
"""Bytes of one message."""
DESCRIPTORS_MAX = 32
BAD_REQUEST = "bad_request"
"""Error code of a request that is no message of the protocol."""


class ProtocolError(Exception):
    """The peer violated the protocol. ``faults`` lists every violation found, one line each."""

    def __init__(self, faults: Iterable[str]) -> None:
        self.faults = tuple(faults)
        super().__init__("; ".join(self.faults))


# Readers: what a key may hold. Each returns the value, or notes a fault and returns anything.

Reader = Callable[[Any, str, list[str]], Any]
_COUNT_MAX = 2**63 - 1
_M = TypeVar("_M")


def read_text(value: Any, where: str, faults: list[str]) -> Any:
    if not isinstance(value, str):
        faults.append(f"{where} is not text")
    return value


def read_name(value: Any, where: str, faults: list[str]) -> Any:
    if not isinstance(value, str) or not value or "\0" in value:
        faults.append(f"{where} is not text of at least one character")
    return value


def read_file_name(value: Any, where: str, faults: list[str]) -> Any:
    """The name of a file inside one folder; any other path could lead out of it."""
    is_name = isinstance(value, str) and value not in ("", ".", "..")
    if not is_name or "/" in value or "\0" in value:
        faults.append(f"{where} is not a file name")
    return value


_HASH = re.compile("[0-9a-f]{64}")


def read_hash(value: Any, where: str, faults: list[str]) -> Any:
    """The hash that identifies a storlet version or its code."""
    if not isinstance(value, str) or not _HASH.fullmatch(value):
        faults.append(f"{where} is not 64 hexadecimal digits")
    return value


def read_count(value: Any, where: str, faults: list[str]) -> Any:
    # bool is an int in Python and not in JSON
    if type(value) is not int or not 0 <= value <= _COUNT_MAX:
        faults.append(f"{where} is not a whole number from 0")
    return value


def read_number(value: Any, where: str, faults: list[str]) -> Any:
    if type(value) not in (int, float) or not 0 <= value <= _COUNT_MAX:
        faults.append(f"{where} is not a number from 0")
    return value


def read_flag(value: Any, where: str, faults: list[str]) -> Any:
    if not isinstance(value, bool):
        faults.append(f"{where} is neither true nor false")
    return value


def read_object(value: Any, where: str, faults: list[str]) -> Any:
    if not isinstance(value, dict):
        faults.append(f"{where} is not an object")
    return value


def read_texts_by_name(value: Any, where: str, faults: list[str]) -> Any:
    if not isinstance(value, dict):
        faults.append(f"{where} is not an object")
    else:
        for key, item in value.items():
            if not isinstance(item, str):
                faults.append(f"{where}.{key} is not text")
    return value


def one_of(*allowed: str) -> Reader:
    def read(value: Any, where: str, faults: list[str]) -> Any:
        if not isinstance(value, str) or value not in allowed:
            faults.append(f"{where} is none of {', '.join(allowed)}")
        return value

    return read


def each(reader: Reader) -> Reader:
    def read(value: Any, where: str, faults: list[str]) -> Any:
        if not isinstance(value, list):
            faults.append(f"{where} is not a list")
            return value
        found = []
        for position, item in enumerate(value):
            found.append(reader(item, f"{where}[{position}]", faults))
        return tuple(found)

    return read


def record(kind: type[_M]) -> Reader:
    def read(value: Any, where: str, faults: list[str]) -> Any:
        if not isinstance(value, dict):
            faults.append(f"{where} is not an object")
            return value
        return _build(kind, value, f"{where}.", faults)

    return read


def wire(reader: Reader, **options: Any) -> Any:
    """A dataclass field whose value from the wire goes through ``reader``."""
    return dataclasses.field(metadata={"reader": reader}, **options)


_Rows = tuple[tuple[str, Reader, bool], ...]


class _RowsByClass(dict[type, _Rows]):
    """Name, reader and is-required of each field of a class.

    Computed once per class, because every invocation uses it.
    """

    def __missing__(self, kind: type) -> _Rows:
        none = dataclasses.MISSING
        rows = self[kind] = tuple(
            (
                field.name,
                field.metadata["reader"],
                field.default is none and field.default_factory is none,
            )
            for field in dataclasses.fields(kind)
        )
        return rows


_ROWS = _RowsByClass()


def _build(kind: type[_M], fields: Mapping[str, Any], where: str, faults: list[str]) -> _M | None:
    values = {}
    before = len(faults)
    for name, reader, is_required in _ROWS[kind]:
        value = fields.get(name)
        if value is not None:
            values[name] = reader(value, where + name, faults)
        elif is_required:
            faults.append(f"{where}{name} is missing")
    return kind(**values) if len(faults) == before else None


#: Classes whose values are JSON already.
_JSON = frozenset((str, int, float, bool, dict))


def _as_json(value: Any) -> Any:
    kind = type(value)
    if kind in _JSON:
        return value
    if isinstance(value, (tuple, list)):
        return [_as_json(item) for item in value]
    if kind not in _ROWS and not dataclasses.is_dataclass(kind):
        return dict(value)
    found = {}
    for name, _, _ in _ROWS[kind]:
        item = getattr(value, name)
        if item is not None:
            # Without a call for each scalar: an invocation has many.
            found[name] = item if type(item) in _JSON else _as_json(item)
    return found


@dataclass(frozen=True)
class Message:
    """Base of all messages: ``type``, whether it carries the version, how many descriptors."""

    TYPE: ClassVar[str] = ""
    IS_VERSIONED: ClassVar[bool] = False
    DESCRIPTORS: ClassVar[int] = 0

    def fields(self) -> dict[str, Any]:
        """The JSON object of this message, without the keys that have no value."""
        head: dict[str, Any] = (
            {"v": VERSION, "type": self.TYPE} if self.IS_VERSIONED else {"type": self.TYPE}
        )
        head.update(_as_json(self))
        return head

    def descriptor_faults(self, count: int) -> list[str]:
        """The faults of this message if ``count`` descriptors came with it."""
        if count == self.DESCRIPTORS:
            return []
        return [f"{self.TYPE} came with {count} descriptors, it needs {self.DESCRIPTORS}"]


Kinds = Mapping[str, "type[Message]"]
"""The message classes allowed at one point of the protocol, by ``type``."""


def parse(fields: Mapping[str, Any], kinds: Kinds, descriptors: int = 0) -> Any:
    """The message in ``fields``, one of ``kinds``, that came with ``descriptors`` descriptors.

    Raises ``ProtocolError`` with every fault. An unsupported version is reported alone, because
    nothing else can be checked then.
    """
    kind = kinds.get(fields["type"])
    if kind is None:
        raise ProtocolError([f"a message of type {fields['type']!r:.60} is not expected here"])
    version = fields.get("v")
    is_checked = kind.IS_VERSIONED or version is not None
    if is_checked and (type(version) is not int or version != VERSION):
        raise ProtocolError(
            [f"protocol version {version!r:.20} is not supported here, only {VERSION}"]
        )
    faults: list[str] = []
    message = _build(kind, fields, "", faults)
    if message is not None:
        faults = message.descriptor_faults(descriptors)
    if message is None or faults:
        raise ProtocolError(faults)
    return message


def kinds_of(*classes: type[Message]) -> Kinds:
    """A table of message classes by ``type``."""
    return {kind.TYPE: kind for kind in classes}
