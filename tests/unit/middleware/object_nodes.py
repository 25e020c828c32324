"""Test doubles for an object node: an object server with one file, and a node over it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from swift.common.swob import Request, Response
from swift.common.utils import close_if_possible

from storlet_middleware.backend.invocation_header import BackendInvocation
from storlet_middleware.engine.storlet_version import CodeFile, StorletVersion
from storlet_middleware.object_server.node import ObjectNode
from storlet_middleware.proxy.execution.result import RemoteResult
from storlet_middleware.wsgi.byte_ranges import ByteRange
from tests.unit.middleware.logger import Logger
from tests.unit.middleware.support import Node, make_config

GULP = 4096

CODE = b"class Up: pass"

VERSION = StorletVersion(
    "AUTH_test",
    "up.py",
    "python",
    "",
    "up.Up",
    (CodeFile("storlet", "up.py", "c9bf8a8ff03f2b8b6cd85f0c1e6a1bd5", "1", len(CODE), 0o444),),
)


class Reader:
    """Like Swift's disk file reader: yields chunks, holds the file in ``_fp``."""

    def __init__(self, path: Path) -> None:
        self._fp = path.open("rb")

    def __iter__(self) -> Iterator[bytes]:
        yield self._fp.read()

    def close(self) -> None:
        self._fp.close()


class ObjectServer:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.headers = {
            "X-Object-Meta-Color": "grün".encode().decode("latin-1"),
            "Etag": "source",
            "X-Timestamp": "1",
        }
        self.status = 200

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        request = Request(environ)
        if self.status != 200:
            return Response(status=self.status, request=request)(environ, start_response)
        answer = Response(request=request, headers=self.headers, app_iter=Reader(self.path))
        answer.content_length = self.path.stat().st_size
        return answer(environ, start_response)


class Fixture:
    def __init__(self, node: Node, short_dir: Path) -> None:
        path = short_dir / "o.data"
        path.write_bytes(b"hello")
        self.server = ObjectServer(path)
        self.logger = Logger()
        self.node = node
        config = make_config(short_dir, placement__heartbeat_seconds="0.2")
        self.filter = ObjectNode(self.server, config, self.logger)
        (node.code_dir / VERSION.key).mkdir()  # the code is cached on the node
        self._answers: list[Any] = []

    def close(self) -> None:
        """Close all answers, as a server does: a run that has sent a heartbeat has not ended."""
        for answer in self._answers:
            close_if_possible(answer.app_iter)

    def configure(self, short_dir: Path, **options: str) -> None:
        self.filter = ObjectNode(self.server, make_config(short_dir, **options), self.logger)

    def start(
        self,
        ranges: tuple[ByteRange, ...] = (),
        headers: dict[str, str] | None = None,
        log: bool = False,
        storlet: StorletVersion = VERSION,
        log_delay: float | None = None,
    ) -> Any:
        wanted = BackendInvocation(
            "tx-1",
            storlet,
            {"k": "ü"},
            ranges,
            log,
            GULP,
            keeps_log_tail=log_delay is not None,
            log_delay_seconds=log_delay,
        )
        request = Request.blank(
            "/sda/1/AUTH_test/c/o", headers={**(wanted.to_headers() or {}), **(headers or {})}
        )
        answer = request.get_response(self.filter)
        self._answers.append(answer)
        return answer

    def read(
        self, ranges: tuple[ByteRange, ...] = (), log: bool = False
    ) -> tuple[bytes, RemoteResult]:
        result = RemoteResult(self.start(ranges, log=log))
        try:
            result.first()
            return b"".join(result.chunks()), result
        finally:
            result.close()
