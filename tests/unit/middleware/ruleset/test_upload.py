"""Changes of an account's rules: permissions, validation, and the state after failures."""

from __future__ import annotations

import io
import os
import socket
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import eventlet.green.socket
import pytest
from swift.common.swob import Response

from rules.text import MAX_BYTES
from storlet_middleware.concurrency import (
    Killed,
    ProcessEnded,
    WaitExpired,
    conversation,
    run_process,
)
from storlet_middleware.errors import (
    AccessDenied,
    BackendFailed,
    BadRequest,
    InputIncomplete,
    PreconditionFailed,
    RulesConflict,
    RulesUnavailable,
    StorletError,
)
from storlet_middleware.ruleset import pointer
from storlet_middleware.wsgi.subrequest import SwiftRefusal
from tests.unit.middleware.rules_account import (
    MANDATORY,
    ORDINARY,
    RULES,
    RUNS,
    AccountSwift,
    InfoCache,
    RulesProxy,
)
from tests.unit.middleware.support import ACCOUNT

WARNS = b"""version: 1
rules:
- name: a
  when: {container: a, object: {prefix: x}}
  allow: true
- name: b
  when: {container: a}
  mandatory: true
  deny: never
"""
WRONG = b"""version: 1
rules:
- name: a
  when: {container: a}
  deny: never
- name: b
  when: {container: a, object: {prefix: x}}
  run: none.py
- name: c
  when: {method: PUT, container: c}
  run: {storlet: missing.py, limits: {memory: 9P}}
"""
OTHER = "test2:someone"
ACCEPT = {"X-Storlet-Rules-Accept-Warnings": "true"}


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pointer, "_STALE_CHECKS_SECONDS", (0.0,))


@pytest.fixture
def with_role(swift: AccountSwift, tmp_path: Path) -> RulesProxy:
    return RulesProxy(swift, tmp_path, InfoCache(), rules__role="rules-admin")


def version_in_force(swift: AccountSwift) -> str:
    assert swift.pointer is not None
    return swift.pointer.split()[-1]


# --- what is taken


def test_good_rules_come_into_force(proxy: RulesProxy, swift: AccountSwift) -> None:
    answer = proxy.upload(MANDATORY, {"X-Object-Meta-Why": "audit", "Content-Type": "text/yaml"})
    assert answer.status_int == 201
    version = answer.headers["X-Storlet-Rules-Version"]
    assert swift.stored == {"rules.yaml": MANDATORY, version: MANDATORY}
    assert swift.pointer is not None
    assert " mandatory " in swift.pointer
    assert version_in_force(swift) == version
    headers = swift.containers["storlet_rules"].objects["rules.yaml"].headers
    assert (headers["X-Object-Meta-Why"], headers["Content-Type"]) == ("audit", "text/yaml")
    assert answer.headers["Etag"]
    assert f"account={ACCOUNT} version={version}" in proxy.logger.text


def test_every_version_is_kept(proxy: RulesProxy, swift: AccountSwift) -> None:
    for rules in (ORDINARY, MANDATORY, ORDINARY):
        proxy.upload(rules)
    versions = sorted(name for name in swift.stored if name != "rules.yaml")
    assert [swift.stored[name] for name in versions] == [ORDINARY, MANDATORY, ORDINARY]
    assert version_in_force(swift) == versions[-1]


def test_all_that_is_wrong_is_said_at_once_and_changes_nothing(
    proxy: RulesProxy, swift: AccountSwift
) -> None:
    proxy.upload(ORDINARY)
    before = (swift.pointer, dict(swift.stored))
    answer = proxy.upload(WRONG)
    said = answer.body.decode()
    assert (answer.status_int, answer.headers["X-Storlet-Error"]) == (400, "rules.invalid")
    assert said.startswith("3 errors: the rules in force are unchanged\n")
    for part in ("rules.yaml:6:3: error [rule.never-matches]", "rules.yaml:11:", "[storlet.missing]", "[limit.bad]",
                 "limits: Memory: '9P'", "    help: ", "    example: "):  # fmt: skip
        assert part in said
    assert (swift.pointer, swift.stored) == before
    assert proxy.names() == ["night"]


def test_warnings_are_listed_and_have_to_be_accepted(
    proxy: RulesProxy, swift: AccountSwift
) -> None:
    answer = proxy.upload(WARNS)
    assert (answer.status_int, answer.headers["X-Storlet-Error"]) == (400, "rules.invalid")
    assert "1 warning" in answer.body.decode()
    assert "X-Storlet-Rules-Accept-Warnings: true" in answer.body.decode()
    assert "mandatory.allowed-past" in answer.body.decode()
    assert swift.pointer is None
    assert proxy.upload(WARNS, {"X-Storlet-Rules-Accept-Warnings": "no"}).status_int == 400
    answer = proxy.upload(WARNS, ACCEPT)
    assert answer.status_int == 201
    assert "mandatory.allowed-past" in answer.body.decode()
    assert proxy.names() == ["a", "b"]


def test_errors_cannot_be_accepted(proxy: RulesProxy) -> None:
    assert proxy.upload(WRONG, ACCEPT).status_int == 400


# --- the body


@pytest.mark.parametrize("is_declared", [True, False])
def test_too_much_is_not_read(proxy: RulesProxy, *, is_declared: bool) -> None:
    body = b"#" * (MAX_BYTES + 1)
    environ = {
        "wsgi.input": io.BytesIO(body),
        "CONTENT_LENGTH": str(len(body)) if is_declared else "",
    }
    answer = proxy.call(
        "PUT", environ=environ | ({} if is_declared else {"HTTP_TRANSFER_ENCODING": "chunked"})
    )
    assert answer.status_int == 400
    assert "size.bytes" in answer.body.decode()


def test_a_body_that_breaks_off_is_no_upload(proxy: RulesProxy, swift: AccountSwift) -> None:
    with pytest.raises(InputIncomplete):
        proxy.call(
            "PUT",
            environ={"wsgi.input": io.BytesIO(ORDINARY), "CONTENT_LENGTH": str(len(ORDINARY) + 1)},
        )
    assert swift.pointer is None


def test_a_body_that_is_not_what_its_etag_says_is_no_upload(
    proxy: RulesProxy, swift: AccountSwift
) -> None:
    with pytest.raises(StorletError) as caught:
        proxy.upload(ORDINARY, {"Etag": "0" * 32})
    assert (caught.value.status, caught.value.code) == (422, "input.etag_mismatch")
    assert swift.pointer is None


@pytest.mark.parametrize(
    ("headers", "part"),
    [
        ({"X-Symlink-Target": "a/b"}, "X-Symlink-Target"),
        ({"X-Object-Manifest": "a/b"}, "X-Object-Manifest"),
        ({"X-Delete-At": "1"}, "X-Delete-At"),
        (
            {"X-Delete-After": "1", "X-Storlet-Rules-Accept-Warning": "true"},
            "did you mean X-Storlet-Rules-Accept-Warnings",
        ),
    ],
)
@pytest.mark.parametrize("method", ["PUT", "POST"])
def test_rules_are_an_object_of_their_own(
    proxy: RulesProxy, method: str, headers: dict[str, str], part: str
) -> None:
    with pytest.raises(BadRequest, match=part):
        proxy.call(method, RULES, headers, body=ORDINARY)


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
def test_rules_are_no_manifest(proxy: RulesProxy, method: str) -> None:
    with pytest.raises(BadRequest, match="multipart-manifest"):
        proxy.call(method, f"{RULES}?multipart-manifest=put", body=ORDINARY)


@pytest.mark.parametrize("method", ["PUT", "POST", "COPY"])
def test_swifts_own_versions_are_not_ours(proxy: RulesProxy, method: str) -> None:
    path = "storlet_rules/versions/x" if method == "COPY" else RULES
    with pytest.raises(BadRequest, match="version-id"):
        proxy.call(method, f"{path}?version-id=1", {"Destination": RULES})


def test_deleting_one_of_those_removes_no_rules(proxy: RulesProxy) -> None:
    proxy.upload(ORDINARY)
    assert proxy.call("DELETE", f"{RULES}?version-id=1").status_int == 204
    assert proxy.names() == ["night"]


def test_metadata_may_be_posted(proxy: RulesProxy) -> None:
    proxy.upload(ORDINARY)
    assert proxy.call("POST", RULES, {"X-Object-Meta-A": "b"}).status_int == 204


def test_without_the_container_the_answer_is_swifts(proxy: RulesProxy, swift: AccountSwift) -> None:
    del swift.containers["storlet_rules"]
    with pytest.raises(SwiftRefusal) as caught:
        proxy.upload(ORDINARY)
    assert caught.value.answer.status_int == 404


# --- permissions


@pytest.mark.parametrize(("method", "path"), [("PUT", RULES), ("POST", RULES), ("DELETE", RULES), ("DELETE", "storlet_rules/versions/x")])  # fmt: skip
def test_a_caller_without_write_access_to_the_container_changes_nothing(
    proxy: RulesProxy, swift: AccountSwift, method: str, path: str
) -> None:
    proxy.upload(ORDINARY)
    before = swift.pointer
    with pytest.raises(SwiftRefusal):
        proxy.call(method, path, body=MANDATORY, environ={"REMOTE_USER": OTHER})
    assert swift.pointer == before


def test_the_write_acl_of_the_container_lets_others(proxy: RulesProxy, swift: AccountSwift) -> None:
    swift.containers["storlet_rules"].write = OTHER
    assert proxy.upload(ORDINARY, environ={"REMOTE_USER": OTHER}).status_int == 201


def test_a_role_may_be_required_as_well(with_role: RulesProxy, swift: AccountSwift) -> None:
    swift.containers["storlet_rules"].write = OTHER
    for method in ("PUT", "POST", "DELETE"):
        with pytest.raises(AccessDenied, match="rules-admin"):
            with_role.call(method, RULES, body=ORDINARY, environ={"REMOTE_USER": OTHER})
    assert (
        with_role.upload(ORDINARY, environ={"REMOTE_USER": f"{OTHER},test2,Rules-Admin"}).status_int
        == 201
    )


def test_the_role_alone_is_not_enough(with_role: RulesProxy) -> None:
    with pytest.raises(SwiftRefusal):
        with_role.upload(ORDINARY, environ={"REMOTE_USER": f"{OTHER},rules-admin"})


def test_the_owner_needs_no_role(with_role: RulesProxy) -> None:
    assert with_role.upload(ORDINARY).status_int == 201


@pytest.mark.parametrize("signed", [".wsgi.tempurl", ".wsgi.formpost"])
def test_a_signed_url_changes_no_rules(proxy: RulesProxy, signed: str) -> None:
    with pytest.raises(AccessDenied, match="signed"):
        proxy.upload(ORDINARY, environ={"REMOTE_USER": signed, "swift.authorize": lambda _: None})


# --- what is not ours


@pytest.mark.parametrize(
    ("method", "path", "headers"),
    [
        ("GET", RULES, {}),
        ("HEAD", RULES, {}),
        ("PUT", "storlet_rules", {}),
        ("PUT", "storlet_rules/readme.txt", {}),
        ("DELETE", "storlet_rules/rules.yml", {}),
        ("PUT", "a/rules.yaml", {}),
        ("COPY", RULES, {"Destination": "a/rules.yaml"}),
        ("COPY", RULES, {"Destination": "nonsense"}),
        ("COPY", RULES, {}),
        ("GET", RULES, {"X-Run-Storlet": "up.py"}),
        ("PUT", RULES, {"X-Storlet-Explain": "true"}),
        ("POST", "", {}),
    ],
)
def test_everything_else_is_left_to_others(
    proxy: RulesProxy, swift: AccountSwift, method: str, path: str, headers: dict[str, str]
) -> None:
    assert proxy.handler(proxy.environ(method, path, headers)) is None
    assert not swift.seen


@pytest.mark.parametrize(
    ("method", "path", "headers"),
    [
        ("PUT", RULES, {}),
        ("PUT", "storlet_rules/other.txt", {}),
        ("COPY", "a/b", {"Destination": "storlet_rules/rules.yaml"}),
        ("PUT", "storlet_rules/versions/x", {"X-Copy-From": "a/b"}),
    ],
)
def test_no_storlet_writes_into_the_container(
    proxy: RulesProxy, method: str, path: str, headers: dict[str, str]
) -> None:
    with pytest.raises(BadRequest, match="cannot write"):
        proxy.call(method, path, {"X-Run-Storlet": "up.py", **headers})


# --- versions


@pytest.fixture
def changed(proxy: RulesProxy, swift: AccountSwift) -> str:
    """The name of a version that is not in force any more."""
    proxy.upload(ORDINARY)
    old = version_in_force(swift)
    proxy.upload(MANDATORY)
    return old


def test_a_version_is_restored_with_copy(
    proxy: RulesProxy, swift: AccountSwift, changed: str
) -> None:
    answer = proxy.call("COPY", f"storlet_rules/{changed}", {"Destination": RULES})
    assert (answer.status_int, answer.headers["X-Copied-From"]) == (201, f"storlet_rules/{changed}")
    assert proxy.names() == ["night"]
    assert version_in_force(swift) not in (changed, "")
    assert swift.stored["rules.yaml"] == ORDINARY


def test_a_version_is_restored_with_put(proxy: RulesProxy, changed: str) -> None:
    headers = {
        "X-Copy-From": f"/storlet_rules/{changed}",
        "Content-Length": "0",
        "X-Copy-From-Account": ACCOUNT,
    }
    assert proxy.call("PUT", RULES, headers).status_int == 201
    assert proxy.names() == ["night"]


def test_restored_rules_are_checked_again(proxy: RulesProxy, swift: AccountSwift) -> None:
    proxy.upload(RUNS)
    old = version_in_force(swift)
    proxy.upload(ORDINARY)
    del swift.containers["storlet"].objects["up.py"]
    answer = proxy.call("COPY", f"storlet_rules/{old}", {"Destination": RULES})
    assert "storlet.missing" in answer.body.decode()
    assert proxy.names() == ["night"]


@pytest.mark.parametrize(
    ("method", "path", "headers", "error"),
    [
        ("COPY", "a/b", {"Destination": RULES}, BadRequest),
        ("COPY", "storlet_rules/x.yaml", {"Destination": RULES}, BadRequest),
        ("COPY", "storlet_rules/versions/x", {"Destination": RULES, "Destination-Account": "AUTH_other"}, BadRequest),
        ("COPY", "storlet_rules/versions/x", {"Destination": RULES}, SwiftRefusal),
        ("PUT", RULES, {"X-Copy-From": "a/b"}, BadRequest),
        ("PUT", RULES, {"X-Copy-From": "storlet_rules/versions/x", "X-Copy-From-Account": "AUTH_other"}, BadRequest),
        ("PUT", RULES, {"X-Copy-From": "nonsense"}, PreconditionFailed),
        ("PUT", RULES, {"X-Copy-From": "storlet_rules/versions/x", "Content-Length": "7"}, BadRequest),
    ],
)  # fmt: skip
def test_nothing_but_an_own_version_is_copied_to_the_rules(
    proxy: RulesProxy, method: str, path: str, headers: dict[str, str], error: type[Exception]
) -> None:
    with pytest.raises(error):
        proxy.call(method, path, headers)


def test_a_copy_that_swift_refuses_changes_no_rules(proxy: RulesProxy) -> None:
    headers = {"Destination": RULES, "Destination-Account": "%ff"}
    assert proxy.handler(proxy.environ("COPY", "storlet_rules/versions/x", headers)) is None


def test_a_caller_without_read_access_to_a_version_does_not_restore_it(
    proxy: RulesProxy, swift: AccountSwift, changed: str
) -> None:
    swift.containers["storlet_rules"].write = OTHER
    with pytest.raises(SwiftRefusal):
        proxy.call(
            "COPY",
            f"storlet_rules/{changed}",
            {"Destination": RULES},
            environ={"REMOTE_USER": OTHER},
        )


@pytest.mark.parametrize(
    ("method", "path", "headers"),
    [
        ("PUT", "storlet_rules/versions/x.yaml", {}),
        ("POST", "storlet_rules/versions/x.yaml", {}),
        ("COPY", RULES, {"Destination": "storlet_rules/versions/x.yaml"}),
    ],
)
def test_only_an_upload_makes_versions(
    proxy: RulesProxy, method: str, path: str, headers: dict[str, str]
) -> None:
    with pytest.raises(AccessDenied, match="version"):
        proxy.call(method, path, headers)


def test_old_versions_can_be_deleted_and_the_one_in_force_not(
    proxy: RulesProxy, swift: AccountSwift, changed: str
) -> None:
    assert proxy.call("DELETE", f"storlet_rules/{changed}").status_int == 204
    with pytest.raises(RulesConflict, match="in force"):
        proxy.call("DELETE", f"storlet_rules/{version_in_force(swift)}")
    assert proxy.names() == ["closed"]


def test_no_version_is_deleted_while_it_is_not_known_which_is_in_force(
    swift: AccountSwift, tmp_path: Path, proxy: RulesProxy, changed: str
) -> None:
    swift.status = 503
    with pytest.raises(RulesUnavailable):
        RulesProxy(swift, tmp_path, InfoCache()).call("DELETE", f"storlet_rules/{changed}")
    assert changed in swift.stored


# --- removal


def test_deleting_the_rules_object_removes_the_rules(
    proxy: RulesProxy, swift: AccountSwift
) -> None:
    proxy.upload(MANDATORY)
    version = version_in_force(swift)
    assert proxy.call("DELETE").status_int == 204
    assert proxy.names() == []
    assert list(swift.stored) == [version]
    assert proxy.call("COPY", f"storlet_rules/{version}", {"Destination": RULES}).status_int == 201
    assert proxy.names() == ["closed"]


def test_rules_can_be_removed_when_their_object_is_lost(
    proxy: RulesProxy, swift: AccountSwift
) -> None:
    proxy.upload(MANDATORY)
    swift.containers["storlet_rules"].objects.clear()
    assert proxy.call("DELETE").status_int == 204
    assert proxy.names() == []
    assert proxy.call("DELETE").status_int == 404


def test_rules_that_cannot_be_removed_stay_with_their_object(
    proxy: RulesProxy, swift: AccountSwift
) -> None:
    proxy.upload(MANDATORY)
    swift.post_statuses = [503, 204]
    with pytest.raises(BackendFailed, match="stay"):
        proxy.call("DELETE")
    assert "rules.yaml" in swift.stored
    assert proxy.names() == ["closed"]


# --- failures half way


def failing(swift: AccountSwift, method: str, name: str, fail: Callable[[Any], Any]) -> None:
    """The next such request for an object whose name begins so."""
    original = swift.respond

    def respond(request: Any) -> Any:
        path = request.environ["PATH_INFO"]
        if request.method == method and f"/storlet_rules/{name}" in path:
            swift.respond = original  # type: ignore[method-assign]
            return fail(request)
        return original(request)

    swift.respond = respond  # type: ignore[method-assign]


def refuse(request: Any) -> Any:
    return Response(status=507, request=request)


def be_killed(_: Any) -> Any:
    raise Killed


@pytest.mark.parametrize("name", ["versions/", "rules.yaml"])
@pytest.mark.parametrize("had_rules", [True, False])
def test_a_step_that_swift_refuses_changes_nothing(
    proxy: RulesProxy, swift: AccountSwift, name: str, *, had_rules: bool
) -> None:
    if had_rules:
        proxy.upload(ORDINARY)
    before, stored = swift.pointer, dict(swift.stored)
    failing(swift, "PUT", name, refuse)
    with pytest.raises(SwiftRefusal) as caught:
        proxy.upload(MANDATORY)
    assert caught.value.answer.status_int == 507
    assert (swift.pointer, swift.stored) == (before, stored)
    assert proxy.names() == (["night"] if had_rules else [])


@pytest.mark.parametrize("name", ["versions/", "rules.yaml"])
@pytest.mark.parametrize("is_written", [True, False])
def test_a_proxy_that_dies_half_way_leaves_the_old_rules_in_force(
    proxy: RulesProxy, swift: AccountSwift, tmp_path: Path, name: str, *, is_written: bool
) -> None:
    proxy.upload(ORDINARY)
    before, original = swift.pointer, swift.respond

    def die(request: Any) -> Any:
        if is_written:
            original(request)
        return be_killed(request)

    failing(swift, "PUT", name, die)
    with pytest.raises(Killed):
        proxy.upload(MANDATORY)
    assert swift.pointer == before
    assert RulesProxy(swift, tmp_path, InfoCache()).names() == ["night"]
    assert proxy.upload(MANDATORY).status_int == 201


@pytest.mark.parametrize("had_rules", [True, False])
def test_a_change_that_swift_reports_as_failed_is_undone(
    proxy: RulesProxy, swift: AccountSwift, *, had_rules: bool
) -> None:
    if had_rules:
        proxy.upload(ORDINARY)
    before = swift.pointer or ""
    swift.post_statuses = [503, 204]
    with pytest.raises(BackendFailed, match="the previous rules stay in force"):
        proxy.upload(MANDATORY)
    assert proxy.names() == (["night"] if had_rules else [])
    assert swift.stored.get("rules.yaml") == (ORDINARY if had_rules else None)
    # A replica that took the change must not win over the others.
    assert swift.pointer is not None
    assert (
        swift.pointer.split()[-1 if not had_rules else 2] > before.split(" ")[2 if had_rules else 0]
    )


def test_an_uncertain_outcome_of_an_upload_is_an_error_that_says_so(
    proxy: RulesProxy, swift: AccountSwift
) -> None:
    proxy.upload(ORDINARY)
    swift.post_statuses = [503, 503]
    with pytest.raises(BackendFailed, match="uncertain"):
        proxy.upload(MANDATORY)


# --- two at a time


def test_of_two_concurrent_changes_one_is_refused_with_a_retry_time(
    proxy: RulesProxy, swift: AccountSwift, tmp_path: Path
) -> None:
    proxy.upload(ORDINARY)
    other = RulesProxy(swift, tmp_path, proxy.memcache)
    said = []

    def meanwhile(request: Any) -> Any:
        for method in ("PUT", "DELETE"):
            with pytest.raises(RulesConflict) as caught:
                other.call(method, body=ORDINARY)
            said.append(caught.value.retry_after)
        return swift.respond(request)

    failing(swift, "PUT", "rules.yaml", meanwhile)
    assert proxy.upload(MANDATORY).status_int == 201
    assert said == [1, 1]
    assert other.upload(ORDINARY).status_int == 201


def test_without_memcached_no_upload_waits(
    proxy: RulesProxy, swift: AccountSwift, tmp_path: Path
) -> None:
    assert proxy.memcache is not None
    proxy.memcache.is_broken = True
    assert proxy.upload(ORDINARY).status_int == 201
    assert RulesProxy(swift, tmp_path).upload(MANDATORY).status_int == 201


# --- the process that checks


def test_a_process_that_takes_too_long_has_ended_when_the_expiry_is_raised() -> None:
    before = set(children())
    with pytest.raises(WaitExpired):
        run_process(["sleep", "60"], b"", ENVIRONMENT, 0.1)
    assert set(children()) == before
    with conversation(["sleep", "60"], ENVIRONMENT, 0.1) as ask, pytest.raises(WaitExpired):
        ask(b"a question")
    assert set(children()) == before


@pytest.mark.parametrize("sockets", [socket, eventlet.green.socket], ids=["plain", "green"])
def test_a_process_answers_long_lines_until_it_ends(
    sockets: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "socketpair", sockets.socketpair)
    line, late = b"x" * 1_000_000, ["sed", "-u", "e sleep 0.1"]
    with conversation(late, ENVIRONMENT, 60) as ask:
        assert [ask(line), ask(b"")] == [line + b"\n", b"\n"]
    with conversation(["false"], ENVIRONMENT, 60) as ask, pytest.raises(ProcessEnded) as ended:
        ask(line)
    assert ended.value.status == 1


ENVIRONMENT = {"PATH": os.environ["PATH"]}


def children() -> list[str]:
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii").split()
