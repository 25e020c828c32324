"""The further outputs of a run as objects: a withheld PUT for each, and one commit for all.

``out_files[1]`` and the following are stored in the objects that ``X-Storlet-Output`` names.  All
PUTs are open at the same time, with the one of the result if there is one, and none is stored
before the run has succeeded (:mod:`~storlet_middleware.proxy.withheld_put`).  Then all ends are
released together.  If Swift fails one of them after that, others may be stored: the only case in
which a run stores a part of its outputs.  It is reported as ``outputs.partial`` with the names of
both.

An object has the metadata and the content type that the storlet set for its output, and nothing of
the request or of the source.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from swift.common.swob import Response
from swift.common.utils import drain_and_close
from swift.common.wsgi import make_subrequest

from storlet_middleware import errors, names
from storlet_middleware.errors import BackendFailed, StorletError
from storlet_middleware.proxy.shared import Proxy
from storlet_middleware.proxy.withheld_put import PutRefused, WithheldPut, commit, reserve_for
from storlet_middleware.wsgi import stored_headers
from storlet_middleware.wsgi.storlet_request import ObjectPath, StorletRequest
from storlet_middleware.wsgi.subrequest import path_info
from storlet_middleware.wsgi.swift_paths import object_path

#: Codes of Swift's refusals of a PUT.
_CODES: Final = {
    401: errors.ACCESS_DENIED,
    403: errors.ACCESS_DENIED,
    404: errors.TARGET_NOT_FOUND,
    412: errors.PRECONDITION_FAILED,
}


class StoredOutput:
    """One further output; a :class:`~storlet_middleware.engine.further_outputs.Sink`.

    :param environ: the client's WSGI environment.
    :param request: the request whose storlet makes the output.
    """

    def __init__(
        self, proxy: Proxy, environ: dict[str, Any], request: StorletRequest, target: ObjectPath
    ) -> None:
        self._proxy = proxy
        self._environ = environ
        self._request = request
        self._target = target
        self.put: WithheldPut | None = None

    @property
    def name(self) -> str:
        """``/container/object``, percent-encoded."""
        return shown(self._target)

    def begin(self, metadata: Mapping[str, str]) -> None:
        """Make the PUT.

        :raises StorletError: the metadata cannot be stored.
        """
        request = self._request
        target = self._target
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
        reserve = reserve_for(
            self._environ,
            self._proxy.app,
            path_info(request, target),
            self._proxy.client_timeout_seconds,
        )
        self.put = WithheldPut(self._proxy.app, put, reserve, self._proxy.logger, self._stalled)

    def _stalled(self, reason: str) -> StorletError:
        text = f"output {self.name} paused for too long: {reason}"
        return StorletError(text, code=errors.TIMEOUT_IDLE)

    def write(self, chunk: bytes) -> None:
        """Give ``chunk`` to the PUT."""
        try:
            self.require_put().write(chunk)
        except PutRefused as refused:
            raise self.refusal(refused) from refused

    def require_put(self) -> WithheldPut:
        """The PUT, after :meth:`begin`."""
        if self.put is None:
            raise AssertionError("the metadata of the output is not known")
        return self.put

    def refusal(self, refused: PutRefused) -> StorletError:
        """Swift's refusal of the PUT, as the error of the run."""
        answer = refused.answer
        drain_and_close(answer)
        text = f"output {self.name}: Swift answered {answer.status}"
        if answer.status_int >= 500:
            return BackendFailed(text)
        code = _CODES.get(answer.status_int, errors.SWIFT_REFUSED)
        return StorletError(text, code=code, status=answer.status_int)

    def close(self) -> None:
        """Break the PUT unless it was committed."""
        if self.put is not None:
            self.put.close()


class StoredOutputs:
    """All further outputs of one run; most runs have none."""

    def __init__(self, proxy: Proxy, environ: dict[str, Any], request: StorletRequest) -> None:
        self.sinks = [StoredOutput(proxy, environ, request, target) for target in request.outputs]

    def __bool__(self) -> bool:
        return bool(self.sinks)

    def commit(self, result: WithheldPut | None = None, name: str = "") -> Response | None:
        """Store all outputs of a run that has succeeded; Swift's answer to the PUT of ``result``.

        :param result: the PUT of the first output, of which :attr:`name` is the target.
        :raises PutRefused: Swift refused the PUT of the result; nothing is stored.
        :raises StorletError: Swift refused another one, or failed after the commit.
        """
        puts = [output.require_put() for output in self.sinks]
        targets = [output.name for output in self.sinks]
        if result is not None:
            puts, targets = [result, *puts], [name, *targets]
        try:
            answers = commit(puts)
        except PutRefused as refused:
            for output in self.sinks:
                if output.put is refused.put:
                    raise output.refusal(refused) from refused
            raise
        if len(puts) > 1 or result is None:
            _require_all(targets, answers)
        return answers[0] if result is not None else None

    def close(self) -> None:
        """Break the PUTs that were not committed; may be called twice."""
        with contextlib.ExitStack() as stack:
            for output in self.sinks:
                stack.callback(output.close)


def shown(target: ObjectPath) -> str:
    """The form of a target in ``X-Storlet-Output``."""
    return quote(f"/{target.container}/{target.name}")


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
