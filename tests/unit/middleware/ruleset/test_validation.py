"""Checks of uploaded rules against the account's storlets and the server's options."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import Mock

import pytest
from swift.common.swob import Response

from storlet_middleware import child
from storlet_middleware.catalog.bundle_store import Row, facts_headers
from storlet_middleware.concurrency import ProcessEnded, WaitExpired
from storlet_middleware.errors import BackendFailed, InternalError, NodeBusy
from storlet_middleware.ruleset import validation
from tests.unit.middleware.rules_account import ORDINARY, RUNS, AccountSwift, RulesProxy
from tests.unit.middleware.support import ACCOUNT


def test_a_rule_that_runs_a_missing_storlet_is_refused(
    proxy: RulesProxy, swift: AccountSwift
) -> None:
    assert proxy.upload(RUNS).status_int == 201
    del swift.containers["storlet"].objects["up.py"]
    assert "[storlet.missing]" in proxy.upload(RUNS).body.decode()


def test_a_storlet_that_cannot_be_looked_up_is_an_error_of_the_store(
    proxy: RulesProxy, swift: AccountSwift
) -> None:
    swift.hooks["HEAD", f"/v1/{ACCOUNT}/storlet/up.py"] = lambda request: Response(
        status=503, request=request
    )
    with pytest.raises(BackendFailed, match=r"up\.py"):
        proxy.upload(RUNS)


def test_rules_that_run_storlets_need_an_enabled_account(
    proxy: RulesProxy, swift: AccountSwift
) -> None:
    swift.is_enabled = False
    assert proxy.upload(ORDINARY).status_int == 201
    assert "[storlet.disabled]" in proxy.upload(RUNS).body.decode()


@pytest.mark.parametrize(
    ("limit", "is_taken"), [("64M", True), ("100G", False), ("128M", False), ("much", False)]
)
def test_a_bad_limit_is_reported_at_its_line(
    proxy: RulesProxy, swift: AccountSwift, limit: str, *, is_taken: bool
) -> None:
    swift.put_storlet(X_Object_Meta_Storlet_Memory="100M")
    rules = RUNS.replace(b"up.py", b"{storlet: up.py, limits: {memory: " + limit.encode() + b"}}")
    answer = proxy.upload(rules)
    assert (answer.status_int == 201) is is_taken
    assert (
        is_taken
        or "rules.yaml:5:8: error [limit.bad]: rule thumb: limits: Memory" in answer.body.decode()
    )


@pytest.mark.parametrize(
    ("parameters", "faults"),
    [
        ("pattern: B, count: 'true'", []),
        ("patterns: B", ["parameter 'patterns': unknown: the storlet has pattern, "]),
        (
            "pattern: B, count: maybe, x: y",
            ["'count': 'maybe': want true or false", "'x': unknown"],
        ),
        # A value of the request is not known; its name is.
        ("pattern: '{user}', count: '{user}'", []),
        ("patterns: '{user}'", ["'patterns': unknown"]),
        ("pattern: B, multipart-manifest: get", []),
    ],
)
def test_parameters_that_a_storlet_would_refuse_are_reported_at_their_line(
    proxy: RulesProxy, parameters: str, faults: list[str]
) -> None:
    step = f"{{storlet: std:grep, parameters: {{{parameters}}}}}"
    answer = proxy.upload(RUNS.replace(b"up.py", step.encode()))
    text = answer.body.decode()
    assert answer.status_int == (400 if faults else 201), text
    assert text.count("error [parameter.bad]: rule thumb: storlet std:grep: ") == len(faults)
    assert all(fault in text for fault in faults), text
    assert ("rules.yaml:5:8: " in text) is bool(faults)


def test_parameters_of_a_bundle_are_those_of_its_current_version(
    proxy: RulesProxy, swift: AccountSwift
) -> None:
    rules = RUNS.replace(b"up.py", b"{storlet: up.py, parameters: {width: wide}}")
    assert proxy.upload(rules).status_int == 201
    facts = {"parameters": {"width": {"type": "integer"}}}
    row = Row(1, "0" * 64, 10, "1.0", "")
    swift.put_storlet(**{k.replace("-", "_"): v for k, v in facts_headers(facts, row).items()})
    assert "[parameter.bad]" in proxy.upload(rules).body.decode()
    # A declared parameter is the storlet's, also if Swift has a query of that name.
    facts["parameters"] = {"inline": {"type": "integer"}}
    swift.put_storlet(**{k.replace("-", "_"): v for k, v in facts_headers(facts, row).items()})
    assert "'inline': 'wide': want a whole number" in (
        proxy.upload(rules.replace(b"width", b"inline")).body.decode()
    )


@pytest.mark.parametrize(
    ("acl", "caller", "is_taken"),
    [("", "true", False), ("test2:x", "true", False), ("test2:x", "false", True), (".r:*", "true", True), (".r:a", "true", True)],
)  # fmt: skip
def test_callers_of_a_rule_must_have_access_to_its_storlets(
    proxy: RulesProxy, swift: AccountSwift, acl: str, caller: str, *, is_taken: bool
) -> None:
    swift.containers["storlet"].read = acl
    answer = proxy.upload(
        RUNS.replace(b"container: a", b"container: a, anonymous: " + caller.encode())
    )
    assert (answer.status_int == 201) is is_taken
    assert is_taken or "storlet.access" in answer.body.decode()


def raising(error: Exception) -> Callable[..., Any]:
    """A conversation with a process that ends, or never answers."""

    @contextmanager
    def conversation(*_: Any, **__: Any) -> Iterator[Callable[[bytes], bytes]]:
        yield Mock(side_effect=error)

    return conversation


def test_a_check_that_exceeds_its_limits_refuses_the_rules(
    proxy: RulesProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    for status in (-signal.SIGXCPU, -signal.SIGKILL, 3):
        monkeypatch.setattr(child, "conversation", raising(ProcessEnded(status)))
        answer = proxy.upload(ORDINARY)
        assert answer.status_int == 400
        assert "check.too-much" in answer.body.decode()


def test_a_check_without_a_slot_or_in_time_is_refused_as_busy(
    proxy: RulesProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child, "conversation", raising(WaitExpired()))
    with pytest.raises(NodeBusy):
        proxy.upload(ORDINARY)
    monkeypatch.setattr(validation, "_WAIT_SECONDS", 0.01)
    slots = proxy.store._uploads.checker._slots
    with slots.held(ACCOUNT, 1), pytest.raises(NodeBusy, match="too many concurrent checks"):
        proxy.upload(ORDINARY)


def test_a_text_that_names_too_many_storlets_looks_none_up(
    proxy: RulesProxy, swift: AccountSwift
) -> None:
    asked: list[str] = []
    for number in range(200):
        path = f"/v1/{ACCOUNT}/storlet/s{number}.py"
        swift.hooks["HEAD", path] = lambda request: asked.append(request.path)
    rules = [
        f"- {{name: r{number}, when: {{container: c{number}}}, run: s{number}.py}}"
        for number in range(200)
    ]
    answer = proxy.upload("\n".join(["version: 1", "rules:", *rules]).encode())
    assert "[size.storlets]" in answer.body.decode()
    assert not asked


def test_a_check_that_crashes_is_an_internal_error(
    proxy: RulesProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child, "conversation", raising(ProcessEnded(1)))
    with pytest.raises(InternalError):
        proxy.upload(ORDINARY)


def test_a_note_is_shown_and_refuses_no_upload(proxy: RulesProxy) -> None:
    text = ORDINARY.replace(b"{container: a}", b"{container: a, roles: [x]}\n  mandatory: true")
    answer = proxy.upload(text)
    assert answer.status_int == 201
    assert "the rules are in force; 1 note" in answer.body.decode()
    assert "note [test.by-role]" in answer.body.decode()


CONVERTERS = b"""version: 1
rules:
- name: pack
  when: {method: PUT, container: a, content-type: text/csv}
  run: pack.py
- name: unpack
  when: {method: PUT, container: a, content-type: application/gzip}
  run: unpack.py
- name: both
  when: {method: GET, container: b, content-type: {prefix: text/}}
  run: [pack.py, up.py]
"""


def test_declared_content_types_are_checked(proxy: RulesProxy, swift: AccountSwift) -> None:
    swift.put_storlet("pack.py", X_Object_Meta_Storlet_Output_Type="application/gzip")
    swift.put_storlet("unpack.py", X_Object_Meta_Storlet_Output_Type="text/csv")
    assert proxy.upload(RUNS).status_int == 201
    swift.put_storlet("up.py", X_Object_Meta_Storlet_Input_Type="text/*, image/*")
    told = proxy.upload(CONVERTERS).body.decode()
    assert "[rules.undo-one-another]: rules pack and unpack undo each other" in told
    assert "[pipeline.type]: rule both: pack.py declares the output application/gzip" in told
    assert "[pipeline.input]: rule thumb matches some objects" in proxy.upload(RUNS).body.decode()


def test_a_declaration_that_is_no_content_type_is_not_checked(
    proxy: RulesProxy, swift: AccountSwift
) -> None:
    """It was stored by a way that this filter does not check."""
    swift.put_storlet("up.py", X_Object_Meta_Storlet_Input_Type="pictures")
    assert proxy.upload(RUNS).status_int == 201
