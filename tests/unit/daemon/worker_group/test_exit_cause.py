"""Why a worker died."""

from __future__ import annotations

import pytest

from storlet_daemon.worker_group.exit_cause import describe_exit


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (0, "exited with code 0"),
        (3 << 8, "exited with code 3"),
        (11, "was killed by signal 11 (SIGSEGV)"),
        (9, "was killed by signal 9 (SIGKILL)"),
        (50, "was killed by signal 50"),
    ],
)
def test_an_exit_status_is_described(status: int, words: str) -> None:
    assert describe_exit(status) == words
