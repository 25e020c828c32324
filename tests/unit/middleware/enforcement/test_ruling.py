"""The filter with an account's rules over a Swift in memory: what is decided, what Swift is asked for it, and what is answered."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from swift.common.swob import Request, Response

from storlet_middleware import names
from storlet_middleware.enforcement import passing
from storlet_middleware.enforcement.read_guard import ReadGuard
from storlet_middleware.errors import RuleRefused
from storlet_middleware.ruleset.pointer import Pointer
from storlet_middleware.wsgi.operation import parse
from tests.unit.middleware.rules_account import AccountSwift, InfoCache
from tests.unit.middleware.rules_pipeline import Judge
from tests.unit.middleware.support import ACCOUNT, Answer, Node, Proxy, make_config

BOB = "test:bob"
CONTENT = b"a secret in lower case"
UPPER = CONTENT.upper()
OBJECT = f"/v1/{ACCOUNT}/c/o"


class Cache(InfoCache):
    """Of storlets as well."""

    def get_multi(self, keys: list[str], server_key: str) -> list[Any]:
        return [self.get(key) for key in keys]

    def set_multi(self, mapping: dict[str, Any], server_key: str, **more: Any) -> None:
        for key, value in mapping.items():
            self.set(key, value)


class Ruled:
    """A proxy with rules; ``seen`` is what Swift has been asked since the last question."""

    def __init__(self, swift: AccountSwift, proxy: Proxy) -> None:
        self.swift = swift
        self.proxy = proxy

    def rule(self, text: str) -> None:
        """Put rules in force, without the checks of an upload."""
        body = f"version: 1\nrules:\n{text}".encode()
        is_mandatory = b"mandatory: true" in body
        pointer = Pointer.to(
            hashlib.sha256(body).hexdigest(), is_mandatory=is_mandatory, after=None
        )
        for name in ("rules.yaml", pointer.name):
            self.swift.put("storlet_rules", name, body)
        self.swift.replicas[0][names.ACCOUNT_RULES] = pointer.text
        self.proxy.memcache.values.clear()
        # Remembered from now on, as in a proxy that has had a request of the account before.
        self.proxy.call("GET", "c/other")
        self.seen()

    def seen(self) -> list[str]:
        """Method and path of what Swift was asked, without the account."""
        found = [
            f"{one.method} {one.path.removeprefix(f'/v1/{ACCOUNT}/')}" for one in self.swift.seen
        ]
        self.swift.seen.clear()
        return found

    def get(self, path: str = "c/o", headers: dict[str, str] | None = None, **more: Any) -> Answer:
        answer: Answer = self.proxy.call("GET", path, headers, **more)
        return answer


@pytest.fixture
def ruled(node: Node, short_dir: Path) -> Ruled:
    swift = AccountSwift()
    for name in ("o", "other"):
        swift.put("c", name, CONTENT, Content_Type="text/csv", X_Object_Meta_Study="7")
    for container in ("c", "storlet"):
        swift.containers[container].read = BOB
    proxy = Proxy(swift, make_config(short_dir))
    proxy.memcache = Cache()
    return Ruled(swift, proxy)


def rule(name: str, when: str, action: str, mandatory: bool = True) -> str:
    return f"- name: {name}\n  when: {{{when}}}\n{'  mandatory: true' * mandatory}\n  {action}\n"


def assert_closed(answer: Answer, name: str = "hide") -> None:
    assert (answer.status, answer.error, answer.headers.get(names.RULE)) == (
        403,
        "access.rule",
        name,
    ), answer.data
    assert b"secret" not in answer.data
    assert "secret" not in str(answer.headers)


# --- what Swift is asked ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_an_account_without_rules_causes_no_further_requests(ruled: Ruled, method: str) -> None:
    ruled.proxy.call(method, "c/o")
    ruled.seen()
    answer = ruled.proxy.call(method, "c/o")
    assert (answer.status, answer.headers.get(names.RULE)) == (200, None)
    assert ruled.seen() == [f"{method} c/o"]


def test_an_upload_without_rules_causes_no_further_requests(ruled: Ruled) -> None:
    ruled.get()
    ruled.seen()
    assert ruled.proxy.call("PUT", "c/new", body=b"x").status == 201
    assert ruled.seen() == ["PUT c/new"]


@pytest.mark.parametrize(
    "when",
    [
        "method: GET, container: elsewhere",
        "method: GET, object: none",
        "method: PUT, content-type: text/csv",
        "method: GET, user: nobody",
        "method: GET, header: {x-a: b}, metadata: {study: '7'}",
        "method: GET, container: elsewhere, size: {at-least: 1}",
    ],
)
def test_a_decision_by_the_request_alone_needs_no_lookup(ruled: Ruled, when: str) -> None:
    ruled.rule(rule("hide", when, "deny: it is closed"))
    assert ruled.get().data == CONTENT
    assert ruled.seen() == ["GET c/o"]


@pytest.mark.parametrize(
    "facts", ["metadata: {study: '8'}", "content-type: image/png", "size: {at-least: 1M}"]
)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_the_object_is_looked_up_once_for_all_rules(ruled: Ruled, facts: str, method: str) -> None:
    rules = "".join(rule(f"r{number}", f"method: GET, object: {{glob: '*{'?' * (number % 2)}'}}, {facts}", "deny: closed")
                    for number in range(4))  # fmt: skip
    ruled.rule(rules)
    assert ruled.proxy.call(method, "c/o").status == 200
    assert sorted(ruled.seen()) == sorted(["HEAD c/o", f"{method} c/o"])


def test_a_refusal_needs_one_lookup_and_reads_no_bytes(ruled: Ruled) -> None:
    ruled.rule(
        rule(
            "hide",
            "method: GET, metadata: {study: '7'}, content-type: text/csv",
            "deny: it is closed",
        )
    )
    assert_closed(ruled.get())
    assert [one for one in ruled.seen() if one.endswith("c/o")] == ["HEAD c/o"]


def test_container_metadata_is_looked_up_without_the_object(ruled: Ruled) -> None:
    ruled.rule(
        rule("hide", "method: GET, container-metadata: {closed: 'yes'}", "deny: it is closed")
    )
    assert ruled.get().status == 200
    assert [one for one in ruled.seen() if one.startswith("HEAD c/")] == []


# --- what was looked at and what is answered --------------------------------------------------------------------------

ABOUT_METADATA = rule("hide", "method: GET, metadata: {closed: 'yes'}", "deny: it is closed")


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_an_object_that_changes_during_the_decision_is_refused(ruled: Ruled, method: str) -> None:
    ruled.rule(ABOUT_METADATA)
    stored = ruled.swift.containers["c"].objects["o"]

    def replaced(request: Any) -> Any:
        answer = ruled.swift.serve(request, stored)
        if request.environ.get("swift.source") == names.SWIFT_SOURCE:
            stored.headers |= {"X-Timestamp": "1640995201.00000", "X-Object-Meta-Closed": "yes"}
        return answer

    ruled.swift.hooks["HEAD", OBJECT] = replaced
    answer = ruled.proxy.call(method, "c/o")
    assert (answer.status, answer.headers["Retry-After"]) == (503, "1"), answer.data
    assert b"secret" not in answer.data
    assert "X-Object-Meta-Closed" not in answer.headers
    assert ruled.swift.unclosed() == 0
    assert_closed(ruled.get())


@pytest.mark.parametrize("status", [401, 403, 500, 503])
def test_an_object_that_cannot_be_looked_up_is_refused(ruled: Ruled, status: int) -> None:
    ruled.rule(ABOUT_METADATA)
    ruled.swift.hooks["HEAD", OBJECT] = lambda request: Response(status=status, request=request)
    answer = ruled.get()
    assert answer.status == 503, answer.data
    assert b"secret" not in answer.data


def test_a_missing_object_gets_swifts_own_answer(ruled: Ruled) -> None:
    ruled.rule(ABOUT_METADATA)
    answer = ruled.get("c/none")
    assert (answer.status, answer.error) == (404, "")


# --- rules that cannot be read ----------------------------------------------------------------------------------------


def damage(ruled: Ruled, how: str) -> None:
    """The version in force and its copy, ``rules.yaml``."""
    objects = ruled.swift.containers["storlet_rules"].objects
    for name in list(objects):
        if how == "gone":
            del objects[name]
        elif how == "other":
            objects[name].body = b"version: 1\nrules: []\n"
        else:
            path = f"/v1/{ACCOUNT}/storlet_rules/{name}"
            ruled.swift.hooks["GET", path] = lambda request: Response(status=503, request=request)


READS: dict[str, Callable[[Ruled], Answer]] = {
    "GET": lambda r: r.get(),
    "HEAD": lambda r: r.proxy.call("HEAD", "c/o"),
    "listing": lambda r: r.get("c"),
    "range": lambda r: r.get(headers={"Range": "bytes=0-3"}),
    "explicit": lambda r: r.get(headers={"X-Run-Storlet": "up.py"}),
    "COPY": lambda r: r.proxy.call("COPY", "c/o", {"Destination": "c/copy"}),
    "PUT": lambda r: r.proxy.call("PUT", "c/new", body=b"x"),
    "explain": lambda r: r.get(headers={"X-Storlet-Explain": "true"}),
}


@pytest.mark.parametrize("how", ["gone", "other", "unavailable"])
@pytest.mark.parametrize("way", READS)
def test_mandatory_rules_that_cannot_be_read_close_everything(
    ruled: Ruled, short_dir: Path, how: str, way: str
) -> None:
    ruled.rule(rule("hide", "method: GET, container: elsewhere", "deny: it is closed"))
    damage(ruled, how)
    other = Ruled(ruled.swift, Proxy(ruled.swift, make_config(short_dir)))
    answer = READS[way](other)
    assert (answer.status, answer.error) == (503, "rules.unavailable"), answer.data
    assert answer.headers["Retry-After"]
    assert b"secret" not in answer.data
    assert "new" not in ruled.swift.containers["c"].objects


@pytest.mark.parametrize("how", ["gone", "other", "unavailable"])
def test_ordinary_rules_that_cannot_be_read_close_nothing(
    ruled: Ruled, short_dir: Path, how: str
) -> None:
    ruled.rule(rule("soft", "method: GET, container: c", "deny: it is closed", mandatory=False))
    assert_closed(ruled.get(), "soft")
    damage(ruled, how)
    other = Ruled(ruled.swift, Proxy(ruled.swift, make_config(short_dir)))
    assert other.get().data == CONTENT
    assert "rules" in other.proxy.logger.text


# --- what is done -----------------------------------------------------------------------------------------------------


def test_a_rule_runs_its_storlet(ruled: Ruled) -> None:
    ruled.rule(rule("hide", f"method: GET, user: '{BOB}'", "run: up.py"))
    answer = ruled.get(user=BOB)
    assert (answer.status, answer.data, answer.headers[names.RULE]) == (200, UPPER, "hide")
    assert "X-Object-Meta-Study" not in answer.headers
    assert ruled.get().data == CONTENT
    assert ruled.swift.unclosed() == 0


def test_swifts_own_refusal_comes_first(ruled: Ruled) -> None:
    ruled.rule(rule("hide", "method: GET", "deny: it is closed"))
    for user, status in (("test:carl", 403), ("", 401)):
        answer = ruled.get(user=user)
        assert (answer.status, answer.headers.get(names.RULE)) == (status, None), answer.data
        assert b"hide" not in answer.data
        assert b"hide" not in ruled.get(user=user, headers={"Range": "bytes=0-3"}).data


@pytest.mark.parametrize(
    "headers",
    [
        {"Range": "bytes=0-3"},
        {"If-Match": "x"},
        {"If-None-Match": "*"},
        {"If-Range": "x"},
        {"X-Storlet-Range": "bytes=0-3"},
        {"X-Run-Storlet": "up.py"},
        {"X-Run-Storlet": "up.py", "X-Storlet-Range": "bytes=0-3"},
    ],
)
def test_a_request_for_a_part_of_the_object_is_refused(
    ruled: Ruled, headers: dict[str, str]
) -> None:
    ruled.rule(rule("hide", f"method: GET, user: '{BOB}'", "run: up.py"))
    assert_closed(ruled.get(headers=headers, user=BOB))


def test_the_clients_storlet_replaces_an_ordinary_rule(ruled: Ruled) -> None:
    ruled.rule(rule("soft", "method: GET", "deny: it is closed", mandatory=False))
    assert_closed(ruled.get(), "soft")
    answer = ruled.get(headers={"X-Run-Storlet": "up.py"})
    assert (answer.status, answer.data, answer.headers.get(names.RULE)) == (200, UPPER, None)


def test_the_refusal_of_a_rule_is_raised_as_an_exception_of_s3api(ruled: Ruled) -> None:
    from swift.common.middleware.s3api.s3response import AccessDenied  # noqa: PLC0415

    ruled.rule(rule("hide", "method: GET", "deny: it is closed"))
    with pytest.raises(AccessDenied) as caught:
        ruled.get(environ={"swift.source": "S3"})
    assert caught.value._msg == "rule hide: it is closed"
    assert caught.value.headers[names.RULE] == "hide"


def test_rules_do_not_apply_to_lookups_by_swift_itself(ruled: Ruled) -> None:
    ruled.rule(rule("hide", "method: GET", "deny: it is closed"))
    own = {"REMOTE_USER": ".wsgi.pre_authed", "swift.authorize": lambda _: None}
    assert ruled.proxy.call("HEAD", "c", environ=own, user="").status == 204
    assert_closed(ruled.get(environ=own | {"swift.source": "FP"}, user=""))
    assert_closed(ruled.proxy.call("GET", "c", environ=own, user=""))


# --- explain ----------------------------------------------------------------------------------------------------------

EXPLAIN = {"X-Storlet-Explain": "true"}
JSON = EXPLAIN | {"Accept": "application/json"}


def test_an_explanation_runs_no_storlet_and_reveals_no_data(ruled: Ruled, node: Node) -> None:
    ruled.rule(
        rule(
            "hide",
            "method: GET, object: o",
            "run: {storlet: up.py, on: proxy, limits: {memory: 64M}}",
        )
    )
    answer = ruled.get(headers=EXPLAIN)
    assert (answer.status, answer.headers["Content-Type"]) == (200, "text/plain; charset=utf-8")
    text = answer.data.decode()
    assert "rule hide" in text
    assert "run up.py on the proxy" in text
    assert "memory" in text.lower()
    assert "secret" not in text
    assert node.workers.runs == []
    assert "GET c/o" not in ruled.seen()


def test_an_explanation_as_json(ruled: Ruled) -> None:
    ruled.rule(
        rule("other", "method: PUT", "deny: not this", mandatory=False)
        + rule(
            "hide",
            "method: GET, metadata: {study: '7'}",
            "run: {storlet: up.py, parameters: {p: '{object}'}}",
        )
    )
    answer = ruled.get(headers=JSON)
    (told,) = json.loads(answer.data)
    assert (told["rule"], told["action"], told["mandatory"]) == ("hide", "run", True)
    assert [each["rule"] for each in told["considered"]] == ["other", "hide"]
    assert [each["matches"] for each in told["considered"]] == [False, True]
    (step,) = told["steps"]
    assert (step["storlet"], step["parameters"]) == ("up.py", {"p": "o"})
    assert len(told["version"]) == 64


def test_an_explanation_of_a_copy_covers_source_and_target(ruled: Ruled) -> None:
    ruled.rule(
        rule("read", "method: COPY, container: c, object: o", "deny: not this", mandatory=False)
        + rule(
            "write", "method: PUT, container: c, object: copy", "deny: nor this", mandatory=False
        )
    )
    told = json.loads(ruled.proxy.call("COPY", "c/o", JSON | {"Destination": "c/copy"}).data)
    assert [each["rule"] for each in told] == ["read", "write"]
    assert "copy" not in ruled.swift.containers["c"].objects


@pytest.mark.parametrize("method", ["PUT", "POST", "DELETE"])
def test_an_explanation_changes_nothing(ruled: Ruled, method: str) -> None:
    ruled.rule(rule("hide", "method: GET", "deny: not this"))
    before = dict(ruled.swift.containers["c"].objects)
    assert ruled.proxy.call(method, "c/o", EXPLAIN, body=b"new").status == 200
    assert ruled.swift.containers["c"].objects == before
    assert not [one for one in ruled.seen() if one.startswith(f"{method} ")]


@pytest.mark.parametrize("user", [BOB, "", "test:carl"])
def test_an_explanation_needs_read_access_to_the_rules(ruled: Ruled, user: str) -> None:
    ruled.rule(rule("hide", "method: GET", "deny: not this"))
    answer = ruled.get(headers=EXPLAIN, user=user)
    assert answer.status == (403 if user else 401), answer.data
    assert b"hide" not in answer.data


def test_an_explanation_hides_metadata_that_a_rule_covers(ruled: Ruled) -> None:
    ruled.swift.containers["storlet_rules"].read = BOB
    ruled.swift.containers["c"].objects["o"].headers["X-Object-Meta-Study"] = "a secret value"
    ruled.rule(
        rule(
            "hide",
            "method: GET, metadata: {study: {prefix: a}}",
            "run: {storlet: up.py, parameters: {p: '{metadata.study}'}}",
        )
    )
    for headers in (EXPLAIN, JSON):
        answer = ruled.get(headers=headers, user=BOB)
        assert answer.status == 200, answer.data
        assert b"hide" in answer.data
        assert b"secret value" not in answer.data


def test_an_explanation_without_rules(ruled: Ruled) -> None:
    answer = ruled.get(headers=EXPLAIN)
    assert (answer.status, answer.data) == (200, b"no rules are in force\n")
    assert ruled.get(headers=EXPLAIN, user=BOB).status == 403


# --- what needs no rule is handed on as it comes ----------------------------------------------------------------------

PLAIN = [("X-Test", "plain")]
LARGE = [("X-Object-Manifest", "c/parts")]


class Body:
    """Of an application's answer; ``start`` is called when it is read, where an application begins so late."""

    def __init__(self, start: Callable[[], Any] = lambda: None) -> None:
        self.start = start
        self.chunks = iter([b"bytes"])
        self.is_closed = False

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        chunk = next(self.chunks)
        self.start()
        return chunk

    def close(self) -> None:
        self.is_closed = True


class HandedOn:
    """What a server gets of the answer of ``app``."""

    def __init__(self, app: Callable[..., Any]) -> None:
        self.app = app
        self.environ = Request.blank(OBJECT).environ
        operation = parse(self.environ)
        assert operation is not None
        self.guard = ReadGuard(
            operation, lambda _: Judge(), operation.subject, None, app, "storlet-rules"
        )
        self.started: list[tuple[str, Any]] = []

    def start(self, status: str, headers: Any, exc_info: Any = None) -> None:
        self.started.append((status, headers))

    def body(self) -> bytes:
        chunks: Any = passing.stream_checked(self.guard, self.app, self.environ, self.start)
        try:
            return b"".join(chunks)
        finally:
            chunks.close()


@pytest.mark.parametrize("headers", [PLAIN, LARGE])
@pytest.mark.parametrize("is_late", [False, True])
def test_an_answer_is_started_once_and_closed(headers: Any, *, is_late: bool) -> None:
    body = Body()

    def app(_: Any, start: Any) -> Body:
        body.start = lambda: start("200 OK", headers) if is_late else None
        if not is_late:
            start("200 OK", headers)
        return body

    handed_on = HandedOn(app)
    assert handed_on.body() == b"bytes"
    assert handed_on.started == [("200 OK", headers)]
    assert body.is_closed


@pytest.mark.parametrize("headers", [PLAIN, LARGE])
@pytest.mark.parametrize("is_late", [False, True])
def test_an_answer_that_a_rule_refuses_is_never_started(headers: Any, *, is_late: bool) -> None:
    body = Body()

    def app(_: Any, start: Any) -> Body:
        handed_on.guard.refused.append(RuleRefused("hide", "it is closed"))
        body.start = lambda: start("200 OK", headers) if is_late else None
        if not is_late:
            start("200 OK", headers)
        return body

    handed_on = HandedOn(app)
    with pytest.raises(RuleRefused):
        handed_on.body()
    assert handed_on.started == []
    assert body.is_closed


def test_a_refusal_after_the_answer_started_is_raised() -> None:
    body = Body()

    def app(_: Any, start: Any) -> Body:
        start("200 OK", PLAIN)
        handed_on.guard.refused.append(RuleRefused("hide", "it is closed"))
        return body

    handed_on = HandedOn(app)
    with pytest.raises(RuleRefused):
        handed_on.body()
    assert body.is_closed


def test_the_last_start_of_an_answer_counts() -> None:
    def app(_: Any, start: Any) -> Body:
        start("200 OK", LARGE)
        start("503 Service Unavailable", PLAIN, (None, None, None))
        return Body()

    handed_on = HandedOn(app)
    assert handed_on.body() == b"bytes"
    assert handed_on.started == [("503 Service Unavailable", PLAIN)]
