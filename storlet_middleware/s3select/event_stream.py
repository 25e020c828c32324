"""S3's event stream: messages with headers, a payload and two checksums.

::

    total bytes (4) | bytes of headers (4) | CRC32 of these | headers | payload | CRC32 of all

A header is its name and a text, each after its length.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from typing import Final
from xml.sax.saxutils import escape

from storlet_middleware.wsgi.s3_errors import xml_text

_PRELUDE: Final = struct.Struct(">II")
_CRC: Final = struct.Struct(">I")
_TEXT: Final = 7
#: Around headers and payload: the prelude and two checksums.
_OVERHEAD: Final = _PRELUDE.size + 2 * _CRC.size
#: Bound of the text of an error, in bytes.
_MOST_TEXT: Final = 4096
#: Codes of failures that another attempt may not have.
_TRANSIENT: Final = frozenset({"InternalError", "RequestTimeout", "ServiceUnavailable", "SlowDown"})


def records(data: bytes) -> bytes:
    """A message with data of the result."""
    return _event("Records", data, "application/octet-stream")


def stats(scanned: int, processed: int, returned: int) -> bytes:
    """The message with the bytes of a complete result."""
    return _event("Stats", _counts("Stats", scanned, processed, returned), "text/xml")


def progress(scanned: int, processed: int, returned: int) -> bytes:
    """The message with the bytes so far."""
    return _event("Progress", _counts("Progress", scanned, processed, returned), "text/xml")


def keep_alive() -> bytes:
    """A message without a meaning, which shows that the server works."""
    return _event("Cont", b"")


def end() -> bytes:
    """The last message of a complete result."""
    return _event("End", b"")


def error(code: str, text: str) -> bytes:
    """The last message of a result that is not complete.

    S3 sends no payload.  The SDK for Java 2 reads only a payload, in the form of errors that have a
    status; most other clients read only the headers.
    """
    shown = text.encode("utf-8", "replace")[:_MOST_TEXT].decode("utf-8", "ignore")
    return message(
        {":error-code": code, ":error-message": shown, ":message-type": "error"},
        _error_xml(code, xml_text(shown)),
    )


def _error_xml(code: str, text: str) -> bytes:
    if code in _TRANSIENT:
        # The SDK repeats a request with such a code, also after records: the caller would have the
        # records of each attempt.
        inner = f"<Message>{code}: {escape(text)}</Message>"
    else:
        inner = f"<Code>{escape(code)}</Code><Message>{escape(text)}</Message>"
    return f'<?xml version="1.0" encoding="UTF-8"?><Error>{inner}</Error>'.encode()


def message(headers: Mapping[str, str], payload: bytes) -> bytes:
    """One message.  Names have up to 255 bytes, values up to 65,535."""
    encoded = b"".join(_header(name, value) for name, value in headers.items())
    total = _OVERHEAD + len(encoded) + len(payload)
    prelude = _PRELUDE.pack(total, len(encoded))
    body = b"".join((prelude, _CRC.pack(zlib.crc32(prelude)), encoded, payload))
    return body + _CRC.pack(zlib.crc32(body))


def _header(name: str, value: str) -> bytes:
    name_bytes, value_bytes = name.encode(), value.encode()
    return (
        struct.pack(">B", len(name_bytes))
        + name_bytes
        + struct.pack(">BH", _TEXT, len(value_bytes))
        + value_bytes
    )


def _event(kind: str, payload: bytes, content_type: str = "") -> bytes:
    headers = {":event-type": kind}
    if content_type:
        headers[":content-type"] = content_type
    return message(headers | {":message-type": "event"}, payload)


def _counts(name: str, scanned: int, processed: int, returned: int) -> bytes:
    return (
        f'<?xml version="1.0" encoding="UTF-8"?><{name}><BytesScanned>{scanned}</BytesScanned>'
        f"<BytesProcessed>{processed}</BytesProcessed><BytesReturned>{returned}</BytesReturned>"
        f"</{name}>"
    ).encode()
