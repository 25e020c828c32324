"""Headers of an object that a storlet made, checked before Swift's object servers see them.

A PUT that an object server refuses while its body is on the way looks like a broken connection to
Swift's proxy, which counts it as an error of the node.  After ten such errors in a minute the proxy
stops using the node, for all tenants.  So the invariant is:

    **No PUT of ours reaches an object server unless it is known that the server accepts its
    headers.**

Swift's proxy does not ensure that.  It checks the headers in memory, but the object server checks
the headers that it parsed from the connection.  There, white space around values is removed, a name
outside of ASCII ends Python's header parser, and the number and the total size of headers are
limited.  The proxy's HTTP client raises for a line break in a name, which that parser takes.
:func:`require_storable` therefore writes the request as the proxy would, reads it with the HTTP
parser of Swift's servers, and applies the object server's own checks to the parsed request.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, Final

from eventlet.wsgi import MAX_REQUEST_LINE, STATE_IDLE
from swift.common import constraints
from swift.common.header_key_dict import HeaderKeyDict
from swift.common.http_protocol import SwiftHttpProtocol
from swift.common.swob import Request, wsgi_to_bytes
from swift.proxy.controllers.obj import check_content_type

from storlet_middleware import errors, names
from storlet_middleware.errors import BadRequest, Unprocessable
from storlet_middleware.wsgi import sent_headers
from storlet_middleware.wsgi.strings import wsgi

#: Space left for the headers that Swift adds on the way to an object server: its own, and with
#: encryption at rest up to 200 bytes for each item of user metadata.
_SWIFTS_HEADERS: Final = {f"X-Backend-Reserved-{number}": "x" * 1000 for number in range(24)}
#: HTTP knows no white space around a header's value.
_WHITE_SPACE: Final = " \t"


def set_metadata(headers: Any, metadata: Mapping[str, str]) -> None:
    """Put a storlet's metadata into ``headers`` (WSGI strings): ``Content-Type`` is itself, any
    other key user metadata.

    White space around a value is removed, as HTTP does.  An empty value removes the source's item
    under that key.
    """
    for key, value in metadata.items():
        name = wsgi("Content-Type" if key.lower() == "content-type" else names.OBJECT_META + key)
        stripped = value.strip(_WHITE_SPACE)
        if stripped:
            headers[name] = wsgi(stripped)
        else:
            headers.pop(name, None)


def require_storable(request: Any, metadata: Mapping[str, str]) -> None:
    """Raise unless an object server accepts the headers of ``request``.

    :param request: the PUT (swob), with the storlet's metadata in its headers.
    :param metadata: the metadata that the storlet set for its output.
    :raises Unprocessable: the storlet's metadata is at fault; all faults at once.
    :raises BadRequest: the client's own headers are at fault.
    """
    over, faults = _faults_of(request, metadata)
    if not over and not faults:
        refusal = _refusal_of(request)
        if refusal is None:
            return
        if _refusal_of(_without_metadata(request, metadata)) is not None:
            raise BadRequest(
                f"Swift does not store an object with the headers of this request: {refusal}"
            )
        faults = [refusal]
    text = "; ".join(over + faults)
    raise Unprocessable(
        f"the storlet's metadata cannot be stored: {text}",
        code=errors.STORLET_FAILED if faults else errors.LIMIT_METADATA,
    )


def _faults_of(request: Any, metadata: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Two lists of faults: items above a limit of Swift, and other faults of single items of
    ``metadata``.
    """
    over, faults = [], []
    for key, value in metadata.items():
        if key.lower() == "content-type":
            if any(part.lstrip().startswith("swift_") for part in value.split(";")[1:]):
                faults.append("Content-Type: parameters that begin with swift_ are reserved")
            continue
        name, size = wsgi(key), len(wsgi(value.strip(_WHITE_SPACE)))
        if len(name) > constraints.MAX_META_NAME_LENGTH:
            over.append(
                f"{key}: a name of {len(name)} bytes,"
                f" {constraints.MAX_META_NAME_LENGTH} are allowed"
            )
        if size > constraints.MAX_META_VALUE_LENGTH:
            over.append(
                f"{key}: a value of {size} bytes, {constraints.MAX_META_VALUE_LENGTH} are allowed"
            )
    prefix = names.OBJECT_META.lower()
    items = [
        (key, value) for key, value in request.headers.items() if key.lower().startswith(prefix)
    ]
    if metadata and len(items) > constraints.MAX_META_COUNT:
        over.append(f"{len(items)} items of metadata, {constraints.MAX_META_COUNT} are allowed")
    size = sum(len(key) - len(prefix) + len(value) for key, value in items)
    if metadata and size > constraints.MAX_META_OVERALL_SIZE:
        over.append(f"{size} bytes of metadata, {constraints.MAX_META_OVERALL_SIZE} are allowed")
    return over, faults


def _without_metadata(request: Any, metadata: Mapping[str, str]) -> Any:
    """``request`` without the storlet's metadata."""
    plain = Request(dict(request.environ))
    set_metadata(plain.headers, dict.fromkeys(metadata, ""))
    return plain


def _refusal_of(request: Any) -> str | None:
    """Why an object server would refuse ``request``; ``None`` where it accepts it."""
    sent = HeaderKeyDict(dict(request.headers))
    # Swift's proxy guesses a type that is missing, adds the time, and sends the body in chunks.
    sent["Content-Type"] = sent.get("Content-Type") or "application/octet-stream"
    sent |= {
        "Transfer-Encoding": "chunked",
        "Referer": request.as_referer(),
        "X-Timestamp": "0000000001.00000",
    }
    unsendable = [key for key, value in sent.items() if not sent_headers.can_send(key, value)]
    if unsendable:
        return f"HTTP cannot carry the header {unsendable[0]!r}, or its value"
    received = _sent_and_parsed(HeaderKeyDict(sent | _SWIFTS_HEADERS))
    if received is None:
        return "there are too many headers, or their names and values are too long"
    lost = [
        key for key, value in sent.items() if received.headers.get(key) != value.strip(_WHITE_SPACE)
    ]
    if lost:
        return f"the header {lost[0]} would not arrive at an object server as it is"
    # A path without a name's length: Swift's proxy has checked the name itself.
    refusal = constraints.check_object_creation(received, "o") or check_content_type(received)
    return (
        None
        if refusal is None
        else f"{refusal.status_int} {(refusal.body or b'').decode(errors='replace')}".strip()
    )


def _sent_and_parsed(headers: Mapping[str, str]) -> Any:
    """A request with ``headers`` as Swift's HTTP parser gives it to an object server; ``None``
    where it refuses it.
    """
    lines = b"".join(
        wsgi_to_bytes(key) + b": " + wsgi_to_bytes(value) + b"\r\n"
        for key, value in headers.items()
    )
    received = _Reader(b"PUT /d/0/a/c/o HTTP/1.1\r\n" + lines + b"\r\n").received
    return None if received is None else Request(received)


class _Reader(SwiftHttpProtocol):
    """The HTTP parser of Swift's servers, reading one request from memory and answering nothing.

    :attr:`received` is the environment that an application would be called with; ``None`` where the
    request was refused.
    """

    def __init__(self, request: bytes) -> None:
        self.received: dict[str, Any] | None = None
        self.rfile, self.wfile = io.BytesIO(request), io.BytesIO()
        address = ("127.0.0.1", 0)
        connection = SimpleNamespace(settimeout=lambda _: None, getsockname=lambda: address)
        super().__init__([address, connection, STATE_IDLE], _SERVER)

    def setup(self) -> None:
        self.connection = self.request

    def handle(self) -> None:
        self.handle_one_request()

    def handle_one_response(self) -> None:
        self.received = self.environ

    def finish(self) -> None:
        """There is no connection to close."""

    def log_message(self, *_: Any) -> None:
        """The caller reports the fault."""


#: The attributes of the parser's server that it reads.
_SERVER: Final = SimpleNamespace(
    app=SimpleNamespace(),
    capitalize_response_headers=True,
    get_environ=dict,
    keepalive=True,
    max_http_version=None,
    minimum_chunk_size=None,
    outstanding_requests=0,
    socket_timeout=None,
    url_length_limit=MAX_REQUEST_LINE,
)
