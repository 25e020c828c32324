"""Processes of the server, run in the process of the test: the start of one takes 0.2 s.

The module of the process has its arguments, its input, its output and its exit status.  Only the
limits are not set.  A test of the process itself has the fixture ``real_processes``.
"""

from __future__ import annotations

import importlib
import io
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import BinaryIO
from unittest import mock

from storlet_middleware import child_limits
from storlet_middleware.concurrency import ProcessEnded


def run_here(
    command: Sequence[str], given: bytes | BinaryIO, environment: Mapping[str, str], seconds: float
) -> tuple[int, bytes]:
    """As :func:`storlet_middleware.concurrency.run_process`, for the command of a module."""
    _interpreter, _safe_path, _option, module, *arguments = command
    found, said = importlib.import_module(module), io.BytesIO()
    with (
        io.TextIOWrapper(_opened(given)) as stdin,
        io.TextIOWrapper(said, write_through=True) as stdout,
        mock.patch.multiple(sys, stdin=stdin, stdout=stdout, argv=[module, *arguments]),
        mock.patch.multiple(child_limits, confine=mock.DEFAULT, give_way=mock.DEFAULT),
    ):
        status = _status_of(found.main)
        return status, said.getvalue()


@contextmanager
def conversation_here(
    command: Sequence[str],
    environment: Mapping[str, str],
    seconds: float,
    *,
    has_rest: bool = False,
) -> Iterator[Callable[[bytes], bytes]]:
    """As :func:`storlet_middleware.concurrency.conversation`: with the ``Check`` of a module, or
    for one that answers a single line; the rest of its work is done before that.
    """

    def answered(line: bytes) -> bytes:
        status, said = run_here(command, line + b"\n", environment, seconds)
        if status:
            raise ProcessEnded(status)
        return said

    module = importlib.import_module(command[3])
    yield module.Check().answer if hasattr(module, "Check") else answered


def _opened(given: bytes | BinaryIO) -> BinaryIO:
    if isinstance(given, bytes):
        return io.BytesIO(given)
    given.flush()
    given.seek(0)
    return os.fdopen(os.dup(given.fileno()), "rb")


def _status_of(main: object) -> int:
    try:
        assert callable(main)
        main()
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except Exception:  # noqa: BLE001 - the interpreter would end with its trace
        return 1
    return 0
