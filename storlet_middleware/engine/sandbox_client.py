"""Requests sandboxes from the node's sandboxd, and connects to worker groups.

The warm path needs no request: the socket path of a worker group is remembered, and a connection to
it either succeeds or shows that the sandbox has ended.
"""

from __future__ import annotations

import errno
import functools
import os
import socket
from typing import Final, TypeVar

from storlet_daemon.protocol import framing, messages
from storlet_middleware.concurrency import (
    WaitExpired,
    connect,
    monotonic,
    wait_readable,
    when_writable,
)
from storlet_middleware.errors import (
    DaemonDown,
    InternalError,
    SandboxUnavailable,
    StorletError,
    TenantBusy,
    from_code,
)

_CONNECT_SECONDS: Final = 2.0
#: sandboxd answers a request that waits for nothing in milliseconds, also beside many starts; one
#: that takes longer is frozen.
_PROMPT_SECONDS: Final = 5.0
#: The same for a check while an object node's heartbeats wait.
_CHECK_SECONDS: Final = 2.0
_GONE: Final = (errno.ENOENT, errno.ECONNREFUSED, errno.EPIPE, errno.ECONNRESET)
#: Socket paths that a server process remembers, those of old storlet versions included.
_MAX_PATHS: Final = 10_000


_Answer = TypeVar("_Answer", messages.Prepared, messages.Acquired)


class SandboxClient:
    """One per server process.

    :param run_dir: where sandboxd listens (``<run_dir>/sandboxd.sock``).
    :param answer_seconds: deadline for sandboxd to start a sandbox and load the code.
    """

    def __init__(self, run_dir: str, answer_seconds: float) -> None:
        self._socket_path = f"{run_dir}/sandboxd.sock"
        self._answer_seconds = answer_seconds
        self._paths: dict[tuple[str, str], str] = {}

    def prepare(self, account: str, storlet: str) -> str:
        """Request the start of the sandbox for a storlet.

        Returns the directory for its code at once.
        """
        request = messages.Prepare(account, storlet)
        try:
            return self._request(request, messages.Prepared, _PROMPT_SECONDS).code_dir
        except WaitExpired as error:
            raise DaemonDown(
                f"storlet-sandboxd does not answer within {_PROMPT_SECONDS:g} s"
            ) from error

    def knows(self, account: str, version: str) -> bool:
        """Whether a worker group is remembered, so that :meth:`connect_warm` probably succeeds."""
        return (account, version) in self._paths

    def connect_warm(self, account: str, version: str) -> socket.SocketType | None:
        """A connection to a remembered worker group that is alive, else ``None``.

        Never waits for a sandbox.
        """
        path = self._paths.get((account, version))
        if path is None:
            return None
        try:
            return connect(path, _CONNECT_SECONDS)
        except OSError as error:
            if error.errno not in _GONE:
                raise _cannot_connect(error) from error
            self._paths.pop((account, version), None)
            return None

    def connect_cold(self, account: str, storlet: messages.Storlet) -> socket.SocketType:
        """Have the storlet loaded, in a new sandbox if need be, and connect.

        Its code is on the node already.
        """
        request = messages.Acquire(account, storlet)
        try:
            path = self._request(request, messages.Acquired, self._answer_seconds).socket
        except WaitExpired as error:
            raise SandboxUnavailable(f"no sandbox within {self._answer_seconds:g} s") from error
        try:
            connection = connect(path, _CONNECT_SECONDS)
        except OSError as error:
            raise _cannot_connect(error) from error
        while len(self._paths) >= _MAX_PATHS:
            self._paths.pop(next(iter(self._paths)))
        self._paths[account, storlet.version] = path
        return connection

    def fault(self, account: str, storlet: messages.Storlet) -> str:
        """Why the node has stalled; empty if sandboxd and the sandbox's supervisor answer.

        For a loaded storlet, sandboxd requests the status of the supervisor.  It replaces a sandbox
        whose supervisor stays silent, so this check also begins the repair.
        """
        try:
            self._request(messages.Acquire(account, storlet), messages.Acquired, _CHECK_SECONDS)
        except WaitExpired:
            return f"storlet-sandboxd or the sandbox does not answer within {_CHECK_SECONDS:g} s"
        except DaemonDown as error:
            return str(error)
        except StorletError:
            # It does answer; the next start of the storlet shows the reason.
            return ""
        return ""

    def _request(
        self, request: messages.Message, expected: type[_Answer], seconds: float
    ) -> _Answer:
        """sandboxd's answer; raises :class:`WaitExpired` after ``seconds``."""
        give_up = monotonic() + seconds
        try:
            control = connect(self._socket_path, _CONNECT_SECONDS)
        except OSError as error:
            raise DaemonDown(
                f"storlet-sandboxd does not answer: {os.strerror(error.errno or 0)}"
            ) from error
        try:
            return _exchange(control, request, expected, give_up)
        except (framing.ProtocolError, OSError) as error:
            raise DaemonDown(f"storlet-sandboxd broke off: {error}") from error
        finally:
            control.close()


def _exchange(
    control: socket.SocketType, request: messages.Message, expected: type[_Answer], give_up: float
) -> _Answer:
    send = functools.partial(framing.send, control, request)
    when_writable(control.fileno(), send, give_up)
    while True:
        try:
            received = framing.receive(control)
            break
        except BlockingIOError:
            wait_readable(control.fileno(), give_up - monotonic())
    if received is None:
        raise DaemonDown("storlet-sandboxd ended before it answered")
    answer = received.message(messages.NODE_ANSWERS)
    if isinstance(answer, expected):
        return answer
    if isinstance(answer, messages.NodeRefused):
        raise from_code(answer.code, answer.message, retry_after=answer.retry_after)
    raise InternalError(f"storlet-sandboxd answered {type(answer).__name__}")


def _cannot_connect(error: OSError) -> StorletError:
    if error.errno == errno.EAGAIN:
        return TenantBusy(
            "as many invocations as can wait already wait for a worker of this storlet"
        )
    return SandboxUnavailable(
        f"the storlet's workers cannot be reached: {os.strerror(error.errno or 0)}"
    )
