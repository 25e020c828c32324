"""Sessions of pytest, and the repetition of tests that failed.

On a shared machine a test can fail because another process had the processor for seconds.  So
:func:`run` runs failed tests once more, by themselves, in a new session with a new cluster.  A
test that passes then is reported in the last lines of the output, and does not fail the run.

Only tests are repeated.  A worker that crashed, a module that cannot be collected, a session that
stopped early and a forbidden skip fail the run at once, and so do more than :data:`MOST` failed
tests.  The plugin ``tests/support/outcomes.py`` writes the outcomes of a session to a file.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from .home import CHECKOUT
from .progress import AioError, say

#: More failed tests than this are a defect or a broken machine, so they are not repeated.
MOST: Final = 10
#: ``0``: repeat no failed test.  ``1``: repeat failed tests, also in a session of chosen tests.
VARIABLE: Final = "STORLETS_REPEAT_FAILED"
#: Begins each line about the repetition.
MARK: Final = "repeat:"
_PLUGIN: Final = ("-p", "tests.support.outcomes", "--outcomes")
#: Exit code of pytest: all tests were run and some failed.
_TESTS_FAILED: Final = 1


@dataclass(frozen=True)
class Outcome:
    """The end of one session.

    ``faults`` are failures that are not failures of a test.
    """

    code: int
    passed: frozenset[str] = frozenset()
    failed: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()


def is_repeat_on(default: bool) -> bool:
    """Whether failed tests are repeated: the environment's choice, else ``default``."""
    choice = os.environ.get(VARIABLE, "")
    if choice not in {"", "0", "1"}:
        raise AioError(f"{VARIABLE}={choice} is not a choice; 0 = off, 1 = on")
    return choice == "1" if choice else default


def run(
    pytest: Sequence[str],
    sessions: Sequence[Sequence[str]],
    environment: Mapping[str, str],
    repeat: bool,
    folder: Path = CHECKOUT,
) -> int:
    """Run ``pytest`` once with the arguments of each session; 0 if all tests passed.

    With ``repeat``, tests that failed run once more after the last session, without the arguments
    of their session.  ``folder`` is the root of the tests.
    """

    def outcome(arguments: Sequence[str]) -> Outcome:
        return _session(pytest, arguments, environment, folder)

    ended = [outcome(arguments) for arguments in sessions]
    code = next((one.code for one in ended if one.code), 0)
    if not code or not repeat:
        return code
    failed = [name for one in ended for name in one.failed]
    obstacles = [fault for one in ended for fault in one.faults]
    if len(failed) > MOST:
        obstacles.append(f"{len(failed)} tests failed, and at most {MOST} are repeated")
    if obstacles:
        say(f"{MARK} no test is repeated: {'; '.join(obstacles)}")
        return code
    say(f"{MARK} {_tests(len(failed))} failed and will be run once more, in a new session")
    second = outcome(failed)
    again = [name for name in failed if name not in second.passed]
    for fault in second.faults:
        say(f"{MARK} {fault}")
    for name in again:
        say(f"{MARK} FAILED AGAIN: {name}")
    for name in failed:
        if name in second.passed:
            say(f"{MARK} FAILED FIRST, PASSED WHEN REPEATED (see above): {name}")
    return code if again or second.code else 0


def _session(
    pytest: Sequence[str], arguments: Sequence[str], environment: Mapping[str, str], folder: Path
) -> Outcome:
    with tempfile.TemporaryDirectory(prefix="storlets-outcomes-") as place:
        file = Path(place) / "outcomes.json"
        code = subprocess.run(
            [*pytest, *_PLUGIN, str(file), *arguments],
            cwd=folder, env=environment, check=False,
        ).returncode  # fmt: skip
        try:
            found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            found = {"passed": [], "failed": [], "faults": ["a session wrote no outcomes"]}
    failed, faults = tuple(found["failed"]), list(found["faults"])
    if code not in {0, _TESTS_FAILED}:
        faults.append(f"a session ended with exit code {code}")
    elif code and not failed and not faults:
        faults.append("a session failed without a failed test")
    return Outcome(
        code, frozenset(found["passed"]) - set(failed), failed, tuple(faults) if code else ()
    )


def _tests(count: int) -> str:
    return "1 test" if count == 1 else f"{count} tests"
