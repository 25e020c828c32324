"""What the proxy tells an object node about an invocation, in ``X-Backend-Storlet-*`` headers.

The description is JSON in ASCII, cut into headers that every server accepts.  It is believed: Swift's gatekeeper strips
``X-Backend-*`` from clients, and object servers are reached by proxies only.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from storlet_middleware import names
from storlet_middleware.engine.storlet_version import StorletVersion
from storlet_middleware.wsgi.storlet_request import ByteRange

#: Swift's servers accept header lines of 8,192 bytes and some 90 headers.
_PIECE: Final = 7000
_MAX_PIECES: Final = 6
_ENVIRON_KEY: Final = "HTTP_" + names.BACKEND_INVOCATION.upper().replace("-", "_")


@dataclass(frozen=True)
class BackendInvocation:
    """One invocation as an object node needs to know it.  ``gulp`` is the proxy's ``object_chunk_size`` in bytes; ``limits`` are
    the request's own, which the node applies under the maxima of its own configuration."""

    id: str
    storlet: StorletVersion
    parameters: Mapping[str, str]
    ranges: tuple[ByteRange, ...]
    wants_log: bool
    gulp: int
    limits: Mapping[str, float] = field(default_factory=dict)

    def to_headers(self) -> dict[str, str] | None:
        """The headers, or ``None`` when the description is too long for any and the storlet has to run at the proxy."""
        data = json.dumps(
            {
                "id": self.id,
                "storlet": self.storlet.text,
                "parameters": dict(self.parameters),
                "ranges": self.ranges,
                "log": self.wants_log,
                "gulp": self.gulp,
                "limits": dict(self.limits),
            },
            separators=(",", ":"),
        )
        pieces = [data[at : at + _PIECE] for at in range(0, len(data), _PIECE)]
        if len(pieces) > _MAX_PIECES:
            return None
        # Nearly always one header says it all: each one is handled a dozen times on its way.
        headers = {f"{names.BACKEND_INVOCATION}-{index}": piece for index, piece in enumerate(pieces[1:], 1)}
        return {names.BACKEND_INVOCATION: f"{len(pieces)} {pieces[0]}", **headers}

    @classmethod
    def from_environ(cls, environ: Mapping[str, Any]) -> BackendInvocation | None:
        """The description in a request, ``None`` when it has none; raises ``ValueError`` when it is broken."""
        header = environ.get(_ENVIRON_KEY)
        if header is None:
            return None
        try:
            count, piece = header.split(" ", 1)
            further = (environ[f"{_ENVIRON_KEY}_{index}"] for index in range(1, int(count)))
            message = json.loads("".join([piece, *further]))
            return cls(
                id=message["id"],
                storlet=StorletVersion.from_text(message["storlet"]),
                parameters=message["parameters"],
                ranges=tuple((first, last) for first, last in message["ranges"]),
                wants_log=message["log"],
                gulp=message["gulp"],
                limits={str(name): float(value) for name, value in message["limits"].items()},
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{names.BACKEND_INVOCATION}: {error!r}") from error
