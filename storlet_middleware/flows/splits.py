"""The splits of a distribution: one storlet on many objects, a few at a time.

Each split is a GET in the caller's name through the whole filter, so it runs on the node that has
its object, and queues there fairly beside other tenants.

A split is repeated where that is safe.  Nothing of it has run: its answer is 429 or 503, after the
node's replicas were tried.  Or its storlet ran at an object node, which broke off: another replica
runs it again.  Such a storlet has no services, and no result of a split leaves this process before
it is complete, so nothing happens twice.  A storlet that has run at a proxy may have changed the
store, and is not run again; nor is one that may have run, and that can act outside of its sandbox.

Workers begin one after the other: each takes some milliseconds of the processor until its node has
the request, and the first nodes work while the requests to others are prepared.

A worker begins with an object only if there is room for its result: results that are ready and not
yet read wait in a window.
"""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from swift.common.header_key_dict import HeaderKeyDict
from swift.common.utils import close_if_possible

from storlet_middleware import errors, names
from storlet_middleware.concurrency import Bell, GreenTask, Killed, Timeout, end, semaphore, sleep
from storlet_middleware.concurrency import spawn as spawn_task
from storlet_middleware.errors import BackendFailed, StorletError
from storlet_middleware.flows.caller_requests import CallerRequests
from storlet_middleware.flows.distribution import ARRIVAL, Distribution, Part, Selection
from storlet_middleware.flows.parts import Piece
from storlet_middleware.flows.selection import has_metadata
from storlet_middleware.flows.spool import Budget, Spool
from storlet_middleware.records.record import OK
from storlet_middleware.wsgi.answer import Answer
from storlet_middleware.wsgi.storlet_request import ObjectPath, run_headers
from storlet_middleware.wsgi.user_metadata import storlet_metadata

#: Output that an outcome has itself.
INLINE_BYTES: Final = 4096
#: Pauses before a split is tried again.
_PAUSES: Final = (0.25, 0.5, 1.0, 2.0, 4.0)
#: The most further attempts after a storlet has begun.
_RERUNS: Final = 2
_NOT_RUN: Final = (429, 503)
#: The status for ``If-Match`` with the ETag of another version.
_REPLACED: Final = 412
#: Where storlets have run that have no services.
_WITHOUT_EFFECT: Final = ("", "object")
_MESSAGE_BYTES: Final = 2048
#: Content type of Swift's own texts, which repeat the status as HTML.
_OF_SWIFT: Final = "text/html"
#: Results for each worker that may wait to be read.
_WINDOW: Final = 4


@dataclass
class Outcome:
    """The outcome of one split.

    :param detail: of a failure: the storlet's traceback, for its owner.
    :param head: the first bytes of the output.
    :param spool: all of it, where the distribution needs it; the receiver closes it.
    :param scan_range: of a part of the object; empty: all of it.
    :param is_selected: False if the object does not have the wanted metadata.
    :param may_repeat: another attempt cannot do anything twice.
    :param has_begun: of a failure: the storlet had begun.
    """

    path: ObjectPath
    code: str = OK
    status: int = 200
    message: str = ""
    detail: str = ""
    size: int = 0
    milliseconds: int = 0
    etag: str = ""
    head: bytes = b""
    spool: Spool | None = None
    scan_range: str = ""
    is_selected: bool = True
    may_repeat: bool = False
    has_begun: bool = False

    @property
    def is_failure(self) -> bool:
        return self.code != OK

    @property
    def error(self) -> StorletError:
        """The error that names the object."""
        part = f" {self.scan_range}" if self.scan_range else ""
        text = f"/{self.path.container}/{self.path.name}{part}: {self.message}"
        return StorletError(text, code=self.code, status=self.status, detail=self.detail)


class Splits:
    """The splits of one request, from construction until :meth:`close`.

    :param budget: ``None`` if no split's whole output is needed.
    :param on_outcome: called by a worker with the number of a piece and its outcome.
    """

    def __init__(
        self,
        requests: CallerRequests,
        distribution: Distribution,
        pieces: Sequence[Piece],
        budget: Budget | None,
        on_outcome: Callable[[int, Outcome], None] | None = None,
    ) -> None:
        self._requests = requests
        self._distribution = distribution
        self._pieces = pieces
        self._budget = budget
        self._on_outcome = on_outcome
        count = min(distribution.concurrency, len(pieces))
        self._workers_to_begin = count
        self._room = semaphore(_WINDOW * count)
        self._next = 0
        self._ready: dict[int, Outcome] = {}
        self._error: BaseException | None = None
        self._bell = Bell()
        self.failures = 0
        #: The failure that has ended everything.
        self.failure: Outcome | None = None
        self._workers: list[GreenTask] = []
        self._begin_worker()

    def outcomes(self, order: str) -> Iterator[Outcome]:
        """The outcomes of all pieces; raises the first failure unless failures are reported."""
        for position in range(len(self._pieces)):
            while True:
                if self._error is not None:
                    raise self._error
                number = next(iter(self._ready), -1) if order == ARRIVAL else position
                if number in self._ready:
                    break
                self._bell.wait(None)
            yield self._ready.pop(number)
            self._room.release()

    def close(self) -> None:
        """End everything that runs; may be called twice."""
        # A worker may begin while another one is ended.
        self._workers_to_begin = 0
        workers, self._workers = self._workers, []
        with contextlib.ExitStack() as stack:
            stack.callback(self._close_ready)
            for worker in workers:
                stack.callback(end, worker)

    def _close_ready(self) -> None:
        ready, self._ready = self._ready, {}
        with contextlib.ExitStack() as stack:
            for outcome in ready.values():
                if outcome.spool is not None:
                    stack.callback(outcome.spool.close)

    # --- workers ----------------------------------------------------------------------------------

    def _begin_worker(self) -> None:
        if self._workers_to_begin:
            self._workers_to_begin -= 1
            self._workers.append(spawn_task(self._work))

    def _work(self) -> None:
        try:
            self._begin_worker()
            while self._error is None:
                self._room.acquire()
                if self._next >= len(self._pieces):
                    return
                number, self._next = self._next, self._next + 1
                self._deliver(number, self._split(self._pieces[number]))
        except Killed:
            raise
        except Timeout as error:
            # The filter and the server expect exceptions.
            self._fail(BackendFailed(f"Swift did not answer: {error!r}"[:300]))
        except BaseException as error:  # noqa: BLE001 - the owner of the splits raises it
            self._fail(error)

    def _deliver(self, number: int, outcome: Outcome) -> None:
        if outcome.is_failure:
            self.failures += 1
            if not self._distribution.reports_failures:
                self.failure = self.failure or outcome
                self._fail(outcome.error)
                return
        if self._on_outcome is not None:
            self._on_outcome(number, outcome)
        self._ready[number] = outcome
        self._bell.ring()

    def _fail(self, error: BaseException) -> None:
        if self._error is None:
            self._error = error
        self._bell.ring()

    def _split(self, piece: Piece) -> Outcome:
        began = time.monotonic()
        outcome, reruns = self._attempt(piece), _RERUNS
        for pause in _PAUSES:
            reruns -= outcome.has_begun
            if reruns < 0 or not self._may_repeat(outcome):
                break
            sleep(pause)
            outcome = self._attempt(piece)
        outcome.milliseconds = round((time.monotonic() - began) * 1000)
        outcome.scan_range = piece.scan_range
        return outcome

    def _may_repeat(self, outcome: Outcome) -> bool:
        # A node that broke off before the first byte may have run the storlet.
        may_have_run = outcome.has_begun or outcome.code == errors.BACKEND_FAILED
        return outcome.may_repeat and not (may_have_run and self._distribution.has_effects)

    def _attempt(self, piece: Piece) -> Outcome:
        path = piece.path
        try:
            if not self._is_selected(path):
                return Outcome(path, is_selected=False)
            return self._outcome(piece)
        except StorletError as error:
            return _failed(path, error, may_repeat=error.status in _NOT_RUN)

    def _is_selected(self, path: ObjectPath) -> bool:
        wanted = self._distribution.objects
        if not isinstance(wanted, Selection) or not wanted.metadata:
            return True
        return has_metadata(wanted, self._requests, path)

    def _outcome(self, piece: Piece) -> Outcome:
        path, split = piece.path, self._distribution.split
        headers = headers_of(replace(split, parameters={**split.parameters, **piece.parameters}))
        given = {**headers, **piece.headers}
        answer = self._requests.send("GET", f"{path.container}/{path.name}", given)
        status = int(answer.status[:3])
        if status == _REPLACED and piece.etag:
            close_if_possible(answer.chunks)
            text = "the object was replaced while its parts were read"
            return _failed(path, StorletError(text, code=errors.INPUT_CHANGED), may_repeat=False)
        if status != 200:
            return _refused(path, answer, status)
        outcome = Outcome(path)
        if self._budget is not None:
            outcome.spool = Spool(self._budget)
            outcome.spool.metadata = storlet_metadata(HeaderKeyDict(answer.headers))
        try:
            _read(answer, outcome)
        except BaseException as error:
            if outcome.spool is not None:
                outcome.spool.close()
            if isinstance(error, StorletError):
                return _broken_off(path, answer, error)
            if isinstance(error, Exception | Timeout):
                text = f"the split's answer broke off: {error!r}"[:300]
                return _broken_off(path, answer, BackendFailed(text))
            raise
        finally:
            close_if_possible(answer.chunks)
        return outcome


def _read(answer: Answer, outcome: Outcome) -> None:
    """Read the output to its end."""
    digest = hashlib.md5(usedforsecurity=False)
    for chunk in answer.chunks:
        outcome.size += len(chunk)
        digest.update(chunk)
        if outcome.spool is not None:
            outcome.spool.write(chunk)
        elif len(outcome.head) <= INLINE_BYTES:
            outcome.head += chunk[: INLINE_BYTES + 1 - len(outcome.head)]
    outcome.etag = digest.hexdigest()


def _failed(
    path: ObjectPath, error: StorletError, *, may_repeat: bool, has_begun: bool = False
) -> Outcome:
    return Outcome(
        path, error.code, error.status, str(error), may_repeat=may_repeat, has_begun=has_begun
    )


def _broken_off(path: ObjectPath, answer: Answer, error: StorletError) -> Outcome:
    """The outcome of a storlet that has begun, and whose output is not complete."""
    is_of_node = error.code == errors.BACKEND_FAILED
    may_repeat = is_of_node and _is_without_effect(answer)
    return _failed(path, error, may_repeat=may_repeat, has_begun=True)


def _is_without_effect(answer: Answer) -> bool:
    return answer.header(names.RAN_ON.lower()) in _WITHOUT_EFFECT


def _refused(path: ObjectPath, answer: Answer, status: int) -> Outcome:
    code = answer.header(names.ERROR.lower())
    text = b""
    try:
        for chunk in answer.chunks:
            text += chunk
            if len(text) > _MESSAGE_BYTES:
                break
    finally:
        close_if_possible(answer.chunks)
    # As an answer of ours has them: one line, then the traceback.
    first, _, detail = text[:_MESSAGE_BYTES].decode("utf-8", "replace").partition("\n\n")
    message = " ".join(first.split())
    if answer.header("content-type").startswith(_OF_SWIFT):
        message, detail = answer.status, ""
    if not code:
        code = errors.SWIFT_REFUSED if status < 500 else errors.BACKEND_FAILED
        message, detail = answer.status, ""
    known = status if status in errors.REASONS else errors.row_of(code).status
    # With legacy_status, a storlet that has failed is a 503, too.
    has_failed = errors.row_of(code).status not in _NOT_RUN and code != errors.SWIFT_REFUSED
    may_repeat = status in _NOT_RUN and not has_failed and _is_without_effect(answer)
    has_begun = bool(answer.header(names.RAN_ON.lower()))
    return Outcome(
        path,
        code,
        known,
        message or answer.status,
        detail.strip(),
        may_repeat=may_repeat,
        has_begun=has_begun,
    )


def headers_of(part: Part) -> dict[str, str]:
    """The headers of a request for the storlet of a flow."""
    limits = {names.LIMIT_PREFIX + name: value for name, value in part.limits.items()}
    return {**run_headers(part.storlet, part.parameters), **limits}
