"""The process that parses long rules."""

from __future__ import annotations

import pickle
import signal

import pytest

from rules import parse
from storlet_middleware import child
from storlet_middleware.ruleset import parse_process
from tests.unit.middleware.rules_account import MANDATORY

pytestmark = pytest.mark.usefixtures("real_processes")


def test_the_process_writes_the_rules_that_are_parsed_here() -> None:
    status, output = child.run(parse_process.__name__, MANDATORY, 30)
    assert (status, pickle.loads(output)) == (0, parse.parse(MANDATORY)[0])  # noqa: S301


@pytest.mark.parametrize("text", [b"", b"rules: [", b"\xff", b"version: 2\nrules: []\n"])
def test_the_process_writes_nothing_for_a_text_with_faults(text: bytes) -> None:
    assert child.run(parse_process.__name__, text, 30) == (0, b"")


def test_the_process_ends_at_its_limit_of_cpu_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "_DEADLINE_FACTOR", 200)
    rule = "- {name: r%d, when: {any: [%s]}, deny: x}\n"
    tests = ", ".join(f"{{object: {{suffix: x{number}}}}}" for number in range(20))
    text = "version: 1\nrules:\n" + "".join(rule % (number, tests) for number in range(900))
    assert child.run(parse_process.__name__, text.encode(), 1) == (-signal.SIGXCPU, b"")
