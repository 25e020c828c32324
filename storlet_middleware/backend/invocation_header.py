"""The description of an invocation that a proxy sends to an object node, in backend headers.

The description is JSON in ASCII, cut into headers that every server accepts.  The node trusts it:
Swift's gatekeeper removes ``X-Backend-*`` from clients' requests, and only proxies can reach object
servers.

A node that does not know the description's version answers with plain data.  A node ignores keys
that it does not know, so a new key needs no new version unless a node that ignores it would give a
wrong result.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from storlet_middleware import names
from storlet_middleware.backend import frames
from storlet_middleware.engine.storlet_version import StorletVersion
from storlet_middleware.wsgi.byte_ranges import ByteRange

#: Swift's servers accept header lines of 8,192 bytes and some 90 headers.
_PIECE: Final = 7000
_MAX_PIECES: Final = 6
#: The version of the description.  Descriptions without one are of version 1, and their senders
#: decode frames of version 1: the first release sent neither key.
VERSION: Final = "1"
_FIRST_VERSION: Final = "1"
#: The version of a description of a bundle, which a node of the first releases cannot unpack.
BUNDLE_VERSION: Final = "1-bundle"
#: The version of a description of a storlet of the library, which an older node would look for in
#: the account.
LIBRARY_VERSION: Final = "1-library"
#: The version of a description of a storlet that seeks in its input, which an older node would
#: give a stream.
SEEKABLE_VERSION: Final = "1-seekable"
#: Key of the first header in an environment.
ENVIRON_KEY: Final = names.environ_key(names.BACKEND_INVOCATION)
# Made once: ``json.dumps`` with options makes an encoder for each description.
_ENCODER: Final = json.JSONEncoder(separators=(",", ":"))
_DECODER: Final = json.JSONDecoder()


class UnknownVersion(ValueError):
    """The description has a version that this node cannot read."""


@dataclass(frozen=True)
class BackendInvocation:
    """One invocation, as an object node needs it.

    :param chunk_bytes: the proxy's ``object_chunk_size`` in bytes.
    :param limits: the request's own limits; the node applies them under the maxima of its own
        configuration.
    :param keeps_log_tail: if the run fails, send the end of its log, for its record.
    :param frame_versions: the versions of :mod:`storlet_middleware.backend.frames` that the proxy
        can decode.
    :param log_delay_seconds: a run that lasts longer sends its log in pieces while it runs;
        ``None`` if the proxy cannot decode them.
    """

    id: str
    storlet: StorletVersion
    parameters: Mapping[str, str]
    ranges: tuple[ByteRange, ...]
    wants_log: bool
    chunk_bytes: int
    limits: Mapping[str, float] = field(default_factory=dict)
    frame_versions: tuple[str, ...] = frames.DECODABLE
    keeps_log_tail: bool = False
    log_delay_seconds: float | None = None

    def to_headers(self) -> dict[str, str] | None:
        """The headers; ``None`` if the description is too long for them.

        The storlet has to run at the proxy then.
        """
        data = _ENCODER.encode(
            {
                "version": _version_of(self.storlet),
                "frames": self.frame_versions,
                "id": self.id,
                "storlet": self.storlet.for_node,
                "parameters": dict(self.parameters),
                "ranges": self.ranges,
                "log": self.wants_log,
                "log_tail": self.keeps_log_tail,
                "log_delay": self.log_delay_seconds,
                "gulp": self.chunk_bytes,
                "limits": dict(self.limits),
            }
        )
        count = -(-len(data) // _PIECE)
        if count > _MAX_PIECES:
            return None
        # The count and the first piece share a header, so one header is nearly always enough.
        # Swift handles each header a dozen times on its way.
        headers = {names.BACKEND_INVOCATION: f"{count} {data[:_PIECE]}"}
        for index in range(1, count):
            at = index * _PIECE
            headers[f"{names.BACKEND_INVOCATION}-{index}"] = data[at : at + _PIECE]
        return headers

    @classmethod
    def from_environ(cls, environ: Mapping[str, Any]) -> BackendInvocation | None:
        """The description in a request; ``None`` if the request has none.

        Raises :class:`UnknownVersion`, or another ``ValueError`` if the description is broken.
        """
        header = environ.get(ENVIRON_KEY)
        if header is None:
            return None
        try:
            count, data = header.split(" ", 1)
            for index in range(1, int(count)):
                data += environ[f"{ENVIRON_KEY}_{index}"]
            message = _DECODER.decode(data)
            version = message.get("version", _FIRST_VERSION)
            if version in (VERSION, BUNDLE_VERSION, LIBRARY_VERSION, SEEKABLE_VERSION):
                limits, log_delay = message["limits"].items(), message.get("log_delay")
                return cls(
                    id=message["id"],
                    storlet=StorletVersion.from_text(message["storlet"]),
                    parameters=message["parameters"],
                    ranges=tuple(map(_range_of, message["ranges"])),
                    wants_log=message["log"],
                    chunk_bytes=message["gulp"],
                    limits={str(name): float(value) for name, value in limits} if limits else {},
                    frame_versions=tuple(message.get("frames", (_FIRST_VERSION,))),
                    keeps_log_tail=bool(message.get("log_tail")),
                    log_delay_seconds=None if log_delay is None else float(log_delay),
                )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{names.BACKEND_INVOCATION}: {error!r}") from error
        raise UnknownVersion(f"{names.BACKEND_INVOCATION}: version {version!r} is not known")


def _range_of(pair: Any) -> ByteRange:
    first, last = pair
    return first, last


def _version_of(storlet: StorletVersion) -> str:
    if storlet.seekable:
        return SEEKABLE_VERSION
    if names.is_library(storlet.name):
        return LIBRARY_VERSION
    return BUNDLE_VERSION if storlet.digest else VERSION
