"""``python -m tests.bench.relay HOST PORT SECONDS``: a TCP relay that delays every byte by
``SECONDS`` in each direction.

It simulates a long distance between the client and the proxy.  Only latency is added: the rate is
not limited, and there is no TCP window growth as on a real link.  Connects are not delayed; the
benchmark keeps its connections.

It ends when its standard input ends, and so with its parent; the port is its first line of output.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from asyncio import Queue, StreamReader, StreamWriter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tests.bench.http import Address
from tests.support.cluster import CHECKOUT

_PIECE_BYTES: Final = 1 << 18
#: Buffer of one direction of one connection.  Swift sends pieces of 64 KiB: 32 MiB, or 640 MB/s
#: with 50 ms; a receiver that is slower than its sender must not make this process grow without
#: limit.
_UNDER_WAY: Final = 512
_BACKLOG: Final = 512

#: When a piece arrives, and the piece; an empty one is the end.
_Way = Queue[tuple[float, bytes]]


@contextmanager
def relay(target: Address, seconds: float) -> Iterator[Address]:
    """Run a relay to ``target`` in a separate process; the address it listens on."""
    command = [sys.executable, "-m", "tests.bench.relay", target[0], str(target[1]), str(seconds)]
    with subprocess.Popen(
        command, cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        try:
            if process.stdout is None:
                raise RuntimeError("no pipe to the relay")
            yield "127.0.0.1", int(process.stdout.readline())
        finally:
            process.terminate()


async def serve(target: Address, seconds: float) -> None:
    """Serve until standard input ends."""
    owner_left = asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin, owner_left.set)

    async def connect(reader: StreamReader, writer: StreamWriter) -> None:
        await _between(reader, writer, target, seconds)

    server = await asyncio.start_server(
        connect, "127.0.0.1", 0, limit=_PIECE_BYTES, backlog=_BACKLOG
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    await owner_left.wait()


async def _between(
    reader: StreamReader, writer: StreamWriter, target: Address, seconds: float
) -> None:
    """Relay one connection until both directions have ended or one side has disconnected."""
    writers = [writer]
    try:
        their_reader, their_writer = await asyncio.open_connection(*target, limit=_PIECE_BYTES)
        writers.append(their_writer)
        async with asyncio.TaskGroup() as group:
            for source, sink in ((reader, their_writer), (their_reader, writer)):
                way = _Way(_UNDER_WAY)
                group.create_task(_read_source(source, way, seconds))
                group.create_task(_write_target(way, sink))
    except* OSError:
        pass  # the other side sees the end of its connection
    finally:
        for each in writers:
            each.close()


async def _read_source(source: StreamReader, way: _Way, seconds: float) -> None:
    clock = asyncio.get_running_loop().time
    while piece := await source.read(_PIECE_BYTES):
        await way.put((clock() + seconds, piece))
    await way.put((clock() + seconds, b""))


async def _write_target(way: _Way, sink: StreamWriter) -> None:
    clock = asyncio.get_running_loop().time
    while True:
        due, piece = await way.get()
        await asyncio.sleep(due - clock())
        if not piece:
            sink.write_eof()
            return
        sink.write(piece)
        await sink.drain()


if __name__ == "__main__":
    asyncio.run(serve((sys.argv[1], int(sys.argv[2])), float(sys.argv[3])))
