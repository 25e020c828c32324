"""Code in a child process: for functions that change their process or wait for children."""

from __future__ import annotations

import os
import pickle
import traceback
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")


def in_child(function: Callable[[], Result]) -> Result:
    """The result of ``function`` in a forked child; its exception fails the test."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(reading)
            try:
                answer = (True, function())
            except BaseException:  # noqa: BLE001  it must not reach pytest's frames in the child
                answer = (False, traceback.format_exc())
            with os.fdopen(writing, "wb") as file:
                pickle.dump(answer, file)
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        data = file.read()
    os.waitpid(pid, 0)
    assert data, "the child ended without a result"
    is_result, value = pickle.loads(data)  # noqa: S301  our own child wrote it
    assert is_result, value
    return value
