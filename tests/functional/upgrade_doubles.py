"""Test doubles of a rolling upgrade: filters that replace the product's in one server of a cluster.

``test_rolling_upgrade.py`` copies this file to a separate folder, puts that folder on one server's
Python path, and names a factory of this file in that server's paste configuration.  The product has
no option for any of this.

=================  ===============================================================================
filter             behaviour
=================  ===============================================================================
``polite``         object node of version 2: sends frames of version 2 only, to proxies that
                   decode them
``eager``          object node of version 2 that sends its frames to every proxy
``description``    object node that reads descriptions of version 2 only
``full``           object node that never has a free slot
``backend``        proxy: sends the client's ``X-Test-Backend-*`` as ``X-Backend-*``, and back
=================  ===============================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from swift.common.utils import close_if_possible, get_logger

from storlet_middleware import names
from storlet_middleware.admission.controller import Slot
from storlet_middleware.backend import invocation_header
from storlet_middleware.backend.invocation_header import BackendInvocation
from storlet_middleware.config import load
from storlet_middleware.object_server.node import ObjectNode
from storlet_middleware.wsgi.bodies import ClosingIterator

#: Version 2 of the frames has every bit inverted: no decoder of version 1 reads one frame of it.
INVERTED = bytes(255 - value for value in range(256))
CLIENT_PREFIX = "X-Test-Backend-"


class Polite(ObjectNode):
    """Compares versions, like a node of a later release."""

    frame_version = "2"


class Eager(ObjectNode):
    """Does not compare versions, like the first release."""

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        """WSGI."""
        framed = False

        def start(status: str, headers: list[tuple[str, str]], *more: Any) -> Any:
            nonlocal framed
            framed = any(name == names.BACKEND_RUN for name, _ in headers)
            marked = [
                (name, "2" if name == names.BACKEND_RUN else value) for name, value in headers
            ]
            return start_response(status, marked, *more)

        body = super().__call__(environ, start)
        if not framed:
            return body
        return ClosingIterator(_inverted(body), lambda: close_if_possible(body))


def _inverted(body: Any) -> Iterator[bytes]:
    for chunk in body:
        yield chunk.translate(INVERTED)


class Full(ObjectNode):
    """Has no free slot, but can queue."""

    def _try_admit(self, description: BackendInvocation) -> Slot | None:
        return None


NODES: dict[str, type[ObjectNode]] = {
    "polite": Polite,
    "eager": Eager,
    "description": ObjectNode,
    "full": Full,
}


class Backend:
    """Lets a client send and see backend headers, which Swift's gatekeeper removes otherwise."""

    def __init__(self, app: Callable[..., Any]) -> None:
        self._app = app

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        """WSGI."""
        prefix = "HTTP_" + CLIENT_PREFIX.upper().replace("-", "_")
        for key in [key for key in environ if key.startswith(prefix)]:
            environ[f"HTTP_X_BACKEND_{key.removeprefix(prefix)}"] = environ.pop(key)

        def start(status: str, headers: list[tuple[str, str]], *more: Any) -> Any:
            seen = [
                (CLIENT_PREFIX + name[len("X-Backend-") :], value)
                for name, value in headers
                if name.lower().startswith("x-backend-storlet-")
            ]
            return start_response(status, [*headers, *seen], *more)

        return self._app(environ, start)


def node_factory(global_conf: dict[str, str], **local_conf: str) -> Callable[[Any], ObjectNode]:
    """Paste entry point at an object server; option ``double`` is a key of :data:`NODES`."""
    double = local_conf["double"]
    if double == "description":
        invocation_header.VERSION = "2"  # type: ignore[misc]
    config = load(local_conf["storlet_conf_path"])
    logger = get_logger({**global_conf, **local_conf}, log_route="storlets")
    return lambda app: NODES[double](app, config, logger)


def backend_factory(global_conf: dict[str, str], **local_conf: str) -> Callable[[Any], Backend]:
    """Paste entry point at a proxy."""
    return Backend
