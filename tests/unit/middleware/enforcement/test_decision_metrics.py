"""Metrics of decisions: one counter for each operation on an account with rules."""

from __future__ import annotations

from pathlib import Path

import pytest
from swift.common.swob import Request

from storlet_middleware.enforcement.covered_reads import CoveredReads
from storlet_middleware.enforcement.read_guard import ReadGuard
from storlet_middleware.wsgi.operation import parse
from tests.unit.middleware.rules_account import AccountSwift
from tests.unit.middleware.support import ACCOUNT, Node, Proxy, make_config

RULES = b"""version: 1
rules:
- name: closed
  when: {container: a}
  mandatory: true
  deny: never
"""


@pytest.fixture
def swift(node: Node) -> AccountSwift:
    swift = AccountSwift()
    for container in ("a", "c"):
        swift.put(container, "o", b"content")
    return swift


def counted(proxy: Proxy) -> list[str]:
    return [name for name in proxy.logger.stats if name.startswith("storlet.rules.")]


def test_an_account_without_rules_counts_nothing(swift: AccountSwift, short_dir: Path) -> None:
    proxy = Proxy(swift, make_config(short_dir))
    assert proxy.call("GET", "c/o").status == 200
    assert counted(proxy) == []


@pytest.mark.parametrize(
    ("path", "status", "counters"),
    [
        ("c/o", 200, ["storlet.rules.allow"]),
        ("a/o", 403, ["storlet.rules.decided.deny", "storlet.rules.deny"]),
    ],
)
def test_each_decision_is_counted_and_rules_are_loaded_once(
    swift: AccountSwift, short_dir: Path, path: str, status: int, counters: list[str]
) -> None:
    swift.bring_into_force(RULES, is_mandatory=True)
    proxy = Proxy(swift, make_config(short_dir))
    assert [proxy.call("GET", path).status for _ in range(2)] == [status] * 2
    assert counted(proxy) == ["storlet.rules.load.timing", *counters, *counters]


def test_an_operation_without_readable_rules_is_counted_as_failed(
    swift: AccountSwift, short_dir: Path
) -> None:
    swift.bring_into_force(RULES, is_mandatory=True)
    swift.containers["storlet_rules"].objects.clear()
    proxy = Proxy(swift, make_config(short_dir))
    assert proxy.call("GET", "c/o").status == 503
    assert counted(proxy) == ["storlet.rules.errors"]


def test_an_explanation_is_not_counted(swift: AccountSwift, short_dir: Path) -> None:
    swift.bring_into_force(RULES, is_mandatory=True)
    proxy = Proxy(swift, make_config(short_dir))
    assert proxy.call("GET", "c/o", {"X-Storlet-Explain": "true"}).status == 200
    assert [name for name in counted(proxy) if "load" not in name] == []


class CoversAll:
    """Rules that cover every object."""

    def covers(self, account: str, container: str, name: str) -> str | None:
        return "closed"

    def may_cover(self, account: str, container: str | None, name: str | None) -> str | None:
        return "closed"


def test_only_the_first_refused_read_of_a_request_is_reported() -> None:
    operation = parse(Request.blank(f"/v1/{ACCOUNT}/c/o").environ)
    assert operation is not None
    reads = CoveredReads(operation, lambda _: CoversAll(), operation.subject, None)
    guard = ReadGuard(reads, None, "rules")
    reported: list[str] = []
    guard.on_refusal = lambda error: reported.append(str(error))
    for segment in ("1", "2"):
        assert guard(Request.blank(f"/v1/{ACCOUNT}/a/{segment}")).status_int == 403
    (text,) = reported
    assert text.startswith("rule closed: the request would read or describe")
