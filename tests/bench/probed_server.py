"""``probed_server.py CONF_DIR SCRIPT CONF ...``: one of Swift's servers with probes at the
boundaries of the stages of a GET.

A probe wraps a function of the product, of Swift or of eventlet, and records the time of
``CLOCK_MONOTONIC`` before the call or after the return.  All processes of a machine share this
clock, in Docker containers too.  The times stay in memory under the request's transaction id until
a request takes them:

``GET /probes?on``    inserts the probes
``GET /probes?off``   removes them and their wrappers
``GET /probes?take``  JSON: ``{transaction id: [name, nanoseconds, name, nanoseconds, ...]}``;
                      deletes these

Instead of probes, it can count the calls of Python functions, which costs much time:

``GET /probes?count``    begins to count
``GET /probes?counted``  JSON: ``{file: calls}``; ends it

A request has no id at first, and many wrapped functions do not know the id: so requests must be
sent in sequence.  This file is copied to a place that Swift's user can read, and imports nothing of
the benchmark.
"""

from __future__ import annotations

import functools
import importlib
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from types import CodeType, FrameType
from typing import Any, Final, NamedTuple

import greenlet

_now: Final = time.monotonic_ns
#: A proxy creates the id, an object server receives it.
_ID_KEY: Final = "HTTP_X_TRANS_ID"


class Probe(NamedTuple):
    """``attribute`` is a function of a class of ``module``; ``before`` and ``after`` are names of
    stamps, or empty."""

    module: str
    attribute: str
    before: str
    after: str = ""


_SERVER: Final = "swift.common.http_protocol"
_ENGINE: Final = "storlet_middleware.engine"
_STORLETS: Final = (
    Probe(f"{_ENGINE}.invocation", "Invocation.start", "hand.in", "hand.out"),
    Probe(f"{_ENGINE}.first_output", "FirstOutput.first", "", "first.out"),
    Probe(f"{_ENGINE}.events", "Events._handle_done", "done"),
)
#: By the name of the server's script.
PROBES: Final = {
    "swift-proxy-server": (
        Probe(_SERVER, "SwiftHttpProtocol.parse_request", "proxy.got"),
        Probe("swift.common.middleware.tempauth", "TempAuth.__call__", "auth.in"),
        Probe("swift.common.middleware.staticweb", "StaticWeb.__call__", "auth.out"),
        Probe("storlet_middleware.filter", "ProxyFilter.__call__", "filter.in"),
        Probe(
            "storlet_middleware.enforcement.ruling", "Enforcement.decide", "rules.in", "rules.out"
        ),
        Probe("storlet_middleware.catalog.storlets", "Catalog.authorize", "", "rights.out"),
        Probe("storlet_middleware.catalog.storlets", "Catalog.resolve", "", "version.out"),
        Probe("storlet_middleware.proxy.caller_reads", "CallerReads.get", "get.in", "get.out"),
        Probe("swift.proxy.server", "Application.__call__", "swift.in", "swift.out"),
        Probe("swift.common.bufferedhttp", "BufferedHTTPConnection.putrequest", "hop.out"),
        Probe("swift.common.bufferedhttp", "BufferedHTTPConnection.getresponse", "", "hop.back"),
        Probe("storlet_middleware.proxy.execution.result", "RemoteResult.first", "", "frames.out"),
        Probe("storlet_middleware.proxy.run", "Run.answer", "", "run.out"),
        *_STORLETS,
    ),
    "swift-object-server": (
        Probe(_SERVER, "SwiftHttpProtocol.parse_request", "node.got"),
        Probe("swift.obj.server", "ObjectController.__call__", "disk.in", "disk.out"),
        *_STORLETS,
    ),
}
#: How the stamps of a server's :class:`Edge` begin.
EDGES: Final = {"swift-proxy-server": "proxy", "swift-object-server": "node"}

#: Names and times alternate: pairs would be objects that the garbage collector counts and
#: traverses.
Stamps = list[str | int]


class Recorder:
    """The stamps of this process's requests."""

    def __init__(self, edge: str) -> None:
        self.requests: dict[str, Stamps] = {}
        self._stamps: Stamps = []
        self._first = f"{edge}.got"

    def stamp(self, name: str) -> None:
        """Record the time. The first stamp of a server begins a request."""
        if name == self._first:
            self._stamps = []
        self._stamps += (name, _now())

    def keep(self, identity: str) -> None:
        """Keep the stamps of the current request, including its later ones."""
        self.requests[identity] = self._stamps

    def take(self) -> dict[str, Stamps]:
        """Return the kept stamps and delete them."""
        taken, self.requests = self.requests, {}
        return taken


class Switch:
    """Inserts and removes probes."""

    def __init__(self, recorder: Recorder, probes: Iterable[Probe]) -> None:
        self._recorder = recorder
        self._probes = tuple(probes)
        self._originals: list[tuple[Any, str, Any]] = []

    @property
    def is_on(self) -> bool:
        return bool(self._originals)

    def on(self) -> None:
        for probe in () if self.is_on else self._probes:
            owner, name = definition_of(probe)
            original = getattr(owner, name)
            self._originals.append((owner, name, original))
            setattr(owner, name, wrapped(original, probe, self._recorder.stamp))

    def off(self) -> None:
        while self._originals:
            setattr(*self._originals.pop())


def definition_of(probe: Probe) -> tuple[Any, str]:
    """The class that defines the function, and the function's name in it."""
    class_name, _, name = probe.attribute.partition(".")
    owner = getattr(importlib.import_module(probe.module), class_name)
    if name not in vars(owner):
        raise AttributeError(f"{probe.module}: no {probe.attribute}")
    return owner, name


def wrapped(
    function: Callable[..., Any], probe: Probe, stamp: Callable[[str], None]
) -> Callable[..., Any]:
    """``function`` with the stamps of ``probe``."""
    before, after = probe.before, probe.after

    @functools.wraps(function)
    def with_stamps(*args: Any, **kwargs: Any) -> Any:
        if before:
            stamp(before)
        try:
            return function(*args, **kwargs)
        finally:
            if after:
                stamp(after)

    return with_stamps


class CallCounter:
    """Counts the calls of Python functions in all green threads of this thread."""

    def __init__(self) -> None:
        self._calls: dict[CodeType, int] = {}

    def begin(self) -> None:
        """Count from now on."""
        self._calls.clear()
        # A green thread may have a profile function of its own.
        greenlet.settrace(lambda _event, _greenlets: sys.setprofile(self._note))
        sys.setprofile(self._note)

    def end(self) -> dict[str, int]:
        """Stop; return the calls of the functions of each file.

        Without those of eventlet's hub: they depend on the time that passes.
        """
        greenlet.settrace(None)
        sys.setprofile(None)
        by_file: dict[str, int] = {}
        for code, calls in self._calls.items():
            if "/eventlet/hubs/" not in code.co_filename:
                by_file[code.co_filename] = by_file.get(code.co_filename, 0) + calls
        self._calls.clear()
        return by_file

    def _note(self, frame: FrameType, event: str, _argument: object) -> None:
        if event == "call":
            self._calls[frame.f_code] = self._calls.get(frame.f_code, 0) + 1


class Edge:
    """The whole pipeline: stamps the entry of a request and the end of its response (before it is
    sent)."""

    def __init__(self, app: Any, script: str) -> None:
        self._app = app
        self._name = EDGES[script]
        self._recorder = Recorder(self._name)
        self._switch = Switch(self._recorder, PROBES[script])
        self._counter = CallCounter()

    def __getattr__(self, name: str) -> Any:
        """Swift's server looks for the pipeline's own attributes."""
        return getattr(self._app, name)

    def __call__(
        self, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        """WSGI."""
        if environ["PATH_INFO"] == "/probes":
            return self._command(environ["QUERY_STRING"], start_response)
        if not self._switch.is_on:
            return self._app(environ, start_response)  # type: ignore[no-any-return]
        stamp = self._recorder.stamp
        stamp(f"{self._name}.in")
        answer = self._app(environ, start_response)
        stamp(f"{self._name}.out")
        self._recorder.keep(environ.get("swift.trans_id") or environ.get(_ID_KEY, ""))
        if isinstance(answer, list | tuple):
            stamp(f"{self._name}.given")
            return answer
        return _Body(answer, functools.partial(stamp, f"{self._name}.given"))

    def _command(self, command: str, start_response: Callable[..., Any]) -> list[bytes]:
        commands: dict[str, Callable[[], object]] = {
            "on": self._switch.on,
            "off": self._switch.off,
            "take": self._recorder.take,
            "count": self._counter.begin,
            "counted": self._counter.end,
        }
        body = json.dumps(commands[command](), separators=(",", ":")).encode()
        start_response(
            "200 OK", [("Content-Length", str(len(body))), ("Content-Type", "application/json")]
        )
        return [body]


class _Body:
    """A response body that records when the server has taken all of it."""

    def __init__(self, chunks: Iterable[bytes], on_end: Callable[[], None]) -> None:
        self._chunks = chunks
        self._on_end = on_end

    def __iter__(self) -> Iterator[bytes]:
        yield from self._chunks
        self._on_end()

    def close(self) -> None:
        close = getattr(self._chunks, "close", None)
        if close is not None:
            close()


def main(arguments: list[str]) -> int:
    """Become ``SCRIPT`` of Swift as :mod:`storlet_middleware.aio.serve` does, with an :class:`Edge`
    around its pipeline."""
    from storlet_middleware.aio import serve  # noqa: PLC0415 - the benchmark's own Python does without Swift

    conf_dir, script = arguments[1:3]
    serve.use(conf_dir)
    from swift.common import wsgi  # noqa: PLC0415 - see there

    load = wsgi.loadapp
    wsgi.loadapp = lambda *args, **kwargs: Edge(load(*args, **kwargs), script)
    return serve.main(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv))
