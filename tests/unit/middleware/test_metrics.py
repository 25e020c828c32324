"""The table of metrics, and the functions that emit them."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from storlet_middleware import metrics
from tests.unit.middleware.logger import Logger

ROOT = Path(__file__).parents[3]

SOURCES = [path for path in (ROOT / "storlet_middleware").rglob("*.py") if "/aio/" not in str(path)]

METRIC_CALLS: list[tuple[str, tuple[Any, ...], set[str]]] = [
    (
        "invocation",
        ("GET", "storlet.timeout.idle", 1.0, 0.5, 10),
        {"storlet.<verb>.<code>.timing", "storlet.<verb>.first-byte", "storlet.<verb>.xfer"},
    ),
    (
        "node_unable",
        ("sandbox.unavailable",),
        {"storlet.node.unable", "storlet.node.unable.<code>"},
    ),
    ("node_avoided", (), {"storlet.node.avoided"}),
    (
        "services",
        (3, 100, 5),
        {"storlet.services.operations", "storlet.services.xfer.in", "storlet.services.xfer.out"},
    ),
    ("log_lost", (), {"storlet.log.lost"}),
    ("records_written", (3,), {"storlet.records.written"}),
    ("records_lost", (3,), {"storlet.records.lost"}),
    ("admission_admitted", (), {"storlet.admission.admitted"}),
    ("admission_queued", (), {"storlet.admission.queued"}),
    ("admission_waited", (0.5,), {"storlet.admission.waited", "storlet.admission.queue.timing"}),
    (
        "admission_refused",
        ("node.busy",),
        {"storlet.admission.refused", "storlet.admission.refused.<code>"},
    ),
    ("cache_hit", (), {"storlet.cache.hits"}),
    ("cache_miss", (), {"storlet.cache.misses"}),
    ("cache_fetched", (0.5,), {"storlet.cache.fetch.timing"}),
    ("cache_evicted", (2,), {"storlet.cache.evictions"}),
    ("rules_allowed", (), {"storlet.rules.allow"}),
    ("rules_denied", (), {"storlet.rules.deny"}),
    ("rule_decided", ("run",), {"storlet.rules.decided.<action>"}),
    ("rule_audited", ("run",), {"storlet.rules.audited.<action>"}),
    ("rules_failed", (), {"storlet.rules.errors"}),
    ("rules_loaded", (0.5,), {"storlet.rules.load.timing"}),
    ("sandbox_started", (0.5,), {"storlet.sandbox.starts", "storlet.sandbox.start.timing"}),
    ("sandbox_assigned", (), {"storlet.sandbox.assignments"}),
    ("sandbox_restarted", (), {"storlet.sandbox.restarts"}),
    ("sandbox_failed", (), {"storlet.sandbox.failures"}),
    ("sandbox_idle_stopped", (), {"storlet.sandbox.idle_stops"}),
    ("sandbox_lost", (), {"storlet.sandbox.lost"}),
    ("sandbox_evicted", (), {"storlet.sandbox.evictions"}),
    ("self_test_failed", (), {"storlet.sandbox.self_test_failures"}),
]


def test_the_table_of_metrics_has_the_names_that_are_sent() -> None:
    functions = {
        name
        for name, value in vars(metrics).items()
        if inspect.isfunction(value) and value.__module__ == metrics.__name__ and name[0] != "_"
    }
    assert functions == {function for function, _, _ in METRIC_CALLS}
    documented = set()
    for function, arguments, rows in METRIC_CALLS:
        logger = Logger()
        getattr(metrics, function)(logger, *arguments)
        patterns = {
            row: re.escape(row)
            .replace("<verb>", r"[A-Z]+")
            .replace("<code>", r"[a-z_-]+")
            .replace("<action>", "run|deny|allow")
            for row in rows
        }
        assert len(logger.stats) == len(rows)
        for row, pattern in patterns.items():
            assert any(re.fullmatch(pattern, sent) for sent in logger.stats), row
        documented |= rows
    assert documented == set(metrics.TABLE)


@pytest.mark.parametrize(
    ("function", "rows"), [(function, rows) for function, _, rows in METRIC_CALLS]
)
def test_every_metric_is_emitted_by_the_module_that_its_row_names(
    function: str, rows: set[str]
) -> None:
    (emitter,) = {metrics.TABLE[row].emitter for row in rows}
    code = "\n".join(
        path.read_text() for path in SOURCES if f"/storlet_middleware/{emitter}/" in str(path)
    )
    assert re.search(rf"\bmetrics\.{function}\(", code), f"metrics.{function}: emit it"


def test_a_label_is_one_part_of_the_name() -> None:
    """StatsD servers split names at dots, so a code with dots would add levels."""
    row = metrics.TABLE["storlet.<verb>.<code>.timing"]
    assert row.labels == ("verb", "code")
    assert row.named(verb="GET", code="storlet.timeout.idle") == (
        "storlet.GET.storlet-timeout-idle.timing"
    )
    assert metrics.TABLE["storlet.cache.hits"].named() == "storlet.cache.hits"


def test_no_label_holds_a_name_that_a_tenant_chooses() -> None:
    labels = {label for row in metrics.TABLE.values() for label in row.labels}
    assert labels <= {"verb", "code", "action"}
