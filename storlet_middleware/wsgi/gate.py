"""The gate: the only code that requests data from Swift in a caller's name.

======================= ==========================================================================
answer                  sent to the caller, or read by the caller's storlet
======================= ==========================================================================
of an uncovered object  unchanged; if it describes a covered object, the refusal instead
of covered objects      the status and allowed headers only (:func:`reduced`); a listing's body is
                        filtered (:mod:`~storlet_middleware.enforcement.listing`)
======================= ==========================================================================

A test (``tests/unit/middleware/test_gate_is_used.py``) lists all other code that calls Swift, and
why no stored data of its answers reaches a caller.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from swift.common.swob import reiterate
from swift.common.utils import close_if_possible

from storlet_middleware.wsgi.answer import Answer
from storlet_middleware.wsgi.context import RulesCheck
from storlet_middleware.wsgi.swift_paths import SwiftPath

WSGIApp = Callable[..., Any]


def ask(
    app: WSGIApp,
    environ: dict[str, Any],
    rules: RulesCheck | None,
    read: SwiftPath | None = None,
) -> Answer:
    """The answer of ``app``; raises if the rules of any account refuse it.

    :param rules: ``None`` where no rules apply.
    :param read: the object that is read, if it is not the operation's own.
    """
    started: list[Any] = []

    def start(status: str, headers: list[tuple[str, str]], *more: Any) -> None:
        # An application may call it again with an error; the last call counts.
        started[:] = status, headers

    # Not swob's call_application, which needs a Request.
    chunks = app(environ, start)
    if not started:
        chunks = reiterate(chunks)
    status, headers = started
    return (
        Answer(status, headers, chunks)
        if rules is None
        else _checked(rules, status, headers, chunks, read)
    )


def stream(
    app: WSGIApp,
    environ: dict[str, Any],
    start_response: Callable[..., Any],
    rules: RulesCheck | None,
) -> Iterable[bytes]:
    """The same as a WSGI application; answers without facts of other objects, nearly all, are not
    delayed.
    """
    if rules is None:
        plain: Iterable[bytes] = app(environ, start_response)
        return plain
    held: tuple[str, list[tuple[str, str]]] | tuple[()] | None = None

    def start(status: str, headers: list[tuple[str, str]], *more: Any) -> Any:
        nonlocal held
        # An application may call it again with an error; the last call counts.
        if not rules.must_check(status, headers):
            held = ()
            return start_response(status, headers, *more)
        held = status, headers
        return None  # instead of the write function, which Swift does not use

    chunks: Iterable[bytes] = app(environ, start)
    if held is None:  # the application has not started
        chunks = reiterate(chunks)
    if held:
        return _checked(rules, *held, chunks)(environ, start_response)
    if rules.refused:  # after the answer had begun
        close_if_possible(chunks)
        raise rules.refused[0]
    return chunks


def _checked(
    rules: RulesCheck,
    status: str,
    headers: list[tuple[str, str]],
    chunks: Iterable[bytes],
    read: SwiftPath | None = None,
) -> Answer:
    if not rules.must_check(status, headers):
        return Answer(status, headers, chunks)
    try:
        rules.check_answer(status, headers, read)
    except BaseException:
        close_if_possible(chunks)
        raise
    return Answer(status, headers, rules.break_if_refused(headers, chunks))


def reduced(answer: Answer, allows: Callable[[str], bool]) -> Answer:
    """``answer`` with allowed headers only.

    :param allows: called with the name of a header in lower case.
    """
    headers = [(key, value) for key, value in answer.headers if allows(key.lower())]
    return Answer(answer.status, headers, answer.chunks)
