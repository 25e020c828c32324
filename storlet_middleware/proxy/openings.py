"""Limits of opening inputs, so that one account's runs do not delay other accounts' requests."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Final

from storlet_middleware.concurrency import KeyedSemaphore, monotonic, sleep

#: Inputs that are opened at a time for one account.  A request can have many inputs, and an account
#: many requests; each costs milliseconds of this process's processor, in which all requests wait.
_AT_A_TIME: Final = 2
#: The most inputs that a request has by default.  An account with more openings, among them those
#: that wait, has several requests with many inputs, and is paced until all are opened.
_MANY: Final = 16
#: A pause before an opening, as a multiple of the time that the last one took.  It leaves most of
#: the processor to other accounts; 128 inputs are opened within 3 s instead of 1.3 s.
_PAUSE: Final = 3
#: The maximum of a pause, for an opening that waited for a slow object server.
_MAX_PAUSE_SECONDS: Final = 0.05


class Openings:
    """The inputs that are being opened in a proxy process, by account."""

    def __init__(self) -> None:
        self._slots = KeyedSemaphore(_AT_A_TIME)
        #: Of paced accounts only: one opening at a time, with pauses.
        self._paced_slots = KeyedSemaphore(1)
        self._paced: set[str] = set()
        #: How long the last opening took, of any account.
        self._seconds = 0.0

    @contextlib.contextmanager
    def held(self, account: str) -> Iterator[None]:
        """Wait for a turn of ``account``, and hold it: until Swift has answered, and never while a
        storlet is waited for.

        All waiting is before the block: a task that is ended while it waits has no answer to close.
        """
        try:
            with self._slots.held(account):
                if self._slots.users(account) > _MANY:
                    self._paced.add(account)
                with self._pace(account):
                    began = monotonic()
                    yield
                    self._seconds = monotonic() - began
        finally:
            if not self._slots.users(account):
                self._paced.discard(account)

    @contextlib.contextmanager
    def _pace(self, account: str) -> Iterator[None]:
        if account not in self._paced:
            yield
            return
        with self._paced_slots.held(account):
            sleep(min(_PAUSE * self._seconds, _MAX_PAUSE_SECONDS))
            yield
