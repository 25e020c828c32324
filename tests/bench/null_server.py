"""``python -m tests.bench.null_server``: answers every request with the same bytes, as fast as
Python can.

The benchmark's client is measured against it: the cost of a request here is an upper bound for the
client's share in every figure.  ``/large`` is answered with 100 MiB, in chunks as Swift sends a
storlet's output.
"""

from __future__ import annotations

import select
import socket
import sys
from typing import Final

_CHUNK: Final = bytes(64 * 1024)
_CHUNKS: Final = 1600
_SMALL: Final = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 1024\r\n\r\n" + bytes(1024)
)


def serve() -> None:
    """Serve until standard input ends; the port is the first line of output."""
    listening = socket.create_server(("127.0.0.1", 0), backlog=256)
    print(listening.getsockname()[1], flush=True)
    poll = select.epoll()
    poll.register(listening, select.EPOLLIN)
    poll.register(sys.stdin, select.EPOLLIN)
    clients: dict[int, socket.socket] = {}
    while True:
        for number, _ in poll.poll():
            if number == listening.fileno():
                client, _ = listening.accept()
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                clients[client.fileno()] = client
                poll.register(client, select.EPOLLIN)
            elif number in clients:
                if not _answer(clients[number]):
                    clients.pop(number).close()
            else:
                return


def _answer(client: socket.socket) -> bool:
    """A request is one packet on the loopback device, so only its target is parsed."""
    request = client.recv(1 << 16)
    if request.startswith(b"GET /large"):
        client.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(_CHUNKS):
            client.sendall(b"%x\r\n%b\r\n" % (len(_CHUNK), _CHUNK))
        client.sendall(b"0\r\n\r\n")
    elif request:
        client.sendall(_SMALL)
    return bool(request)


if __name__ == "__main__":
    serve()
