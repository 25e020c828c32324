"""Send and receive one message: a JSON object in one SOCK_SEQPACKET record, with descriptors.

Input may come from a tenant's code and is not trusted: the size, nesting, text and descriptors of a
record are bounded and checked before it is interpreted. If a check fails, the descriptors of the
record are closed and ``ProtocolError`` is raised; the caller then closes the connection.

The functions work on blocking and on non-blocking sockets. They never wait by themselves: they
raise ``BlockingIOError`` (or another ``OSError``), and then nothing has been sent or received.
"""

from __future__ import annotations

import array
import json
import socket
from collections.abc import Iterable, Mapping
from typing import Any

from storlet_daemon.protocol import messages
from storlet_daemon.protocol.descriptors import Descriptors

MESSAGE_MAX = messages.MESSAGE_MAX
DESCRIPTORS_MAX = messages.DESCRIPTORS_MAX
DEPTH_MAX = 8

ProtocolError = messages.ProtocolError

# Plain integers: the operators of the enumeration would cost more than the system calls.
_NO_SIGNAL = int(socket.MSG_NOSIGNAL)
_CLOSE_ON_EXEC = int(socket.MSG_CMSG_CLOEXEC)
_CUT = int(socket.MSG_TRUNC | socket.MSG_CTRUNC)
_INT_BYTES = array.array("i").itemsize
_ANCILLARY_BYTES = socket.CMSG_SPACE(DESCRIPTORS_MAX * _INT_BYTES)


#: Of records without descriptors, nearly all; it never gets one.
_NO_DESCRIPTORS = Descriptors()


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_no_constant)
_ENCODER = json.JSONEncoder(
    ensure_ascii=False, separators=(",", ":"), allow_nan=False, check_circular=False
)


class Received:
    """One record: its raw JSON object, and its descriptors, which the holder of this value owns."""

    __slots__ = ("descriptors", "fields")

    def __init__(self, fields: Mapping[str, Any], descriptors: Descriptors) -> None:
        self.fields = fields
        self.descriptors = descriptors

    def message(self, kinds: messages.Kinds) -> Any:
        """The typed message, one of ``kinds``.

        Closes the descriptors before it raises ``ProtocolError``, which lists all faults.
        """
        try:
            # Not len() of the usual ones: it is a Python call for each event.
            has_some = self.descriptors is not _NO_DESCRIPTORS
            count = len(self.descriptors) if has_some else 0
            return messages.parse(self.fields, kinds, count)
        except ProtocolError:
            self.descriptors.close()
            raise


def encode(message: messages.Message) -> bytes:
    """The bytes of ``message``; half of a surrogate pair, which is not Unicode, becomes ``?``."""
    return encode_fields(message.fields())


def encode_fields(fields: Mapping[str, Any]) -> bytes:
    """The bytes of a JSON object; ``ProtocolError`` if they exceed ``MESSAGE_MAX``."""
    data = _ENCODER.encode(fields).encode("utf-8", "replace")
    if len(data) > MESSAGE_MAX:
        raise ProtocolError([f"the message has {len(data)} bytes, more than {MESSAGE_MAX}"])
    return data


def decode(data: bytes, *, is_cut: bool = False) -> dict[str, Any]:
    """The JSON object in ``data``; ``ProtocolError`` for anything else or a cut record."""
    if is_cut:
        raise ProtocolError(
            [f"more than {MESSAGE_MAX} bytes or {DESCRIPTORS_MAX} descriptors in a message"]
        )
    try:
        fields = _DECODER.decode(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ProtocolError([f"not JSON: {error}"]) from None
    if not isinstance(fields, dict):
        raise ProtocolError(["not a JSON object"])
    # A bracket opens each level, so only data with many brackets needs the walk.
    if data.count(b"{") + data.count(b"[") > DEPTH_MAX and _depth(fields) > DEPTH_MAX:
        raise ProtocolError([f"nested deeper than {DEPTH_MAX} levels"])
    if b"\\u" in data and not _is_unicode(fields):
        raise ProtocolError(["text that is not Unicode: half of a surrogate pair"])
    if not isinstance(fields.get("type"), str):
        raise ProtocolError(["the message has no type"])
    return fields


def send(connection: socket.SocketType, message: messages.Message, fds: Iterable[int] = ()) -> None:
    """Send ``message`` with duplicates of ``fds``; the caller keeps and owns its descriptors."""
    send_bytes(connection, encode(message), fds)


def send_bytes(connection: socket.SocketType, data: bytes, fds: Iterable[int] = ()) -> None:
    """Send one record with duplicates of ``fds``; not empty, which would mean the end."""
    rights = array.array("i", fds)
    if not rights:
        connection.send(data, _NO_SIGNAL)
        return
    if len(rights) > DESCRIPTORS_MAX:
        raise ProtocolError([f"{len(rights)} descriptors, more than {DESCRIPTORS_MAX}"])
    connection.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)], _NO_SIGNAL)


def receive(connection: socket.SocketType, flags: int = 0) -> Received | None:
    """The next record, or ``None`` if the peer has closed. Its descriptors are close-on-exec."""
    flags |= _CLOSE_ON_EXEC
    return _received(*connection.recvmsg(MESSAGE_MAX, _ANCILLARY_BYTES, flags))


def receive_message(
    connection: socket.SocketType,
    kinds: messages.Kinds,
    usual: Mapping[bytes, messages.Message],
) -> Any:
    """The message in the next record, one of ``kinds``, or ``None`` if the peer has closed.

    Messages of ``usual`` are recognised by their bytes: nearly every invocation has the same, and
    decoding costs more than receiving.
    """
    record = connection.recvmsg(MESSAGE_MAX, _ANCILLARY_BYTES, _CLOSE_ON_EXEC)
    message = usual.get(record[0])
    if message is not None and not record[1]:
        return message
    received = _received(*record)
    return None if received is None else received.message(kinds)


def _received(
    data: bytes, ancillary: list[tuple[int, int, bytes]], found: int, _address: object
) -> Received | None:
    descriptors = _descriptors_of(ancillary) if ancillary else _NO_DESCRIPTORS
    if not data and not ancillary:
        return None
    try:
        return Received(decode(data, is_cut=bool(found & _CUT)), descriptors)
    except BaseException:
        descriptors.close()
        raise


def _descriptors_of(ancillary: list[tuple[int, int, bytes]]) -> Descriptors:
    descriptors = Descriptors()
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            rights = array.array("i")
            rights.frombytes(data[: len(data) - len(data) % _INT_BYTES])
            for fd in rights:
                descriptors.add(fd)
    return descriptors


def _depth(value: object) -> int:
    level: list[object] = [value]
    depth = 0
    while level:
        nested = [item for item in level if isinstance(item, (dict, list))]
        if not nested or depth > DEPTH_MAX:
            return depth
        depth += 1
        level = [
            child
            for item in nested
            for child in (item.values() if isinstance(item, dict) else item)
        ]
    return depth


def _is_unicode(value: object) -> bool:
    try:
        _ENCODER.encode(value).encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
