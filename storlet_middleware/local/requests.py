"""The lines of JSON between the client and ``storlet-local``.

Requests come from standard input, one a line.  The storlet's output goes to standard output, each
further one to a file that exists, which ``outputs`` of the request names.  For
each request, one answer is written to the descriptor of the option ``--report``.  The first line
there that has ``fault`` ends the session: no sandbox can be started, or the request is malformed.

::

    {"do": "run", "bundle": "/tmp/fruit.storlet", "inputs": [{"path": "a", "metadata": {}}],
     "parameters": {"text": "apple"}, "limits": {"Memory": "64M"}, "secrets": {"key": "YmFzZTY0"}}
    {"do": "load", "bundle": "/tmp/fruit.storlet"}

    {"code": "ok", "message": "", "traceback": "", "metadata": {}, "log": "", "usage": "cpu=0.01"}
    {"fault": "Docker does not answer ..."}
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

RUN = "run"
LOAD = "load"


class Malformed(ValueError):
    """A line is no request."""


@dataclass(frozen=True)
class InputFile:
    """A regular file, and the user metadata of the object that it stands for."""

    path: str
    metadata: Mapping[str, str]


@dataclass(frozen=True)
class Request:
    """``run``: one run.  ``load``: load the code and end before the run.

    :param outputs: files for the further outputs.
    :param secrets: the values of the run's secrets.
    """

    do: str
    bundle: str
    inputs: tuple[InputFile, ...] = ()
    parameters: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, str] = field(default_factory=dict)
    outputs: tuple[str, ...] = ()
    secrets: Mapping[str, bytes] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Reply:
    """The end of a run.

    :param code: ``ok``, or an error code of :mod:`storlet_middleware.errors`.
    :param usage: as in ``X-Storlet-Usage``; empty if nothing ran.
    :param further_metadata: that of each further output.
    """

    code: str
    message: str = ""
    traceback: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    log: str = ""
    usage: str = ""
    further_metadata: tuple[Mapping[str, str], ...] = ()

    def line(self) -> bytes:
        fields = asdict(self)
        if not self.further_metadata:
            del fields["further_metadata"]  # older clients do not know it
        return _line(fields)


def fault_line(text: str) -> bytes:
    """The line that ends a session."""
    return _line({"fault": text})


def parse(line: bytes) -> Request:
    """The request of a line.

    :raises Malformed: it is none.
    """
    try:
        fields: dict[str, Any] = json.loads(line)
        inputs = tuple(InputFile(**each) for each in fields.pop("inputs", ()))
        outputs = tuple(fields.pop("outputs", ()))
        secrets = {
            name: base64.b64decode(text, validate=True)
            for name, text in fields.pop("secrets", {}).items()
        }
        request = Request(inputs=inputs, outputs=outputs, secrets=secrets, **fields)
    except (ValueError, TypeError, AttributeError) as error:
        raise Malformed(f"a malformed request: {error}") from error
    if request.do not in (RUN, LOAD):
        raise Malformed(f"a malformed request: do: {request.do!r}")
    return request


def _line(fields: Mapping[str, Any]) -> bytes:
    return json.dumps(fields).encode() + b"\n"
