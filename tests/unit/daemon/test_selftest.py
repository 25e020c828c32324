"""The runner of the self-test: a test that fails, hangs, crashes or is killed is reported, and the
others continue.

The findings of each test in real sandboxes: ``tests/probe/test_self_test.py``.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from storlet_daemon import selftest
from storlet_daemon.protocol import messages
from storlet_daemon.selftest.model import NETWORK, Facts, SelfTest

FACTS = Facts(0, 1)


def outcome(attempt: Callable[[Facts], str], seconds: float = 5.0) -> str:
    return selftest.outcome(SelfTest("one", "something", attempt, seconds=seconds), FACTS)


def crash(_facts: Facts) -> str:
    raise ZeroDivisionError("on purpose")


def kill(number: int) -> Callable[[Facts], str]:
    def attempt(_facts: Facts) -> str:
        os.kill(os.getpid(), number)
        return "still here"

    return attempt


def hang(_facts: Facts) -> str:
    time.sleep(60)
    return ""


def test_the_text_of_a_test_is_its_outcome() -> None:
    assert outcome(lambda _: "") == ""
    assert outcome(lambda _: "the kernel did it") == "the kernel did it"


def test_a_test_that_fails_has_shown_nothing() -> None:
    assert outcome(crash) == "the test failed: ZeroDivisionError: on purpose"


def test_a_test_that_is_killed_has_shown_nothing() -> None:
    assert outcome(kill(signal.SIGKILL)) == "the test was ended: -9"


def test_a_filter_that_kills_instead_of_refusing_holds_too() -> None:
    assert outcome(kill(signal.SIGSYS)) == ""


def test_a_test_that_hangs_is_ended_with_all_that_it_has_started(tmp_path: Path) -> None:
    def start_one_more(facts: Facts) -> str:
        child = os.fork()
        if child:
            (tmp_path / "pid").write_text(str(child))
        return hang(facts)

    began = time.monotonic()
    assert outcome(start_one_more, 3) == "the test did not end within 3 seconds"
    assert time.monotonic() - began < 20
    pid = (tmp_path / "pid").read_text()
    deadline = time.monotonic() + 5
    while _is_alive(pid):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _is_alive(pid: str) -> bool:
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


def test_a_fault_is_one_line_and_bounded() -> None:
    said = outcome(lambda _: "a\nb\x1b[31m" + "x" * 10_000)
    assert said.startswith("a b [31mxxx")
    assert len(said) == selftest.FAULT_MAX


def test_a_privilege_that_a_class_may_have_is_not_tried() -> None:
    tests = [
        SelfTest("net", "", lambda _: "tried", unless=NETWORK),
        SelfTest("other", "", lambda _: "tried"),
    ]
    assert selftest.run(FACTS, tests) == {"net": "tried", "other": "tried"}
    assert selftest.run(Facts(0, 1, frozenset({NETWORK})), tests) == {"other": "tried"}


def test_names_are_unique_and_fit_into_the_options() -> None:
    names = [test.name for test in selftest.TESTS] + list(selftest.OUTSIDE)
    assert [name for name, count in Counter(names).items() if count > 1] == []
    assert [name for name in names if not re.fullmatch("[a-z0-9_-]+", name)] == []


def test_every_test_names_its_threat() -> None:
    assert all(test.against and "likewise" not in test.against for test in selftest.TESTS)


def test_every_fault_together_fits_into_one_message() -> None:
    one = messages.Checked(1, {test.name: "x" * selftest.FAULT_MAX for test in selftest.TESTS})
    assert len(str(one.fields())) < messages.MESSAGE_MAX
