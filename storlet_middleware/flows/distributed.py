"""``std:distributed``: ``POST /v1/ACCOUNT`` with ``X-Run-Storlet: std:distributed`` and a body of
JSON (:mod:`~storlet_middleware.flows.distribution`).

::

    selection -> splits (a few at a time, each at its data) -> lines, concatenation or merge

============  ====================================================================================
merge         answer
============  ====================================================================================
none          a line of JSON for each object; streamed to clients that accept
              ``application/x-ndjson``
``concat``    the outputs, one after the other
a storlet     its output (:mod:`~storlet_middleware.flows.merges`)
============  ====================================================================================

With ``output`` these bytes become an object (:mod:`~storlet_middleware.flows.stored_result`), and
the answer is 201 with a summary.  Rights are checked before anything is read: those to the
storlets, then to the output, then the listing and each object.

With ``parts`` each object has several splits (:mod:`~storlet_middleware.flows.parts`).

The first failure of a split ends everything and is the answer's error, unless failures are
reported, as lines.  After the first byte it breaks the connection.  A client that disconnects ends
everything, too.
"""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from swift.common.header_key_dict import HeaderKeyDict
from swift.common.utils import close_if_possible, drain_and_close

from storlet_middleware import errors, names
from storlet_middleware.catalog import library_callers
from storlet_middleware.concurrency import monotonic
from storlet_middleware.errors import AccessDenied, BadRequest, StorletError, TenantBusy
from storlet_middleware.flows.caller_requests import CallerRequests, WSGIApp
from storlet_middleware.flows.distribution import ARRIVAL, LISTING, Distribution, Part, parse
from storlet_middleware.flows.merges import Merges, Tree
from storlet_middleware.flows.parts import Piece, pieces_of, require_declared
from storlet_middleware.flows.selection import objects_of
from storlet_middleware.flows.splits import INLINE_BYTES, Outcome, Splits
from storlet_middleware.flows.spool import Budget, Space, Spool
from storlet_middleware.flows.stored_result import RequireOutput, StoredResult
from storlet_middleware.proxy.plan import UNKNOWN_TYPE
from storlet_middleware.proxy.run import new_id
from storlet_middleware.proxy.shared import Proxy
from storlet_middleware.records.record import OK
from storlet_middleware.wsgi import authorization, s3_request
from storlet_middleware.wsgi.answer import Answer
from storlet_middleware.wsgi.bodies import ClientBody, ClosingIterator
from storlet_middleware.wsgi.caller import user_of
from storlet_middleware.wsgi.context import RequestContext, swift_authorize
from storlet_middleware.wsgi.disconnect import ClientGone, ClientWatch, break_connection
from storlet_middleware.wsgi.stored_headers import set_metadata
from storlet_middleware.wsgi.storlet_request import storlet_headers, unknown_header_faults
from storlet_middleware.wsgi.subrequest import SwiftRefusal

#: 10,000 paths of 400 bytes; an object with paths may have longer ones.  JSON takes twenty times as
#: much memory as its text, and the process does nothing else while it parses.
_BODY_BYTES: Final = 4 << 20
#: A caller may have this fraction of an account's runs in a server process as distributions: by
#: default four, with 256 MiB of intermediate results each.
_OF_RUNS: Final = 64
LINES: Final = "application/x-ndjson"
_TEXT: Final = "text/plain; charset=utf-8"
_JSON: Final = "application/json"


class Distributed:
    """The distributions of all requests of a process.

    :param app: the filter itself.
    :param require_enabled: raises :class:`~storlet_middleware.errors.BadRequest` when an account is
        not enabled for storlets.
    :param require_output: raises where a rule may deny a stored result.
    """

    def __init__(
        self,
        app: WSGIApp,
        proxy: Proxy,
        require_enabled: Callable[[dict[str, Any]], None],
        require_output: RequireOutput,
    ) -> None:
        self._proxy = proxy
        self._require_enabled = require_enabled
        self._shared = _Shared(app, proxy, require_output, Space.of(proxy.config, proxy.logger))
        self._running: dict[tuple[str, str], int] = {}

    def answer(self, context: RequestContext) -> Answer:
        """The answer to one request.

        :raises StorletError: a split failed, or the request is refused.
        """
        environ = context.environ
        account = context.require_operation().path.account
        self._require_allowed(environ, account)
        # Each object is authorized on its own, so the caller may be any user: the count of one must
        # not keep others of the account away.
        key = (account, user_of(environ))
        self._acquire(key)
        try:
            body = _body(environ, self._proxy.client_timeout_seconds)
            distribution = parse(body, self._proxy.config, account)
            flow = _Flow(self._shared, context, distribution, lambda: self._release(key))
        except BaseException:
            self._release(key)
            raise
        try:
            return flow.answer()
        except ClientGone:
            gone = StorletError("the client closed its connection", code=errors.CLIENT_GONE)
            flow.end(gone.code)
            raise gone from None
        except BaseException as error:
            flow.end(_code_of(error))
            raise

    def _require_allowed(self, environ: dict[str, Any], account: str) -> None:
        if swift_authorize(environ) is not None and not user_of(environ):
            raise AccessDenied(f"{names.DISTRIBUTED} needs a user", status=401)
        if s3_request.is_s3(environ):
            raise BadRequest(f"{names.DISTRIBUTED}: not with the S3 API")
        self._require_enabled(environ)
        library_callers.require_allowed(
            environ, self._proxy.app, account, names.DISTRIBUTED,
            is_owner=authorization.authorize_account(environ).is_owner,
        )  # fmt: skip
        self._proxy.catalog.library.require_available(names.DISTRIBUTED)
        why = f"not with {names.DISTRIBUTED}: parameters and limits are in the body"
        faults = unknown_header_faults(storlet_headers(environ), (), why)
        if faults:
            raise BadRequest("; ".join(faults))

    def _acquire(self, key: tuple[str, str]) -> None:
        """Count a distribution; its splits count as runs of their own.

        :param key: the account, and the caller.
        """
        most = max(1, self._proxy.config.invocation.max_inflight_per_tenant // _OF_RUNS)
        own = self._running.get(key, 0)
        if own >= most:
            raise TenantBusy(f"the caller has {most} distributions running through this server")
        self._running[key] = own + 1

    def _release(self, key: tuple[str, str]) -> None:
        self._running[key] -= 1
        if not self._running[key]:
            del self._running[key]


@dataclass(frozen=True)
class _Shared:
    """The common parts of all distributions of a process; see :class:`Distributed`."""

    app: WSGIApp
    proxy: Proxy
    require_output: RequireOutput
    space: Space


class _Flow:
    """One distribution: owns its splits, its stored result and its count until :meth:`end`."""

    def __init__(
        self,
        shared: _Shared,
        context: RequestContext,
        distribution: Distribution,
        release: Callable[[], None],
    ) -> None:
        self._proxy = proxy = shared.proxy
        self._context = context
        self._environ = environ = context.environ
        path = context.require_operation().path
        self._account = path.account
        self._distribution = distribution
        self._release = release
        self._id = new_id(environ)
        place = (path.version, path.account)
        self._requests = CallerRequests(shared.app, environ, place, self._id)
        most = proxy.config.library.distributed_spool_bytes
        self._budget = Budget(most, shared.space, path.account)
        target, rules = distribution.output, shared.require_output
        self._result = StoredResult(proxy, context, target, rules) if target else None
        self._began = monotonic()
        self._watch = ClientWatch(environ)
        self._splits: Splits | None = None
        self._tree: Tree | None = None
        self._objects = 0
        self._has_ended = False

    def answer(self) -> Answer:
        given, result = self._distribution, self._result
        self._require_split(given.split)
        if given.parts:
            require_declared(self._proxy, self._context, given.split)
        merges = self._merges(given.merge) if given.merge is not None else None
        if result is not None:
            result.check()
        most = self._proxy.config.library.distributed_objects
        paths = objects_of(given, self._requests, most)
        if result is not None and result.target in paths:
            raise BadRequest(
                f"output: {result.name} is one of the objects that are read: choose another name"
            )
        self._objects = len(paths)
        pieces = pieces_of(paths, given.parts, self._requests, most)
        if merges is not None:
            return self._merged(merges, pieces)
        budget = self._budget if given.is_concatenated else None
        splits = self._splits = Splits(self._requests, given, pieces, budget)
        if given.is_concatenated:
            chunks = _concatenated(splits.outcomes(given.order or LISTING))
            return self._streamed(chunks, _TEXT)
        if result is not None:
            return self._streamed(self._lines(splits, given.order or LISTING), LINES)
        if LINES in self._environ.get("HTTP_ACCEPT", ""):
            return self._streamed(self._lines(splits, given.order or ARRIVAL), LINES)
        spool = Spool(self._budget)
        with _closed_on_errors(spool):
            for line in self._lines(splits, given.order or LISTING):
                spool.write(line)
            return self._complete(spool, {"Content-Type": LINES})

    def _require_split(self, split: Part) -> None:
        """Raise unless the caller may run the storlet, before anything is read for it."""
        path = self._context.require_operation().path
        catalog, environ = self._proxy.catalog, self._environ
        try:
            is_owner = catalog.authorize(environ, path.version, path.account, split.storlet, "")
            library_callers.require_allowed(
                environ, self._proxy.app, path.account, split.storlet, is_owner=is_owner
            )
        except StorletError as error:
            text = f"split: {split.storlet}: {error}"
            raise StorletError(text, code=error.code, status=error.status) from error

    def _merges(self, part: Part) -> Merges:
        return Merges(self._proxy, self._context, part, self._id, self._budget)

    def _merged(self, merges: Merges, pieces: list[Piece]) -> Answer:
        tree = self._tree = Tree(len(pieces), merges.most_inputs, merges.merge)

        def add(number: int, outcome: Outcome) -> None:
            spool, outcome.spool = outcome.spool, None
            tree.add(number, spool)

        splits = self._splits = Splits(
            self._requests, self._distribution, pieces, self._budget, add
        )
        for _ in splits.outcomes(ARRIVAL):
            pass
        root, tree.root = tree.root, None
        if root is None:
            raise nothing_selected()
        if self._result is not None:
            try:
                return self._stored(self._result, root.chunks(), root.metadata)
            finally:
                root.close()
        with _closed_on_errors(root):
            headers = HeaderKeyDict({"Content-Type": UNKNOWN_TYPE})
            set_metadata(headers, root.metadata)
            return self._complete(root, headers)

    def _lines(self, splits: Splits, order: str) -> Iterator[bytes]:
        count = 0
        try:
            for outcome in splits.outcomes(order):
                if outcome.is_selected:
                    count += 1
                    yield line_of(outcome)
        except StorletError:
            # Before the first line, the failure becomes an error status.
            if count and splits.failure is not None:
                yield line_of(splits.failure)
            raise
        if not count:
            raise nothing_selected()

    # --- answers ----------------------------------------------------------------------------------

    def _streamed(self, chunks: Iterator[bytes], content_type: str) -> Answer:
        """The stored result, or an answer whose first bytes or end are known: an early failure has
        an error status.
        """
        if self._result is not None:
            return self._stored(self._result, chunks, {"Content-Type": content_type})
        first = next(chunks, b"")
        self._watch.pause()
        # Small pieces are sent immediately.
        self._environ["eventlet.minimum_write_chunk_size"] = 0
        headers = [("Content-Type", content_type), (names.INVOCATION, self._id)]
        body = ClosingIterator(self._guarded(first, chunks), lambda: self.end(errors.CLIENT_GONE))
        return Answer("200 OK", headers, body)

    def _guarded(self, first: bytes, chunks: Iterator[bytes]) -> Iterator[bytes]:
        try:
            yield first
            yield from self._watch.guard(chunks)
            self.end(OK)
        except ClientGone:
            gone = StorletError("the client closed its connection", code=errors.CLIENT_GONE)
            self.end(gone.code)
            raise gone from None
        except Exception as error:
            break_connection(self._environ)
            self.end(_code_of(error))
            raise
        finally:
            close_if_possible(chunks)

    def _stored(
        self, result: StoredResult, chunks: Iterator[bytes], metadata: Mapping[str, str]
    ) -> Answer:
        """The answer after the result has become an object."""
        try:
            size = result.store(chunks, metadata)
        finally:
            # An error refers to its frames, and they to the iterator and what it holds.
            close_if_possible(chunks)
        # A client that disconnects must not end the commit.
        self._watch.pause()
        stored = result.commit()
        drain_and_close(stored)
        etag = str(stored.headers.get("Etag") or "").strip('"')
        row = {
            "output": result.name,
            "bytes": size,
            "etag": etag,
            "objects": self._objects,
            "failed": self._splits.failures if self._splits is not None else 0,
        }
        body = (json.dumps(row) + "\n").encode()
        self.end(OK)
        headers = HeaderKeyDict({"Content-Type": _JSON, "Content-Length": str(len(body))})
        headers[names.INVOCATION] = self._id
        headers |= {
            key: stored.headers[key] for key in ("Etag", "Last-Modified") if stored.headers.get(key)
        }
        return Answer("201 Created", list(headers.items()), [body])

    def _complete(self, spool: Spool, headers: dict[str, str]) -> Answer:
        """An answer with a known length, which owns ``spool``."""
        self._watch.pause()
        own = HeaderKeyDict(headers)
        own["Content-Length"] = str(spool.size)
        own[names.INVOCATION] = self._id
        self.end(OK)
        return Answer("200 OK", list(own.items()), ClosingIterator(spool.chunks(), spool.close))

    # --- the end ----------------------------------------------------------------------------------

    def end(self, code: str) -> None:
        """End all splits, and report the distribution; calls after the first do nothing."""
        if self._has_ended:
            return
        self._has_ended = True
        self._watch.stop()
        with contextlib.ExitStack() as stack:
            stack.callback(self._release)
            # The splits end first: they add to the tree.
            for part in (self._result, self._tree, self._splits):
                if part is not None:
                    stack.callback(part.close)
        self._proxy.logger.info(
            "distribution done id=%s account=%s objects=%d failed=%d code=%s ms=%.1f",
            self._id,
            quote(self._account),
            self._objects,
            self._splits.failures if self._splits is not None else 0,
            code,
            (monotonic() - self._began) * 1000,
        )


@contextlib.contextmanager
def _closed_on_errors(spool: Spool) -> Iterator[None]:
    """Close ``spool`` if the block raises: its bytes count for the process until then."""
    try:
        yield
    except BaseException:
        spool.close()
        raise


def _code_of(error: BaseException) -> str:
    return error.code if isinstance(error, StorletError | SwiftRefusal) else errors.INTERNAL


def _body(environ: dict[str, Any], timeout_seconds: float) -> bytes:
    pieces, size = [], 0
    for piece in ClientBody(environ, timeout_seconds):
        size += len(piece)
        if size > _BODY_BYTES:
            raise BadRequest(f"the body has more than {_BODY_BYTES} bytes")
        pieces.append(piece)
    return b"".join(pieces)


def nothing_selected() -> StorletError:
    """The error of a distribution whose objects all lack the wanted metadata."""
    return StorletError("objects: none has the metadata", code=errors.INPUT_NOT_FOUND)


def _concatenated(outcomes: Iterator[Outcome]) -> Iterator[bytes]:
    count = 0
    for outcome in outcomes:
        if outcome.spool is not None:
            count += 1
            try:
                yield from outcome.spool.chunks()
            finally:
                outcome.spool.close()
    if not count:
        raise nothing_selected()


def line_of(outcome: Outcome) -> bytes:
    """The line of JSON for one object."""
    row: dict[str, Any] = {
        "path": f"/{outcome.path.container}/{outcome.path.name}",
        "outcome": "failed" if outcome.is_failure else "ok",
        "code": outcome.code,
        "milliseconds": outcome.milliseconds,
    }
    if outcome.scan_range:
        row["scan-range"] = outcome.scan_range
    if outcome.is_failure:
        row["message"] = outcome.message
        if outcome.detail:
            row["traceback"] = outcome.detail
    else:
        row |= {"bytes": outcome.size, "etag": outcome.etag}
        row |= _inline(outcome) if outcome.size <= INLINE_BYTES else {}
    return (json.dumps(row) + "\n").encode()


def _inline(outcome: Outcome) -> dict[str, str]:
    try:
        return {"output": outcome.head.decode()}
    except UnicodeDecodeError:
        return {"output_base64": base64.b64encode(outcome.head).decode()}
