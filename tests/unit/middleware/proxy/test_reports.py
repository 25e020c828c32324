"""The log lines and the metrics of runs, and when they are written."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import eventlet
import pytest

from storlet_middleware.proxy.reports import Reports, report
from storlet_middleware.records.record import OK, Record, StorletRef
from tests.unit.middleware.logger import Logger

RECORD = Record(
    id="tx-1",
    time=1.0,
    account="AUTH_ü",
    storlets=(StorletRef("up.py"), StorletRef("a b,c.py")),
    method="GET",
    placement="object,proxy",
    why="default",
    code="storlet.failed",
    total_seconds=1.5,
    first_byte_seconds=0.25,
    queue_seconds=0.0625,
    cpu_seconds=0.5,
    peak_memory_bytes=7,
    bytes_in=3,
    bytes_out=6,
)


@pytest.mark.parametrize(
    ("changes", "end"),
    [
        ({}, ""),
        ({"rule": "R"}, " rule=R"),
        ({"rule": "R", "failed_step": 2}, " rule=R failed_step=2"),
        ({"rule": "-", "undoes_rule": True}, " rule=- undone=1"),
    ],
)
def test_a_run_has_one_log_line_in_the_form_of_all_releases(
    changes: dict[str, Any], end: str
) -> None:
    logger = Logger()
    report(replace(RECORD, **changes), logger)
    assert logger.text == (
        "invocation done id=tx-1 account=AUTH_%C3%BC storlet=up.py,a%20b%2Cc.py method=GET"
        " placement=object,proxy why=default code=storlet.failed ms=1500.0 waited_ms=62.5"
        f" in=3 out=6 cpu=0.500000 peak-memory=7{end}"
    )
    assert logger.stats == [
        "storlet.GET.storlet-failed.timing",
        "storlet.GET.first-byte",
        "storlet.GET.xfer",
    ]


def test_names_cannot_add_fields_or_lines_to_the_log() -> None:
    logger = Logger()
    storlets = (StorletRef("x code=ok\r\ny"),)
    report(replace(RECORD, account="a code=ok\nb", storlets=storlets), logger)
    (line,) = logger.lines
    assert len(line.splitlines()) == 1
    assert line.count(" code=") == 1


def _ids(logger: Logger) -> list[str]:
    return [line.partition(" id=")[2].split()[0] for line in logger.lines]


def test_successes_are_reported_together_soon_after_their_end() -> None:
    logger = Logger()
    reports = Reports(logger)
    names = [f"tx-{number}" for number in range(40)]
    for name in names:
        reports.add(replace(RECORD, id=name, code=OK))
    eventlet.sleep(0)
    assert logger.lines == []
    eventlet.sleep(0.4)
    assert _ids(logger) == names
    reports.add(replace(RECORD, id="later", code=OK))
    eventlet.sleep(0.4)
    assert _ids(logger) == [*names, "later"]


def test_a_failure_is_reported_at_once_and_after_those_that_wait() -> None:
    logger = Logger()
    reports = Reports(logger)
    reports.add(replace(RECORD, id="first", code=OK))
    reports.add(replace(RECORD, id="failed"))
    assert _ids(logger) == ["first", "failed"]
    eventlet.sleep(0.4)
    assert _ids(logger) == ["first", "failed"], "each once"
    reports.flush()
    assert len(logger.lines) == 2
