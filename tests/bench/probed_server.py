"""``probed_server.py CONF_DIR SCRIPT CONF ...``: one of Swift's servers with probes at the
boundaries of the stages of a GET.

A probe is a function of the product, of Swift or of eventlet in a wrapper that notes the time of
``CLOCK_MONOTONIC``, which is the same clock in every process of a machine, containers included,
before the function is called or after it has returned.  What is noted stays in memory under the
request's transaction id until somebody asks for it:

``GET /probes?on``    puts the probes in ``GET /probes?off``   takes them out again: not even their
wrappers are left ``GET /probes?take``  JSON: ``{transaction id: [name, nanoseconds, name,
nanoseconds, ...]}``, which are forgotten here

Before a request has an id nobody can tell it by that, and much of what is wrapped does not know the
id: so requests have to come one after another.  This file is copied to where Swift's user can read
it, and imports nothing of the benchmark.
"""

from __future__ import annotations

import functools
import importlib
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

_now: Final = time.monotonic_ns
#: A proxy makes the id, an object server is told it.
_ID_KEY: Final = "HTTP_X_TRANS_ID"


class Probe(NamedTuple):
    """``attribute`` is a function of a class of ``module``; ``before`` and ``after`` are names of
    stamps, or empty."""

    module: str
    attribute: str
    before: str
    after: str = ""


_SERVER: Final = "swift.common.http_protocol"
_INVOCATION: Final = "storlet_middleware.engine.invocation"
_STORLETS: Final = (
    Probe(_INVOCATION, "Invocation.start", "hand.in", "hand.out"),
    Probe(_INVOCATION, "Invocation.first", "", "first.out"),
    Probe("storlet_middleware.engine.events", "Events._handle_done", "done"),
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
        Probe("storlet_middleware.proxy.source", "Source.get", "get.in", "get.out"),
        Probe("swift.proxy.server", "Application.__call__", "swift.in", "swift.out"),
        Probe("swift.common.bufferedhttp", "BufferedHTTPConnection.putrequest", "hop.out"),
        Probe("swift.common.bufferedhttp", "BufferedHTTPConnection.getresponse", "", "hop.back"),
        Probe("storlet_middleware.proxy.result", "RemoteResult.first", "", "frames.out"),
        Probe("storlet_middleware.proxy.run", "Run.answer", "", "run.out"),
        Probe("storlet_middleware.proxy.run", "Run._end", "end.in", "end.out"),
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

#: Names and times in turn: pairs would be objects that the garbage collector counts and follows.
Stamps = list[str | int]


class Recorder:
    """The stamps of this process's requests."""

    def __init__(self, edge: str) -> None:
        self.requests: dict[str, Stamps] = {}
        self._stamps: Stamps = []
        self._first = f"{edge}.got"

    def stamp(self, name: str) -> None:
        """Note the time.  With the first stamp of a server a request begins."""
        if name == self._first:
            self._stamps = []
        self._stamps += (name, _now())

    def keep(self, identity: str) -> None:
        """Keep the stamps of the request that goes on now, with those that are still to come."""
        self.requests[identity] = self._stamps

    def take(self) -> dict[str, Stamps]:
        """What was kept, which is forgotten here."""
        taken, self.requests = self.requests, {}
        return taken


class Switch:
    """Puts probes in and takes them out."""

    def __init__(self, recorder: Recorder, probes: Iterable[Probe]) -> None:
        self._recorder = recorder
        self._probes = tuple(probes)
        self._originals: list[tuple[Any, str, Any]] = []

    @property
    def is_on(self) -> bool:
        return bool(self._originals)

    def on(self) -> None:
        for probe in () if self.is_on else self._probes:
            owner, name = place_of(probe)
            original = getattr(owner, name)
            self._originals.append((owner, name, original))
            setattr(owner, name, wrapped(original, probe, self._recorder.stamp))

    def off(self) -> None:
        while self._originals:
            setattr(*self._originals.pop())


def place_of(probe: Probe) -> tuple[Any, str]:
    """The class that has the function itself, and the function's name in it."""
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


class Edge:
    """The whole pipeline: where a request goes in, and where the last of its answer has come out
    (before it is sent)."""

    def __init__(self, app: Any, script: str) -> None:
        self._app = app
        self._name = EDGES[script]
        self._recorder = Recorder(self._name)
        self._switch = Switch(self._recorder, PROBES[script])

    def __getattr__(self, name: str) -> Any:
        """Swift's server looks for the pipeline's own attributes."""
        return getattr(self._app, name)

    def __call__(
        self, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        """WSGI."""
        if environ["PATH_INFO"] == "/probes":
            return self._obey(environ["QUERY_STRING"], start_response)
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

    def _obey(self, command: str, start_response: Callable[..., Any]) -> list[bytes]:
        taken: dict[str, Stamps] = {}
        if command == "take":
            taken = self._recorder.take()
        else:
            {"on": self._switch.on, "off": self._switch.off}[command]()
        body = json.dumps(taken, separators=(",", ":")).encode()
        start_response(
            "200 OK", [("Content-Length", str(len(body))), ("Content-Type", "application/json")]
        )
        return [body]


class _Body:
    """An answer's body that tells when all of it has been given to the server."""

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
