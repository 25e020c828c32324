"""The further outputs of a run, and the objects that its storlets create: a withheld PUT for each,
and one commit for all.

``out_files[1]`` and the following are stored in the objects that ``X-Storlet-Output`` names.  All
PUTs are open at the same time, with the one of the result if there is one, and none is stored
before the run has succeeded (:mod:`~storlet_middleware.proxy.withheld_put`).  Then all ends are
released together.  If Swift fails one of them after that, others may be stored: the only case in
which a run stores a part of its outputs.  It is reported as ``outputs.partial`` with the names of
both.

A further output has the metadata and the content type that the storlet set for it, and nothing of
the request or of the source.

A storlet may create objects as long as it runs (:mod:`~storlet_middleware.services.creations`).
Their PUTs are committed with the others.  An object is made by one of a run's outputs only.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from swift.common.swob import Request, Response
from swift.common.utils import drain_and_close
from swift.common.wsgi import make_subrequest

from storlet_middleware import errors, names
from storlet_middleware.errors import BackendFailed, BadRequest, StorletError
from storlet_middleware.proxy.execution.result import END_BYTES, END_SECONDS, Result
from storlet_middleware.proxy.shared import Proxy
from storlet_middleware.proxy.withheld_put import PutRefused, WithheldPut, commit, reserve_for
from storlet_middleware.wsgi import stored_headers
from storlet_middleware.wsgi.deferred_put import DeferredPut
from storlet_middleware.wsgi.storlet_request import ObjectPath, StorletRequest
from storlet_middleware.wsgi.swift_paths import object_path

#: Codes of Swift's refusals of a PUT.
_CODES: Final = {
    401: errors.ACCESS_DENIED,
    403: errors.ACCESS_DENIED,
    404: errors.TARGET_NOT_FOUND,
    412: errors.PRECONDITION_FAILED,
}


class _Stored:
    """An object that the run stores beside its result."""

    #: Its name in errors.
    kind = "output"

    def __init__(self, proxy: Proxy, target: ObjectPath) -> None:
        self._proxy = proxy
        self.target = target
        self.put: WithheldPut | None = None

    @property
    def name(self) -> str:
        """``/container/object``, percent-encoded."""
        return shown(self.target)

    def _begin(self, app: Any, put: Request) -> None:
        """Make the withheld PUT of ``put``, which ``app`` answers."""
        proxy = self._proxy
        environ = put.environ
        seconds = proxy.client_timeout_seconds
        reserve = reserve_for(environ, proxy.app, environ["PATH_INFO"], seconds)
        share = proxy.buffers.share(put.split_path(4, rest_with_last=True)[1])
        self.put = WithheldPut(app, put, reserve, share, proxy.logger, self._stalled)

    def _stalled(self, reason: str) -> StorletError:
        text = f"{self.kind} {self.name} paused for too long: {reason}"
        return StorletError(text, code=errors.TIMEOUT_IDLE)

    def write(self, chunk: bytes) -> None:
        """Give ``chunk`` to the PUT."""
        try:
            self.require_put().write(chunk)
        except PutRefused as refused:
            raise self.refusal(refused) from refused

    def require_put(self) -> WithheldPut:
        """The PUT, after its start."""
        if self.put is None:
            raise AssertionError("the metadata of the output is not known")
        return self.put

    def refusal(self, refused: PutRefused) -> StorletError:
        """Swift's refusal of the PUT, as the error of the run."""
        answer = refused.answer
        drain_and_close(answer)
        text = f"{self.kind} {self.name}: Swift answered {answer.status}"
        if answer.status_int >= 500:
            return BackendFailed(text)
        code = _CODES.get(answer.status_int, errors.SWIFT_REFUSED)
        return StorletError(text, code=code, status=answer.status_int)

    def abort(self) -> None:
        """Break the PUT unless it was committed; does not wait, and :meth:`close` follows."""
        if self.put is not None:
            self.put.abort()

    def close(self) -> None:
        """Break the PUT unless it was committed."""
        if self.put is not None:
            self.put.close()


class StoredOutput(_Stored):
    """One further output; a :class:`~storlet_middleware.engine.further_outputs.Sink`.

    :param environ: the client's WSGI environment.
    :param request: the request whose storlet makes the output.
    """

    def __init__(
        self, proxy: Proxy, environ: dict[str, Any], request: StorletRequest, target: ObjectPath
    ) -> None:
        super().__init__(proxy, target)
        self._environ = environ
        self._request = request

    def begin(self, metadata: Mapping[str, str]) -> None:
        """Make the PUT.

        :raises StorletError: the metadata cannot be stored.
        """
        request, target = self._request, self.target
        path = object_path(request.version, request.account, target.container, target.name)
        put = make_subrequest(
            self._environ,
            method="PUT",
            path=path,
            agent="%(orig)s",
            swift_source=names.SWIFT_SOURCE,
        )
        stored_headers.set_metadata(put.headers, metadata)
        try:
            stored_headers.require_storable(put, metadata)
        except StorletError as error:
            error.args = (f"output {self.name}: {error}",)
            raise
        self._begin(self._proxy.app, put)


class CreatedObject(_Stored):
    """One created object; a :class:`~storlet_middleware.services.creations.NewObject`.

    :param forget: removes the object from those that are stored.
    """

    kind = "object"

    def __init__(
        self,
        proxy: Proxy,
        target: ObjectPath,
        put: DeferredPut,
        forget: Callable[[CreatedObject], None],
    ) -> None:
        super().__init__(proxy, target)
        self._forget = forget
        self._begin(put, Request(put.environ))

    def discard(self) -> None:
        """Store nothing; may be called twice."""
        self._forget(self)
        self.close()


class StoredOutputs:
    """All further outputs and created objects of one run; most runs have none.

    A :class:`~storlet_middleware.services.creations.NewObjects`.

    :param request: of the run's last step.
    :param target: the object that the result becomes; ``None`` for a GET.
    """

    def __init__(
        self,
        proxy: Proxy,
        environ: dict[str, Any],
        request: StorletRequest,
        target: ObjectPath | None,
    ) -> None:
        self._proxy = proxy
        self._target = target
        self.sinks: list[StoredOutput] = []
        if request.outputs:
            self.sinks += [
                StoredOutput(proxy, environ, request, output) for output in request.outputs
            ]
        self._created: list[CreatedObject] = []
        #: Whether a storlet of the run can create objects.
        self.may_grow = False
        #: No object may be added: the run has ended, or is being committed.
        self._is_complete = False

    def __bool__(self) -> bool:
        return bool(self.sinks or self._created)

    def targets(self) -> list[ObjectPath]:
        """Where they are stored, if the run succeeds."""
        return [output.target for output in (*self.sinks, *self._created)]

    def require_free(self, path: str) -> None:
        """Raise if the run stores something else in ``/container/object``."""
        target = _object_of(path)
        others = {output.target: "a further output" for output in self.sinks}
        others |= {output.target: "created already" for output in self._created}
        if self._target is not None:
            others[self._target] = "the object that the request writes"
        if target in others:
            raise BadRequest(f"{path}: it is {others[target]}: name another object")

    def add(self, path: str, put: DeferredPut) -> CreatedObject:
        """Store an object that a storlet creates.

        :raises StorletError: as :meth:`require_free`, or the run has ended.
        """
        self.require_free(path)
        created = CreatedObject(self._proxy, _object_of(path), put, self._remove)
        # Making it may wait, for the storage policy.
        try:
            self.require_free(path)
            if self._is_complete:
                raise BadRequest(f"{path}: the run has ended")
        except StorletError:
            created.close()
            raise
        self._created.append(created)
        return created

    def _remove(self, created: CreatedObject) -> None:
        if created in self._created:
            self._created.remove(created)

    def commit_of(self, result: Result, pause: Callable[[], object]) -> Callable[[], object] | None:
        """The commit that the answer to a GET makes at its end; ``None`` if there is none.

        The outputs of a small result are stored now: a commit that fails is an error status then.

        :param pause: called before that: the end of the client is not watched meanwhile.
        """
        if not self.sinks and not self.may_grow:
            return None
        has_all = self.may_grow and result.has_ended()
        if self and result.end_within(END_SECONDS, END_BYTES):
            pause()
            self.commit()
            has_all = True
        return None if has_all else self.commit

    def commit(self, result: WithheldPut | None = None, name: str = "") -> Response | None:
        """Store all outputs of a run that has succeeded; Swift's answer to the PUT of ``result``.

        :param result: the PUT of the first output, of which :attr:`name` is the target.
        :raises PutRefused: Swift refused the PUT of the result; nothing is stored.
        :raises StorletError: Swift refused another one, or failed after the commit.
        """
        self._is_complete = True
        outputs: list[_Stored] = [*self.sinks, *self._created]
        puts = [output.require_put() for output in outputs]
        targets = [output.name for output in outputs]
        if result is not None:
            puts, targets = [result, *puts], [name, *targets]
        try:
            answers = commit(puts)
        except PutRefused as refused:
            for output in outputs:
                if output.put is refused.put:
                    raise output.refusal(refused) from refused
            raise
        if len(puts) > 1 or result is None:
            _require_all(targets, answers)
        return answers[0] if result is not None else None

    def close(self) -> None:
        """Break the PUTs that were not committed; may be called twice."""
        self._is_complete = True
        outputs: list[_Stored] = [*self.sinks, *self._created]
        if not outputs:
            return
        # All at once: Swift may need a second for each.
        for output in outputs:
            output.abort()
        with contextlib.ExitStack() as stack:
            for output in outputs:
                stack.callback(output.close)


def shown(target: ObjectPath) -> str:
    """The form of a target in ``X-Storlet-Output``."""
    return quote(f"/{target.container}/{target.name}")


def _object_of(path: str) -> ObjectPath:
    """The target of ``/container/object``."""
    _, container, name = path.split("/", 2)
    return ObjectPath(container, name)


def _require_all(targets: Sequence[str], answers: Sequence[Response]) -> None:
    """Raise unless Swift has stored all ``targets``."""
    stored, lost = [], []
    for target, answer in zip(targets, answers, strict=True):
        if answer.status_int // 100 == 2:
            stored.append(target)
        else:
            lost.append(f"{target} ({answer.status})")
    if not lost:
        return
    for answer in answers:
        drain_and_close(answer)
    text = f"Swift failed after the storlet had succeeded: not stored: {', '.join(lost)}"
    if not stored:
        raise BackendFailed(text)
    raise StorletError(f"{text}; stored: {', '.join(stored)}", code=errors.OUTPUTS_PARTIAL)
