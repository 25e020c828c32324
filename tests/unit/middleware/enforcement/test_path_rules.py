"""The rules of all accounts, evaluated for single reads of one request."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from swift.common.swob import Response

from storlet_middleware.enforcement.path_rules import RequestPathRules
from storlet_middleware.errors import BackendFailed, RulesUnavailable
from storlet_middleware.wsgi.operation import parse
from tests.unit.middleware.rules_account import AccountSwift, RulesProxy
from tests.unit.middleware.support import ACCOUNT

RULES = b"""version: 1
rules:
- name: open
  when: {container: mixed, object: {prefix: open-}}
  run: up.py
- name: closed
  when: {method: GET, container: mixed}
  mandatory: true
  deny: never
- name: studied
  when: {container: studies, metadata: {study: '7'}}
  mandatory: true
  deny: never
- name: soft
  when: {container: soft}
  deny: not now
"""
Make = Callable[..., RequestPathRules]


@pytest.fixture
def account() -> AccountSwift:
    swift = AccountSwift()
    swift.put("studies", "seven", b"x", X_Object_Meta_Study="7")
    swift.put("studies", "eight", b"x", X_Object_Meta_Study="8")
    return swift


@pytest.fixture
def make_path_rules(account: AccountSwift, tmp_path: Path) -> Make:
    account.bring_into_force(RULES, is_mandatory=True)
    proxy = RulesProxy(account, tmp_path)

    def make(method: str = "GET", headers: dict[str, str] | None = None) -> RequestPathRules:
        operation = parse(proxy.environ(method, "elsewhere/x", headers))
        assert operation is not None
        account.seen.clear()
        return RequestPathRules(account, proxy.store, operation, "storlet_rules")

    return make


@pytest.mark.parametrize(
    ("container", "name", "rule"),
    [
        ("mixed", "o", "closed"),
        # An ordinary rule ahead of the mandatory one opens no object.
        ("mixed", "open-o", "closed"),
        ("studies", "seven", "studied"),
        ("studies", "eight", None),
        ("studies", "none", None),
        ("soft", "o", None),
        ("other", "o", None),
        ("storlet_rules", "rules.yaml", None),
    ],
)
def test_the_mandatory_rule_of_one_object(
    make_path_rules: Make, container: str, name: str, rule: str | None
) -> None:
    assert make_path_rules().covers(ACCOUNT, container, name) == rule


@pytest.mark.parametrize(
    ("container", "name", "may"),
    [
        ("mixed", None, True),
        ("mixed", "o", True),
        ("studies", None, True),
        ("studies", "eight", True),
        ("other", None, False),
        ("soft", None, False),
        (None, None, True),
        (None, "o", True),
        ("storlet_rules", None, False),
    ],
)
def test_a_check_of_several_objects_reads_none_of_them(
    make_path_rules: Make, account: AccountSwift, container: str | None, name: str | None, may: bool
) -> None:
    path_rules = make_path_rules()
    assert (path_rules.may_cover(ACCOUNT, container, name) is not None) is may
    assert [seen for seen in account.seen if "/studies" in seen.path] == []


def test_may_cover_is_implied_by_covers(make_path_rules: Make) -> None:
    """A check of a container must not allow an object that a check of the object refuses."""
    path_rules = make_path_rules()
    for container in ("mixed", "studies", "soft", "other"):
        for name in ("o", "open-o", "seven", "eight"):
            if path_rules.covers(ACCOUNT, container, name) is not None:
                for wider in ((container, name), (container, None), (None, name), (None, None)):
                    assert path_rules.may_cover(ACCOUNT, *wider) is not None


@pytest.mark.parametrize(
    ("method", "headers", "rule"),
    [
        ("GET", {}, "closed"),
        ("HEAD", {}, "closed"),
        ("COPY", {"Destination": "elsewhere/y"}, "closed"),
        ("PUT", {"X-Copy-From": "elsewhere/y"}, "closed"),
        # The manifest of an upload names objects, which Swift reads.
        ("PUT", {}, "closed"),
    ],
)
def test_a_read_counts_as_part_of_the_clients_operation(
    make_path_rules: Make, method: str, headers: dict[str, str], rule: str | None
) -> None:
    assert make_path_rules(method, headers).covers(ACCOUNT, "mixed", "o") == rule


def test_an_object_that_cannot_be_looked_up_fails_the_check(
    make_path_rules: Make, account: AccountSwift
) -> None:
    account.hooks["HEAD", f"/v1/{ACCOUNT}/studies/seven"] = lambda request: Response(
        status=503, request=request
    )
    with pytest.raises(BackendFailed):
        make_path_rules().covers(ACCOUNT, "studies", "seven")


def test_rules_that_cannot_be_read_fail_the_check(
    make_path_rules: Make, account: AccountSwift, tmp_path: Path
) -> None:
    make_path_rules()
    account.containers["storlet_rules"].objects.clear()
    fresh = RulesProxy(account, tmp_path)
    operation = parse(fresh.environ("GET", "elsewhere/x"))
    assert operation is not None
    path_rules = RequestPathRules(account, fresh.store, operation, "storlet_rules")
    with pytest.raises(RulesUnavailable):
        path_rules.covers(ACCOUNT, "other", "o")
    with pytest.raises(RulesUnavailable):
        path_rules.may_cover(ACCOUNT, None, None)
