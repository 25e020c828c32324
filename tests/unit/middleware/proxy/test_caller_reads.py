"""Reads as the caller: refusals, grants and rules of Swift and of the account."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from swift.common.swob import Response, wsgi_quote

from storlet_middleware.errors import RuleRefused
from storlet_middleware.wsgi import grants
from storlet_middleware.wsgi.storlet_request import ObjectPath
from tests.unit.middleware.rule_runs import BOB, MANDATORY, PLAN, TWO, ClosingRules, RunHarness
from tests.unit.middleware.support import ACCOUNT, RUN, FakeSwift, Proxy, assert_idle

pytestmark = pytest.mark.usefixtures("nothing_is_left_open")


Make = Callable[..., Proxy]


def test_swifts_refusal_of_the_source_reaches_the_client(proxy: Proxy, swift: FakeSwift) -> None:
    assert proxy.call("GET", "c/none", RUN).status == 404
    etag = hashlib.md5(b"hello", usedforsecurity=False).hexdigest()
    assert proxy.call("GET", "c/o", {**RUN, "If-None-Match": etag}).status == 304
    assert proxy.call("GET", "c/o", {**RUN, "If-Match": '"x"'}).status == 412
    assert_idle(proxy)


def test_names_that_need_quoting_arrive_as_they_are(proxy: Proxy, swift: FakeSwift) -> None:
    path = "größe c/a b%?ü".encode().decode("latin-1")
    container, name = path.split("/")
    swift.put(container, name, b"hello")
    assert proxy.call("GET", wsgi_quote(path), RUN).data == b"HELLO"
    target = f"/{container}/" + "neu ü".encode().decode("latin-1")
    assert (
        proxy.call("COPY", wsgi_quote(path), {**RUN, "Destination": wsgi_quote(target)}).status
        == 201
    )
    assert swift.containers[container].objects["neu ü".encode().decode("latin-1")].body == b"HELLO"


def test_input_that_a_rule_cuts_off_fails_the_run(harness: RunHarness, swift: FakeSwift) -> None:
    rules = ClosingRules()

    def large(request: Any) -> Any:
        def chunks() -> Iterator[bytes]:
            yield b"first "
            rules.refused.append(RuleRefused("other", "the second segment"))

        headers = {"X-Object-Manifest": "segments/o/"}
        return Response(request=request, app_iter=chunks(), headers=headers)

    swift.put("segments", "o/1", b"first ")
    swift.put("segments", "o/2", b"second")
    swift.hooks["GET", f"/v1/{ACCOUNT}/c/o"] = large
    for plan, steps in ((None, ("up.py",)), (PLAN, TWO)):
        rules.refused.clear()
        answer = harness.call("GET", plan, steps, rules=rules)
        assert (answer.status, answer.error, answer.headers["X-Storlet-Rule"]) == (
            403,
            "access.rule",
            "other",
        )
    harness.assert_idle()


def test_covered_extra_input_is_refused_by_its_rule(harness: RunHarness, swift: FakeSwift) -> None:
    swift.put("c", "closed", b"secret")
    rules = ClosingRules("/c/closed")
    answer = harness.call("GET", None, extra=(ObjectPath("c", "closed"),), rules=rules)
    assert (answer.status, answer.error, answer.headers["X-Storlet-Rule"]) == (
        403,
        "access.rule",
        "other",
    )


def test_grant_for_any_of_the_storlets_opens_the_source_but_overrides_no_rule(
    harness: RunHarness, swift: FakeSwift
) -> None:
    swift.put_storlet("own.py")
    swift.containers["storlet"].read = BOB
    plan = replace(MANDATORY, explicit_count=1)
    assert harness.call("GET", plan, ("up.py", "own.py"), user=BOB).status == 403
    swift.containers["c"].sysmeta |= grants.change_headers((BOB, "own.py"), is_given=True)
    answer = harness.call("GET", plan, ("up.py", "own.py"), user=BOB, rules=ClosingRules())
    assert (answer.status, answer.data) == (200, b"HELLO")
    closed = ClosingRules("/c/o")
    assert harness.call("GET", plan, ("up.py", "own.py"), user=BOB, rules=closed).status == 403
    assert closed.refused
