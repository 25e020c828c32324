"""The supervisor's side of a self-test."""

from __future__ import annotations

import os
import select
import signal
import time
from pathlib import Path

import pytest

from storlet_daemon import selftest
from storlet_daemon.attempts import Attempts
from storlet_daemon.poller import Poller
from storlet_daemon.protocol import messages
from storlet_daemon.protocol.descriptors import Descriptors


class Requester:
    """Requests self-tests and receives the reports."""

    def __init__(self) -> None:
        self.poller = Poller()
        self.reports: list[messages.Message] = []
        self.attempts = Attempts(self.poller, self.reports.append)

    def check(self) -> messages.Message:
        donated = os.open("/dev/null", os.O_RDONLY)
        self.attempts.begin(messages.Check(7), Descriptors([donated]))
        with pytest.raises(OSError, match="Bad file"):
            os.fstat(donated)
        deadline = time.monotonic() + 20
        while not self.reports:
            assert time.monotonic() < deadline
            self.poller.wait(0.5)
        return self.reports.pop()


def test_the_supervisor_reports_the_result_of_its_child(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        selftest, "run", lambda facts: {"pid": str(facts.supervisor), "allowed": "no"}
    )
    requester = Requester()
    assert requester.check() == messages.Checked(7, {"pid": str(os.getpid()), "allowed": "no"})
    assert not requester.attempts.pids


def test_a_child_that_ends_without_a_result_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selftest, "run", lambda _: os.kill(os.getpid(), signal.SIGKILL))
    assert Requester().check() == messages.Refused(7, "the self-test ended without a result")


def test_the_child_inherits_no_other_descriptor_of_the_supervisor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ours = select.epoll()
    monkeypatch.setattr(
        selftest, "run", lambda _: {"open": str(len(list(Path("/proc/self/fd").iterdir())))}
    )
    # The standard three, the donated file, the result's pipe, and the listing itself.
    assert Requester().check() == messages.Checked(7, {"open": "6"})
    ours.close()


def test_a_result_that_is_no_json_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selftest, "run", lambda _: {1, 2})
    assert Requester().check() == messages.Refused(7, "the self-test ended without a result")


def test_the_result_may_be_as_long_as_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    long = {str(number): "x" * 1000 for number in range(60)}
    monkeypatch.setattr(selftest, "run", lambda _: long)
    assert Requester().check() == messages.Checked(7, long)


def test_several_self_tests_may_run_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selftest, "run", lambda facts: {"allowed": str(sorted(facts.allowed))})
    requester = Requester()
    for number in (1, 2):
        command = messages.Check(number, (f"write:/{number}",))
        requester.attempts.begin(command, Descriptors([os.open("/dev/null", os.O_RDONLY)]))
    assert len(requester.attempts.pids) == 2
    deadline = time.monotonic() + 20
    while len(requester.reports) < 2:
        assert time.monotonic() < deadline
        requester.poller.wait(0.5)
    assert sorted(requester.reports, key=str) == [
        messages.Checked(number, {"allowed": f"['write:/{number}']"}) for number in (1, 2)
    ]


def test_a_child_that_cannot_be_made_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> int:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", refuse)
    requester = Requester()
    before = len(list(Path("/proc/self/fd").iterdir()))
    assert requester.check() == messages.Refused(
        7, "the self-test cannot be started: Resource temporarily unavailable"
    )
    assert len(list(Path("/proc/self/fd").iterdir())) == before
