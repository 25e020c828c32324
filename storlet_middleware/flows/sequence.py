"""``std:sequence``: several storlets on one request, one after the other.

::

    X-Run-Storlet: std:sequence
    X-Storlet-Parameter-1: steps:[{"storlet": "std:grep", "parameters": {"pattern": "WARN"}},
                                  {"storlet": "summary.jar", "limits": {"memory": "64M"}}]

``steps-object: /container/object`` names an object with the same list instead, which is read in the
caller's name.  The steps run as the pipeline of a rule does
(:mod:`storlet_middleware.proxy.execution.pipeline`), the first one at the data.  Ranges and extra
resources of the request are inputs of the first step, and its further outputs are those of the
last; limits of the request hold for each step, unless the step has its own.

A grant for the storlet of the *first* step allows the read of the object: every later step sees
only what that storlet lets out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from swift.common.utils import close_if_possible

from storlet_middleware import errors, names
from storlet_middleware.catalog.library import Library
from storlet_middleware.config import Config, nearest
from storlet_middleware.engine import limits
from storlet_middleware.errors import AccessDenied, BackendFailed, BadRequest, StorletError, fault
from storlet_middleware.flows.caller_requests import CallerRequests, WSGIApp
from storlet_middleware.wsgi import dynamic_object, s3_request
from storlet_middleware.wsgi.bodies import read_bounded
from storlet_middleware.wsgi.storlet_request import (
    ObjectPath,
    StorletRequest,
    is_query_of_swift,
    parse_object_path,
    storlet_name_fault,
)

STEPS: Final = "steps"
STEPS_OBJECT: Final = "steps-object"
MOST_STEPS: Final = 16
_MOST_BYTES: Final = 256 << 10
_KEYS: Final = ("storlet", "parameters", "limits")
#: Faults that an answer names.  To look for names that are near to thousands of unknown ones would
#: stop the server process for seconds.
MOST_FAULTS: Final = 40


class Sequences:
    """The sequences of all requests of a process.

    :param app: the filter itself, which reads the object with the steps.
    """

    def __init__(self, app: WSGIApp, config: Config, library: Library) -> None:
        self._app = app
        self._config = config
        self._library = library

    def steps(self, environ: Mapping[str, Any], request: StorletRequest) -> list[StorletRequest]:
        """A request for each step; the request itself if it names another storlet.

        :raises BadRequest: with all faults of the steps.
        :raises StorletError: the object with the steps cannot be read.
        """
        if request.storlet != names.SEQUENCE:
            return [request]
        self._library.require_available(names.SEQUENCE)
        faults = [
            f"parameter {name!r}: unknown: {names.SEQUENCE} has {STEPS} and {STEPS_OBJECT}"
            f"{nearest(name, [STEPS, STEPS_OBJECT])}"
            for name in request.parameters
            if name not in {STEPS, STEPS_OBJECT} and not is_query_of_swift(name)
        ]
        given = {name: request.parameters.get(name) for name in (STEPS, STEPS_OBJECT)}
        if (given[STEPS] is None) == (given[STEPS_OBJECT] is None):
            faults.append(f"want one of the parameters {STEPS} and {STEPS_OBJECT}")
        if faults:
            raise BadRequest("; ".join(faults))
        text = given[STEPS]
        if text is None:
            text = self._stored(environ, request, str(given[STEPS_OBJECT]))
        return _Parser(request, self._config).parse(text)

    def _stored(self, environ: Mapping[str, Any], request: StorletRequest, path: str) -> str:
        if s3_request.is_s3(environ):
            raise BadRequest(f"{STEPS_OBJECT}: not with the S3 API: send {STEPS}")
        try:
            place = parse_object_path(path, needs_slash=True)
        except ValueError as error:
            raise BadRequest(fault(f"parameter {STEPS_OBJECT!r}", path, str(error))) from None
        requests = CallerRequests(self._app, environ, (request.version, request.account))
        return read_object(requests, place, _MOST_BYTES).decode("utf-8", "replace")


def read_object(requests: CallerRequests, place: ObjectPath, most_bytes: int) -> bytes:
    """The content of a small object that a flow needs, as the caller gets it.

    :raises StorletError: the caller may not read it, it is missing or too large.
    """
    path = f"{place.container}/{place.name}"
    answer = requests.send("GET", path)
    status = int(answer.status[:3])
    text = f"/{path}: {answer.status}"
    too_many = BadRequest(f"/{path}: more than {most_bytes} bytes")
    if status == 200:
        if answer.header(dynamic_object.MANIFEST.lower()) and not answer.header("content-length"):
            close_if_possible(answer.chunks)
            # Swift does not say where it ends, so a part of it could be missing.
            raise BadRequest(f"/{path}: a dynamic large object of unknown length: store it as one")
        return read_bounded(answer.chunks, most_bytes, too_many)
    read_bounded(answer.chunks, most_bytes, too_many)
    if status in {401, 403}:
        raise AccessDenied(text, status=status)
    if status == 404:
        raise StorletError(text, code=errors.INPUT_NOT_FOUND)
    if status < 500:
        raise BadRequest(text)
    raise BackendFailed(text)


class _Parser:
    """Collects the faults of all steps."""

    def __init__(self, request: StorletRequest, config: Config) -> None:
        self._request = request
        self._config = config
        self._faults: list[str] = []

    def parse(self, text: str) -> list[StorletRequest]:
        listed = self._listed(text)
        requests = [self._step(number, each) for number, each in enumerate(listed, 1)]
        if self._faults:
            raise BadRequest(joined(self._faults))
        requests[-1] = replace(requests[-1], outputs=self._request.outputs)
        return requests

    def _listed(self, text: str) -> list[Any]:
        wanted = f'want a JSON list of 1 to {MOST_STEPS} steps: [{{"storlet": "NAME"}}, ...]'
        try:
            listed = json_of(text)
        except (ValueError, RecursionError) as error:
            raise BadRequest(f"{STEPS}: {error}: {wanted}") from None
        if not isinstance(listed, list) or not 1 <= len(listed) <= MOST_STEPS:
            raise BadRequest(fault(STEPS, text, wanted))
        return listed

    def _step(self, number: int, given: Any) -> StorletRequest:
        where = f"step {number}"
        step = {"storlet": given} if isinstance(given, str) else given
        if not isinstance(step, dict):
            self._faults.append(fault(where, str(given), "want a name, or an object with storlet"))
            return self._request
        unknown = [key for key in step if key not in _KEYS]
        self._faults += [
            f"{where}: unknown key {key!r}{nearest(key, list(_KEYS))}"
            for key in unknown[:MOST_FAULTS]
        ]
        storlet = self._storlet(where, step.get("storlet"))
        is_first = number == 1
        return replace(
            self._request,
            storlet=storlet,
            parameters=self._parameters(where, step.get("parameters", {}), is_first=is_first),
            limits={**self._request.limits, **self._limits(where, storlet, step.get("limits", {}))},
            ranges=self._request.ranges if is_first else (),
            extra=self._request.extra if is_first else (),
            outputs=(),
        )

    def _storlet(self, where: str, name: Any) -> str:
        if not storlet_fault(name):
            return str(name)
        self._faults.append(f"{where}: storlet: {storlet_fault(name)}")
        return ""

    def _parameters(self, where: str, given: Any, *, is_first: bool) -> dict[str, str]:
        values, faults = parameters_of(given)
        self._faults += [f"{where}: {each}" for each in faults]
        # The query may select a version or a manifest of the source, which is the first step's.
        swift = {
            name: value
            for name, value in self._request.parameters.items()
            if is_first and is_query_of_swift(name)
        }
        return {**swift, **values}

    def _limits(self, where: str, storlet: str, given: Any) -> dict[str, float]:
        values, faults = limits_of(given, self._config, self._request.account, storlet)
        self._faults += [f"{where}: {each}" for each in faults]
        return values


# --- the parts of a step, in any flow -------------------------------------------------------------


def json_of(given: str | bytes) -> Any:
    """The value of a text of JSON; raises ``ValueError``, also for half of a surrogate pair, which
    no name and no parameter can have.
    """
    value = json.loads(given)
    json.dumps(value, ensure_ascii=False).encode()
    return value


def joined(faults: list[str]) -> str:
    """The faults as one text."""
    more = len(faults) - MOST_FAULTS
    return "; ".join([*faults[:MOST_FAULTS], *([f"and {more} more"] if more > 0 else [])])


def storlet_fault(name: Any) -> str:
    """Why ``name`` is no storlet that a flow can run; empty if it can be one."""
    if not isinstance(name, str) or not name.strip() or "/" in name or not name.isprintable():
        return f"{name!r}: want the name of a storlet"
    wrong = storlet_name_fault(name.strip())
    if wrong:
        return fault("name", name, wrong)
    # A header loses its outer spaces.
    if name.strip() in names.FLOWS:
        return f"{name}: a flow cannot be a part of a flow"
    return ""


def parameters_of(given: Any) -> tuple[dict[str, str], list[str]]:
    """Parameters of JSON as a storlet gets them, and their faults."""
    if not isinstance(given, dict):
        return {}, [f"parameters: {given!r}: want an object"]
    faults = [
        f"parameter {name!r}: names that begin with storlet_ are reserved: choose another name"
        for name in given
        if name.startswith("storlet_")
    ]
    faults += [
        f"parameter {name!r}: want a text, a number, true or false"
        for name, value in given.items()
        if not isinstance(value, str | int | float)
    ]
    return {name: _text_of(value) for name, value in given.items()}, faults


def _text_of(value: Any) -> str:
    return json.dumps(value) if isinstance(value, bool) else str(value)


def limits_of(
    given: Any, config: Config, account: str, storlet: str
) -> tuple[dict[str, float], list[str]]:
    """Limits of JSON, and their faults."""
    if not isinstance(given, dict):
        return {}, [f"limits: {given!r}: want an object"]
    if len(given) > MOST_FAULTS:
        return {}, [f"limits: {len(given)} of them: want {MOST_FAULTS} at most"]
    headers = {names.LIMIT_PREFIX + name.title(): str(value) for name, value in given.items()}
    values, faults = limits.requested(headers)
    trust_class = config.class_of(account, storlet)
    faults += limits.above_maximum(values, names.LIMIT_PREFIX, trust_class)
    return values, faults


#: Reads the steps of a request.
StepsOf = Callable[[Mapping[str, Any], StorletRequest], list[StorletRequest]]
