"""The filter at an object server: runs a storlet on the object's own file and answers in frames.

A GET with the description of an invocation has one of these answers:

==================  ========================================  ================================
answer              if                                        then
==================  ========================================  ================================
frames              the object is plain, and the storlet      the proxy sends the storlet's
                    runs here                                 output
plain data          the object is not plain, the node is      the proxy runs the storlet on
                    full, or the versions do not fit          the data
409 with a refusal  the node is full, the proxy avoids it,    Swift's proxy server tries
                    or Swift resumes a broken body            another replica
==================  ========================================  ================================

Frames are marked by the header ``X-Backend-Storlet-Run``.
See :mod:`storlet_middleware.backend.refusals` for the reasons that come with plain data and with
409.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Final
from urllib.parse import quote

from swift.common.swob import HTTPConflict, Request
from swift.common.utils import close_if_possible

from storlet_middleware import names
from storlet_middleware.admission.controller import ROOM, Slot
from storlet_middleware.backend import framed_etag, frames
from storlet_middleware.backend import overflow as overflow_modes
from storlet_middleware.backend.invocation_header import (
    ENVIRON_KEY,
    BackendInvocation,
    UnknownVersion,
)
from storlet_middleware.backend.refusals import Refusal
from storlet_middleware.catalog.library import LibraryFetcher, library_of
from storlet_middleware.config import Config
from storlet_middleware.engine.launcher import Launcher
from storlet_middleware.object_server.code_fetcher import CodeFetcher
from storlet_middleware.object_server.framed_run import FramedRun, NodeContext
from storlet_middleware.object_server.health import Health
from storlet_middleware.object_server.plain_object import StoredObject, duplicate, plain_file
from storlet_middleware.recon import DEFAULT_DIRECTORY, ReconCache
from storlet_middleware.wsgi.user_metadata import storlet_metadata

#: Headers of the object that would be wrong with frames, and one that Swift reads for fragments
#: only.  A header costs a proxy 30 calls of functions.
_NOT_WITH_FRAMES: Final = frozenset(
    ("accept-ranges", "content-length", "content-range", "etag", "x-backend-durable-timestamp")
)
#: Where Swift finds none, it reads ``x-backend-timestamp``: that of an object without a later POST
#: is the same.
_DATA_TIMESTAMP: Final = "x-backend-data-timestamp"
_OF_DATA_ONLY: Final = _NOT_WITH_FRAMES | {_DATA_TIMESTAMP}

_OVERFLOW_KEY: Final = names.environ_key(names.BACKEND_OVERFLOW)
_AVOID_KEY: Final = names.environ_key(names.BACKEND_AVOID)

StartResponse = Callable[..., Any]
WSGIApp = Callable[[dict[str, Any], StartResponse], Any]


class ObjectNode:
    """The filter at an object server.

    :param app: the object server.
    :param max_runs: limit of the storlets that run or wait in this process.
    :param recon_directory: Swift's ``recon_cache_path``.
    """

    #: The version of the frames that this node sends.
    frame_version: ClassVar[str] = frames.VERSION

    def __init__(
        self,
        app: WSGIApp,
        config: Config,
        logger: Any,
        max_runs: int = ROOM,
        recon_directory: str = DEFAULT_DIRECTORY,
    ) -> None:
        self._app = app
        self._logger = logger
        self._launcher = Launcher(config, logger, max_runs)
        self._library = library_of(config)
        others = CodeFetcher(config.storlet.internal_client_conf_path)
        fetcher = LibraryFetcher(self._library, others)
        health = Health(logger, ReconCache(recon_directory, logger))
        self._context = NodeContext(config, logger, self._launcher, fetcher, health)
        # As it is in headers.
        self._name = quote(config.sandbox.node_id, safe="")

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Any:
        """WSGI."""
        if ENVIRON_KEY not in environ or environ["REQUEST_METHOD"] != "GET":
            return self._app(environ, start_response)
        try:
            description = self._description(environ)
        except UnknownVersion as error:
            self._logger.debug("storlets: %s", error)
            return self._plain(environ, start_response, Refusal.VERSION)
        if description is None or "HTTP_IF_MATCH" in environ or "HTTP_IF_NONE_MATCH" in environ:
            # Swift's proxy server compares the conditions with the answer's ETag, and the ETag of
            # frames is not the object's.
            return self._app(environ, start_response)
        if "HTTP_RANGE" in environ:
            # The storlet's ranges are in the description.  This header comes from Swift's proxy
            # server, which resumes a broken body on another replica.  The output of another run
            # must not be appended to the first one's.
            return _refuse(environ, start_response, Refusal.RESUME)
        storlet = description.storlet
        is_unknown = names.is_library(storlet.name) and not self._library.has(storlet)
        if is_unknown or self.frame_version not in description.frame_versions:
            return self._plain(environ, start_response, Refusal.VERSION)
        return self._answer(environ, start_response, description)

    def _description(self, environ: dict[str, Any]) -> BackendInvocation | None:
        """The invocation in a request; ``None`` if its description is broken."""
        try:
            return BackendInvocation.from_environ(environ)
        except UnknownVersion:
            raise
        except ValueError:
            self._logger.exception("ERROR storlets: the description of an invocation is broken")
            return None

    def _plain(
        self, environ: dict[str, Any], start_response: StartResponse, reason: Refusal
    ) -> Any:
        """The object server's answer; the reason is added to data."""
        status, headers, body = Request(environ).call_application(self._app)
        if status.startswith("200 "):
            headers = [*headers, (names.BACKEND_REFUSAL, reason.value)]
        start_response(status, headers)
        return body

    def _answer(
        self, environ: dict[str, Any], start_response: StartResponse, description: BackendInvocation
    ) -> Any:
        """Frames, or the object server's answer if the storlet cannot run here.

        Ownership: ``reader`` belongs to this method until it is returned or closed (by
        :func:`duplicate` on success); the descriptor and the slot belong to the :class:`FramedRun`
        as soon as it exists.
        """
        # swob's Response is not used: to build one, and then its list of headers, would cost more
        # than the rest of this.
        status, headers, reader = Request(environ).call_application(self._app)
        by_name = {key.lower(): value for key, value in headers}
        file = plain_file(status, by_name, reader)
        if file is None:
            start_response(status, headers)
            return reader
        if self._name in environ.get(_AVOID_KEY, "").split(", "):
            close_if_possible(reader)
            return _refuse(environ, start_response, Refusal.UNABLE)
        slot, overflow = None, environ.get(_OVERFLOW_KEY)
        if overflow:
            slot = self._try_admit(description)
            if slot is None and overflow == overflow_modes.PROXY:
                start_response(status, [*headers, (names.BACKEND_REFUSAL, Refusal.FULL.value)])
                return reader
            if slot is None:
                close_if_possible(reader)
                return _refuse(environ, start_response, Refusal.FULL)
        try:
            size, metadata = int(by_name["content-length"]), storlet_metadata(dict(headers))
            stored = StoredObject(duplicate(file, reader), size, metadata)
        except BaseException:
            close_if_possible(reader)
            if slot is not None:
                slot.release()
            raise
        run = FramedRun(self._context, environ, description, stored, slot)
        length = run.gather()
        framed = self._framed_headers(headers, by_name)
        if length is not None:
            framed.append(("Content-Length", str(length)))
        start_response(status, framed)
        return run.body()

    def _try_admit(self, description: BackendInvocation) -> Slot | None:
        """A slot of this node without waiting; ``None`` if none is free."""
        resources = self._launcher.effective(description.storlet, description.limits).resources
        return self._launcher.try_admit(description.storlet, resources)

    def _framed_headers(
        self, headers: list[tuple[str, str]], by_name: dict[str, str]
    ) -> list[tuple[str, str]]:
        """The object's headers that are right and read, the mark, and the run's own ETag."""
        has_one_time = by_name.get(_DATA_TIMESTAMP) == by_name.get("x-backend-timestamp")
        left_out = _OF_DATA_ONLY if has_one_time else _NOT_WITH_FRAMES
        kept = [header for header in headers if header[0].lower() not in left_out]
        etag = framed_etag.make(self._name, by_name.get("etag", ""))
        return [*kept, (names.BACKEND_RUN, self.frame_version), ("Etag", etag)]


_REFUSAL_TEXTS: Final = {
    Refusal.FULL: b"the node has no free slot",
    Refusal.UNABLE: b"the node could not run storlets lately",
    Refusal.RESUME: b"a storlet's output cannot be resumed",
}


def _refuse(environ: dict[str, Any], start_response: StartResponse, reason: Refusal) -> Any:
    """Answer 409 (Swift's object servers have no 429); see
    :mod:`storlet_middleware.backend.refusals`."""
    headers = {names.BACKEND_REFUSAL: reason.value}
    return HTTPConflict(headers=headers, body=_REFUSAL_TEXTS[reason])(environ, start_response)
