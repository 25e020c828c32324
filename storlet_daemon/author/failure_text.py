"""The summary and the traceback of a failed run, for the storlet's author."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from types import TracebackType

_OUTER_FRAMES = ("<frozen importlib", "<frozen runpy")


def summary(error: BaseException) -> str:
    """One line for an exception."""
    if isinstance(error, SystemExit):
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
        return f"storlet exited with code {code} before it was done"
    try:
        text = str(error)
    except Exception:  # noqa: BLE001  the author's own __str__ may do anything
        text = "(no text: its __str__ failed)"
    name = type(error).__qualname__
    return f"{name}: {text}" if text else name


def hides_traceback(error: BaseException) -> bool:
    """True if the class of ``error`` says that its message is enough for the user."""
    return getattr(type(error), "hides_traceback", False) is True


def traceback_text(error: BaseException, engine: str) -> str:
    """The traceback without the frames of files whose path begins with ``engine``."""
    internal = (engine, *_OUTER_FRAMES)
    try:
        trace = _first_of_author(error.__traceback__, internal)
        top = traceback.TracebackException(type(error), error, trace)
        for each in _chain(top):
            frames = [frame for frame in each.stack if not frame.filename.startswith(internal)]
            each.stack = traceback.StackSummary.from_list(frames)
        return "".join(top.format())
    except (MemoryError, RecursionError):
        return summary(error)


def _first_of_author(
    trace: TracebackType | None, internal: tuple[str, ...]
) -> TracebackType | None:
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(internal):
        trace = trace.tb_next
    return trace


def _chain(
    top: traceback.TracebackException,
) -> Iterator[traceback.TracebackException]:
    todo: list[traceback.TracebackException | None] = [top]
    while todo:
        each = todo.pop()
        if each is not None:
            yield each
            todo += [each.__cause__, each.__context__, *(getattr(each, "exceptions", None) or ())]
