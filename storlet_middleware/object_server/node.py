"""GET with a storlet at the object server that holds the data; answers the proxy in frames.

The object's own descriptor goes to the sandbox: no byte of the input passes through this process.  What is not a whole,
plain object here (a fragment, a manifest, a symlink, encrypted bytes) is answered as it is, without the mark that a
storlet ran, and the proxy runs the storlet on the assembled stream.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from swift.common.internal_client import InternalClient
from swift.common.swob import HTTPConflict, Request
from swift.common.utils import close_if_possible

from storlet_middleware import names
from storlet_middleware.admission.controller import ROOM, Slot
from storlet_middleware.backend import frames
from storlet_middleware.backend import overflow as overflow_modes
from storlet_middleware.backend.invocation_header import BackendInvocation
from storlet_middleware.catalog.storlets import code_unavailable
from storlet_middleware.concurrency import monotonic
from storlet_middleware.config import Config
from storlet_middleware.engine.invocation import Invocation
from storlet_middleware.engine.launcher import Launcher
from storlet_middleware.engine.storlet_version import CodeFile
from storlet_middleware.engine.task import FileInput
from storlet_middleware.errors import InternalError, RangeUnsatisfiable, StorletError
from storlet_middleware.wsgi.bodies import whole
from storlet_middleware.wsgi.disconnect import ClientGone, ClientWatch
from storlet_middleware.wsgi.storlet_request import resolve_range
from storlet_middleware.wsgi.user_metadata import storlet_metadata

#: Headers that say: these bytes are not the object as its reader knows it.
NOT_PLAIN: Final = frozenset(
    (
        "x-static-large-object",
        "x-object-manifest",
        "x-object-sysmeta-symlink-target",
        "x-object-sysmeta-ec-frag-index",
        "x-object-sysmeta-crypto-body-meta",
        "x-object-transient-sysmeta-crypto-meta",
    )
)
#: Headers of the object that would be wrong with frames.
_NOT_OF_FRAMES: Final = frozenset(("accept-ranges", "content-length", "content-range", "etag"))
#: How long slow output may wait for more before it is sent on with padding (or a tick of the clock more).
_FLUSH_SECONDS: Final = 0.1

#: The headers of the answer go out with its first bytes. Until they are there, Swift's proxy waits for them in tasks that
#: do not end with their request, so a client's leaving would not be known here before the first heartbeat.
_HEADERS_SECONDS: Final = 0.25

#: eventlet sends no piece of an answer before it has so much, or the end.
_GATHERED_BYTES: Final = 4096

_OVERFLOW_KEY: Final = "HTTP_" + names.BACKEND_OVERFLOW.upper().replace("-", "_")

WSGIApp = Callable[[dict[str, Any], Callable[..., Any]], Any]


class ObjectNode:
    """The filter's part at an object server.

    :param app: the object server.
    :param room: storlets that may run or wait in this process.
    """

    def __init__(self, app: WSGIApp, config: Config, logger: Any, room: int = ROOM) -> None:
        self._app = app
        self._config = config
        self._logger = logger
        self._launcher = Launcher(config, logger, room)
        self._fetcher = InternalFetcher(config.storlet.internal_client_conf_path)

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        """WSGI."""
        if environ["REQUEST_METHOD"] != "GET":
            return self._app(environ, start_response)
        try:
            wanted = BackendInvocation.from_environ(environ)
        except ValueError:
            self._logger.exception("ERROR storlets: invocation not understood")
            wanted = None
        if wanted is None:
            return self._app(environ, start_response)
        if "HTTP_IF_MATCH" in environ or "HTTP_IF_NONE_MATCH" in environ:
            # The proxy compares these with the answer's ETag, which has to be one of its own (see below).
            return self._app(environ, start_response)
        if "HTTP_RANGE" in environ:
            # Our own ranges are in the description: this is a proxy that resumes a broken body on another replica.
            # The middle of another run's output must not be spliced in; 409 is no reason to blame this node.
            return HTTPConflict(body=b"a storlet's output cannot be resumed")(environ, start_response)
        return self._answer(environ, start_response, wanted)

    def _answer(self, environ: dict[str, Any], start_response: Callable[..., Any], wanted: BackendInvocation) -> Any:
        """Frames, or what the object server says where the storlet cannot run here."""
        # No answer of swob's in between: to make one, from headers that come and go as a list, would cost more than
        # the rest of this.
        status, headers, reader = Request(environ).call_application(self._app)
        by_name = {key.lower(): value for key, value in headers}
        file = _plain_file(status, by_name, reader)
        if file is None:
            start_response(status, headers)
            return reader
        slot, overflow = None, environ.get(_OVERFLOW_KEY)
        if overflow:
            resources = self._launcher.effective(wanted.storlet, wanted.limits).resources
            slot = self._launcher.admit_at_once(wanted.storlet, resources)
            if slot is None and overflow == overflow_modes.PROXY:
                start_response(status, [*headers, (names.BACKEND_FULL, "1")])
                return reader
            if slot is None:
                close_if_possible(reader)
                return _full(environ, start_response)
        try:
            size, metadata = int(by_name["content-length"]), storlet_metadata(dict(headers))
            stored = _Stored(_duplicate(file, reader), size, metadata)
        except BaseException:
            close_if_possible(reader)
            if slot is not None:
                slot.release()
            raise
        run = _Run(self._config, self._logger, self._launcher, self._fetcher, wanted, stored, slot)
        body = _Frames(run, environ)
        whole = body.gather()
        # A proxy resumes a broken body only where the ETag is the same: another run's output or, at a node without this
        # filter, the plain object would be spliced into the middle of a frame.
        etag = hashlib.md5(wanted.id.encode() + os.urandom(8), usedforsecurity=False).hexdigest()
        framed = [header for header in headers if header[0].lower() not in _NOT_OF_FRAMES]
        framed += [(names.BACKEND_RUN, frames.VERSION), ("Etag", etag)]
        if whole is not None:
            framed.append(("Content-Length", str(len(whole))))
        start_response(status, framed)
        return body if whole is None else [whole]


def _plain_file(status: str, by_name: Mapping[str, str], reader: Any) -> Any:
    """The object's open file when the answer is a whole plain object, else ``None``."""
    if not status.startswith("200 ") or not NOT_PLAIN.isdisjoint(by_name):
        return None
    # Swift has no public way to the file; without one (another disk-file backend) the proxy runs the storlet.
    return getattr(reader, "_fp", None)


def _full(environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
    """The answer of a node without room, for which Swift's proxy asks the next one, and which it does not count against this
    one as it would a 5xx. (Swift has no 429.)"""
    refusal = HTTPConflict(headers={names.BACKEND_FULL: "1"}, body=b"the node is full")
    return refusal(environ, start_response)


def _duplicate(file: Any, reader: Any) -> int:
    """A descriptor of the object's file for the sandbox; the object server's ``reader`` is closed."""
    fd = os.dup(file.fileno())
    _close_to_others(fd)
    try:
        os.lseek(fd, 0, os.SEEK_SET)
        close_if_possible(reader)
    except BaseException:
        os.close(fd)
        raise
    return fd


class _Frames:
    """The body of an answer, which gives back what it holds also when nobody began to read it."""

    def __init__(self, run: _Run, environ: dict[str, Any]) -> None:
        self._run = run
        self._chunks = run.frames(environ)
        self._gathered: list[bytes] = []

    def gather(self) -> bytes | None:
        """All of it, where it is so little that the server would send none of it before its end; else ``None``.

        An answer whose length is known is sent at once, and read at once.
        """
        size = 0
        for chunk in self._chunks:
            self._gathered.append(chunk)
            size += len(chunk)
            if size >= _GATHERED_BYTES:
                return None
        return b"".join(self._gathered)

    def __iter__(self) -> Iterator[bytes]:
        return itertools.chain(self._gathered, self._chunks)

    def close(self) -> None:
        close_if_possible(self._chunks)
        self._run.close()


def _close_to_others(fd: int) -> None:
    """Make sure that a sandbox can do no more with the object's file than read its bytes.

    Swift makes files with the mode that its umask leaves, often readable by all. Whoever may read a file by its mode can
    read its extended attributes through a descriptor, where Swift keeps all metadata, also what no client is shown.
    """
    mode = stat.S_IMODE(os.fstat(fd).st_mode)
    if mode & 0o007:
        with contextlib.suppress(PermissionError):
            os.fchmod(fd, mode & ~0o007)


class _Stored(NamedTuple):
    """The object as it is on disk: its file, its length, and what a storlet sees of its metadata."""

    fd: int
    size: int
    metadata: dict[str, str]


class _Run:
    """One invocation at this node.  Owns the descriptor in ``stored`` from construction; :meth:`frames` closes it."""

    def __init__(  # noqa: PLR0913, PLR0917 - what a run needs, made in one place
        self,
        config: Config,
        logger: Any,
        launcher: Launcher,
        fetcher: InternalFetcher,
        wanted: BackendInvocation,
        stored: _Stored,
        slot: Slot | None,
    ) -> None:
        self._config = config
        self._logger = logger
        self._launcher = launcher
        self._fetcher = fetcher
        self._wanted = wanted
        self._size = stored.size
        self._metadata = stored.metadata
        self._fds = [stored.fd]
        self._slot = slot
        self._encoder = frames.Encoder(wanted.gulp)
        self._ranges: list[tuple[int, int]] = []

    def frames(self, environ: dict[str, Any]) -> Iterator[bytes]:
        """The body of the answer."""
        watch = ClientWatch(environ)
        try:
            yield from watch.guard(self._frames())
        finally:
            watch.stop()

    def _frames(self) -> Iterator[bytes]:
        invocation: Invocation | None = None
        outcome: dict[str, Any] = {"outcome": "error"}
        try:
            try:
                invocation = self._invocation()
                yield from self._output(invocation)
                outcome = {"outcome": "ok"}
            except StorletError as error:
                outcome |= error.to_message()
            except ClientGone:
                # The body ends without its DONE frame: whoever still reads it knows that it failed.
                return
            except Exception:
                self._logger.exception("ERROR storlets: invocation %s", self._wanted.id)
                outcome |= InternalError("internal error at the object node").to_message()
            if invocation is not None:
                log = invocation.log_bytes()
                if log:
                    yield self._encoder.data(log, frames.LOG)
                outcome |= {
                    "usage": invocation.usage,
                    "bytes_in": invocation.bytes_in(),
                    "has_run": invocation.has_started,
                    "waited_seconds": invocation.waited_seconds,
                }
            yield self._encoder.message(frames.DONE, outcome)
        finally:
            if invocation is not None:
                invocation.close()
            self.close()

    def close(self) -> None:
        """Close what is still owned here; may be called twice."""
        while self._fds:
            os.close(self._fds.pop())
        if self._slot is not None:
            self._slot.release()

    def _invocation(self) -> Invocation:
        wanted = self._wanted
        effective = self._launcher.effective(wanted.storlet, wanted.limits)
        task = self._launcher.task(wanted.id, dict(wanted.parameters), effective, wants_log=wanted.wants_log)
        return Invocation(task, list(self._inputs()))

    def _inputs(self) -> Iterator[FileInput]:
        resolved = [resolve_range(wanted, self._size) for wanted in self._wanted.ranges]
        self._ranges = [span for span in resolved if span is not None]
        if not self._wanted.ranges:
            yield FileInput(self._fds[0], self._metadata)
        elif len(self._ranges) < len(resolved):
            # Each range is an input: with one of them left out the storlet would take the next for it.
            raise RangeUnsatisfiable(f"no byte of the {self._size} bytes of the object is in the range")
        for index, (first, last) in enumerate(self._ranges):
            if index:
                # Duplicates share one position in the file; each range needs its own.
                self._fds.append(os.open(f"/proc/self/fd/{self._fds[0]}", os.O_RDONLY | os.O_CLOEXEC))
            yield FileInput(self._fds[index], self._metadata, first, last)

    def _output(self, invocation: Invocation) -> Iterator[bytes]:
        began = monotonic()
        beat = self._config.placement.heartbeat_seconds
        soon = min(beat, _HEADERS_SECONDS)
        version, beats = self._wanted.storlet, (soon, beat)
        for _ in self._launcher.start_patiently(invocation, version, self._fetcher, beats, self._slot):
            yield self._encoder.pad()
        handed_over = monotonic()
        if not invocation.first(soon):
            yield self._encoder.pad()
        while not invocation.first(beat):
            yield self._encoder.pad()
        start = {
            "metadata": invocation.metadata,
            "size": self._size,
            "ranges": self._ranges,
            "sandbox_seconds": max(0.0, handed_over - began - invocation.waited_seconds),
            "waited_seconds": invocation.waited_seconds,
        }
        yield self._encoder.message(frames.START, start)
        while True:
            chunk = invocation.read(beat if self._encoder.is_flushed else _FLUSH_SECONDS)
            if chunk is None:
                yield self._encoder.pad()
            elif chunk:
                yield self._encoder.data(chunk)
            else:
                return


class InternalFetcher:
    """Fetches code with Swift's internal client; made at the first use, because few nodes ever need the pipeline."""

    def __init__(self, conf_path: str) -> None:
        self._conf_path = conf_path
        self._client: InternalClient | None = None

    def fetch(self, account: str, file: CodeFile) -> Iterator[bytes]:
        """See :class:`~storlet_middleware.engine.code_cache.Fetcher`."""
        if self._client is None:
            self._client = InternalClient(self._conf_path, "swift-storlets", 3)
        headers = {"X-Newest": "true", "If-Match": file.etag}
        status, _, chunks = self._client.get_object(
            account, file.container, file.name, headers, acceptable_statuses=(2, 3, 4, 5)
        )
        try:
            if status != 200:
                raise code_unavailable(file, status)
            yield from whole(chunks)
        finally:
            close_if_possible(chunks)
