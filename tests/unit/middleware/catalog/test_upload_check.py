"""Checks at upload: the wish for one, and the outcome of loading the code."""

from __future__ import annotations

import io
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from swift.common.swob import Response

from storlet_daemon.protocol import messages
from storlet_middleware import names
from storlet_middleware.bundle import manifest
from storlet_middleware.catalog import upload_check
from storlet_middleware.engine.storlet_version import CodeFile
from storlet_middleware.errors import SandboxUnavailable, StorletError, TenantBusy, Unprocessable
from tests.support.bundles import tool
from tests.unit.middleware.support import ACCOUNT, FakeSwift, Node, Proxy, WorkerRun

PATH = "storlet/tool.storlet"
CHECKED = {names.CHECK: "true"}


def fails_to_load(run: WorkerRun) -> None:
    run.fail("ImportError: no", code=messages.LOAD, traceback="Traceback: line 1")


def put(proxy: Proxy, headers: dict[str, str], version: str = "one", **more: Any) -> Any:
    return proxy.call("PUT", PATH, headers, body=tool("tool", version), **more)


def with_default(swift: FakeSwift, value: str) -> None:
    def account(request: Any) -> Any:
        headers = {"X-Account-Meta-Storlet-Enabled": "true", names.ACCOUNT_CHECK: value}
        return Response(status=204, request=request, headers=headers)

    swift.hooks["HEAD", f"/v1/{ACCOUNT}"] = account


@pytest.mark.parametrize(
    ("default", "header", "is_checked"),
    [
        ("", None, False),
        ("true", None, True),
        ("TRUE", None, True),
        ("false", None, False),
        ("older than the filter", None, False),
        ("", "true", True),
        ("", " True ", True),
        ("true", "false", False),
    ],
)
def test_the_header_replaces_the_default_of_the_account(
    proxy: Proxy, swift: FakeSwift, node: Node, default: str, header: str | None, is_checked: bool
) -> None:
    with_default(swift, default)
    assert put(proxy, {} if header is None else {names.CHECK: header}).status == 201
    node.workers.settle()
    assert len(node.workers.runs) == is_checked


@pytest.mark.parametrize("value", ["", "yes", "1", "truth"])
def test_unknown_value_is_refused(proxy: Proxy, swift: FakeSwift, value: str) -> None:
    answer = put(proxy, {names.CHECK: value})
    assert (answer.status, answer.error) == (400, "bad_request")
    assert b"want true or false" in answer.data
    assert not swift.requests("PUT")


def test_further_unknown_header_is_refused(proxy: Proxy) -> None:
    answer = put(proxy, {**CHECKED, "X-Storlet-Chek": "true"})
    assert (answer.status, answer.error) == (400, "bad_request")
    assert b"X-Storlet-Chek: unknown header" in answer.data


@pytest.mark.parametrize(
    ("value", "status"), [("true", 204), ("False", 204), ("", 204), ("maybe", 400)]
)
def test_default_of_an_account_is_verified(
    proxy: Proxy, swift: FakeSwift, value: str, status: int
) -> None:
    assert proxy.call("POST", "", {names.ACCOUNT_CHECK: value}).status == status
    assert len(swift.requests("POST")) == (status == 204)


@pytest.mark.parametrize("method", ["PUT", "POST"])
def test_code_that_does_not_load_stays_out_of_service(
    proxy: Proxy, swift: FakeSwift, node: Node, method: str
) -> None:
    put(proxy, {})
    put(proxy, {}, "two")
    before = {name: each.body for name, each in swift.containers["storlet"].objects.items()}
    node.workers.script = fails_to_load
    query = "?storlet-version=1" if method == "POST" else ""
    body = {"body": tool("tool", "three")} if method == "PUT" else {}
    answer = proxy.call(method, PATH + query, CHECKED, **body)
    assert (answer.status, answer.error) == (422, "registration.check")
    assert b"storlet.load: ImportError: no; nothing was changed" in answer.data
    assert b"Traceback: line 1" in answer.data
    after = {name: each.body for name, each in swift.containers["storlet"].objects.items()}
    assert after == before


def test_traceback_is_for_owners_only(proxy: Proxy, swift: FakeSwift, node: Node) -> None:
    swift.containers["storlet"].write = "other:user"
    node.workers.script = fails_to_load
    answer = put(proxy, CHECKED, user="other:user")
    assert (answer.status, answer.error) == (422, "registration.check")
    assert b"ImportError" not in answer.data
    assert b"Traceback" not in answer.data


def test_check_cancels_the_run_that_it_starts(make_proxy: Callable[..., Proxy], node: Node) -> None:
    cancelled = []

    def endless(run: WorkerRun) -> None:
        run.send(messages.Started())
        cancelled.append(run.wait_for_cancel())

    proxy = make_proxy(endless)
    assert put(proxy, CHECKED).status == 201
    node.workers.settle()
    assert cancelled == [True]


def test_check_that_could_not_run_is_no_verdict(proxy: Proxy, swift: FakeSwift, node: Node) -> None:
    refused = messages.NodeRefused("sandbox.unavailable", "no image")
    node.answer = lambda _request: refused
    answer = put(proxy, CHECKED)
    assert (answer.status, answer.error) == (503, "sandbox.unavailable")
    assert "tool.storlet" not in swift.containers["storlet"].objects


def test_check_counts_as_a_run_of_the_account(make_proxy: Callable[..., Proxy]) -> None:
    """Each check returns its place, which is the only one here."""
    proxy = make_proxy(invocation__max_inflight_per_tenant="1")
    for version in ("one", "two", "three"):
        assert put(proxy, CHECKED, version).status == 201


@pytest.mark.parametrize(
    ("error", "is_verdict"),
    [
        (Unprocessable("raised", code="storlet.load"), True),
        (Unprocessable("memory", code="storlet.limit.memory"), True),
        (TenantBusy("busy"), False),
        (SandboxUnavailable("down"), False),
    ],
)
def test_only_failures_of_the_tenants_part_are_a_verdict(
    error: StorletError, is_verdict: bool
) -> None:
    answer = upload_check.refusal(error, is_owner=True)
    assert (answer.code == "registration.check") is is_verdict
    assert (answer is error) is not is_verdict


def test_packed_code_is_one_file_of_the_version() -> None:
    own = CodeFile("storlet", "a.py", "etag", "", 3, 0o444)
    lib = CodeFile("dependency", "lib.py", "etag", "", 3, 0o444)

    class Others:
        def fetch(self, account: str, file: CodeFile) -> Any:
            yield f"{account}/{file.name}".encode()

    packed = io.BytesIO(b"own")
    packed.seek(2)
    code = upload_check.PackedCode(own, packed, Others())
    assert b"".join(code.fetch("a", own)) == b"own"
    assert b"".join(code.fetch("a", own)) == b"own"
    assert b"".join(code.fetch("a", lib)) == b"a/lib.py"


# --- test cases -----------------------------------------------------------------------------------


def with_cases(*cases: dict[str, Any], **fields: Any) -> bytes:
    """A bundle with cases of the input ``apple``; the fake worker answers ``APPLE``."""
    rows = [{"name": "fruit", "input": "in", "output": "out", **case} for case in cases]
    contents = {"in": b"apple", "out": b"APPLE"}
    files = {name: contents[name] for name in manifest.files_at_upload({"tests": rows})}
    return tool("tool", tests=rows, test_files=files, **fields)


def check(proxy: Proxy, packed: bytes, **more: Any) -> Any:
    return proxy.call("PUT", PATH, CHECKED, body=packed, **more)


def test_cases_run_one_after_the_other(proxy: Proxy, node: Node) -> None:
    parameters = {"word": {"type": "string", "default": "a"}}
    packed = with_cases({}, {"name": "second", "parameters": {"word": "b"}}, parameters=parameters)
    assert check(proxy, packed).status == 201
    node.workers.settle()
    _, first, second = node.workers.runs
    assert [each.invoke.parameters["word"] for each in (first, second)] == ["a", "b"]


def test_a_case_has_its_own_secrets_only(proxy: Proxy, node: Node) -> None:
    packed = with_cases({"secrets": {"key": "of a test"}}, {"name": "second"}, secrets=["key"])
    assert check(proxy, packed).status == 201
    node.workers.settle()
    _, first, second = node.workers.runs
    assert first.invoke.secret_values == {"key": b"of a test"}
    assert second.invoke.secret_values == {}


def test_inputs_are_written_once_and_the_storlet_can_only_read_them(
    make_proxy: Callable[..., Proxy],
) -> None:
    """Else 100 cases of 30 inputs each would fill the server's disk, or keep it from its work."""
    seen = []

    def script(run: WorkerRun) -> None:
        for fd in run.inputs:
            with pytest.raises(OSError, match="Bad file descriptor"):
                os.write(fd, b"x")
            seen.append((os.fstat(fd).st_ino, os.read(fd, 100)))
        run.begin()
        run.write(b"APPLE")
        run.succeed()

    proxy = make_proxy(script)
    twice = {"input": ["in", "in"]}
    assert check(proxy, with_cases(twice, twice, inputs={"min": 2})).status == 201
    files = [number for number, content in seen if content == b"apple"]
    assert len(files) == 4
    assert len(set(files)) == 1


def test_each_output_of_a_case_is_compared(make_proxy: Callable[..., Proxy]) -> None:
    def script(run: WorkerRun) -> None:
        run.begin()
        for number in range(1, len(run.outs)):
            run.begin_further(number)
        if len(run.outs) > 1:
            run.write(b"apple", 1)
        run.write(b"APPLE")
        run.succeed()

    proxy = make_proxy(script)
    both = {"output": ["out", "in"]}
    # The last output is not compared.
    assert check(proxy, with_cases(both, outputs={"count": 3})).status == 201
    assert check(proxy, with_cases(both, {"name": "one"}, outputs={"max": 2})).status == 201
    answer = check(proxy, with_cases({"output": ["out", "out"]}, outputs={"count": 2}))
    assert (answer.status, answer.error) == (422, "registration.check")
    assert (
        b"the output differs from out at byte 0, line 1: want 'APPLE', got 'apple'" in answer.data
    )


def test_case_that_fails_keeps_the_old_version(proxy: Proxy, swift: FakeSwift, node: Node) -> None:
    assert check(proxy, with_cases({})).status == 201
    before = {name: each.body for name, each in swift.containers["storlet"].objects.items()}
    wrong = {"name": "wrong", "output": "in"}
    answer = check(proxy, with_cases({}, wrong, {"name": "later"}))
    assert (answer.status, answer.error) == (422, "registration.check")
    assert b"test case 'wrong' failed: the output differs from in at byte 0" in answer.data
    assert b"nothing was changed" in answer.data
    after = {name: each.body for name, each in swift.containers["storlet"].objects.items()}
    assert after == before
    node.workers.settle()
    assert len(node.workers.runs) == 2 + 3  # none of the case behind the failed one


def test_rollback_runs_the_cases(proxy: Proxy, swift: FakeSwift) -> None:
    wrong = with_cases({"output": "in"})
    assert proxy.call("PUT", PATH, body=wrong).status == 201
    answer = proxy.call("POST", PATH + "?storlet-version=1", CHECKED)
    assert (answer.status, answer.error) == (422, "registration.check")
    assert b"test case 'fruit'" in answer.data


def test_difference_is_for_owners_only(proxy: Proxy, swift: FakeSwift) -> None:
    swift.containers["storlet"].write = "other:user"
    answer = check(proxy, with_cases({"output": "in"}), user="other:user")
    assert (answer.status, answer.error) == (422, "registration.check")
    assert b"test case 'fruit'; nothing was changed" in answer.data
    assert b"APPLE" not in answer.data


@pytest.mark.parametrize(
    ("case", "status"),
    [
        ({"error": "storlet.failed"}, 201),
        ({"error": "storlet.limit.memory"}, 422),
        ({"error": "bad_request", "parameters": {"other": "a"}}, 201),
        ({"parameters": {"other": "a"}}, 422),
        ({"input": ["in", "in"], "error": "bad_request"}, 201),
    ],
)
def test_expected_errors_of_storlet_and_request(
    make_proxy: Callable[..., Proxy], case: dict[str, Any], status: int
) -> None:
    proxy = make_proxy(lambda run: (run.begin(), run.fail()))
    packed = with_cases(case, parameters={"word": {"type": "string"}})
    assert check(proxy, packed).status == status


def test_metadata_is_compared(make_proxy: Callable[..., Proxy]) -> None:
    def script(run: WorkerRun) -> None:
        run.begin(colour="red")
        run.write(b"APPLE")
        run.succeed()

    proxy = make_proxy(script)
    assert check(proxy, with_cases({"metadata": {"colour": "red"}})).status == 201
    answer = check(proxy, with_cases({"metadata": {"colour": "green"}}))
    assert b"metadata colour: want 'green', got 'red'" in answer.data


def test_cases_have_one_deadline_together(make_proxy: Callable[..., Proxy]) -> None:
    def endless(run: WorkerRun) -> None:
        run.begin()
        run.wait_for_cancel(10)

    proxy = make_proxy(endless, storlet__check_seconds="1")
    answer = check(proxy, with_cases({}, {"name": "second"}))
    assert (answer.status, answer.error) == (422, "registration.check")
    assert b"took longer than 1 s: number 1 of 2, 'fruit'" in answer.data


def test_endless_output_ends_at_the_deadline(make_proxy: Callable[..., Proxy]) -> None:
    def flood(run: WorkerRun) -> None:
        run.begin()
        while True:
            run.write(bytes(65536))

    proxy = make_proxy(flood, storlet__check_seconds="1")
    began = time.monotonic()
    assert b"took longer than 1 s" in check(proxy, with_cases({})).data
    # Not only after the time that a storlet has to be loaded, too.
    assert time.monotonic() - began < 30


def test_case_that_could_not_run_is_no_verdict(proxy: Proxy, swift: FakeSwift, node: Node) -> None:
    def answer(request: messages.Message) -> messages.Message:
        if len(node.workers.runs) > 0:
            return messages.NodeRefused("sandbox.unavailable", "stopped")
        return node._answer(request)

    def gone(run: WorkerRun) -> None:
        Path(node.workers.path).unlink()  # first: the case connects as soon as the code is loaded
        run.send(messages.Started())

    node.answer, node.workers.script = answer, gone
    found = check(proxy, with_cases({}))
    assert (found.status, found.error) == (503, "sandbox.unavailable")
    assert "tool.storlet" not in swift.containers["storlet"].objects


def test_bundle_from_before_test_cases_says_so(proxy: Proxy) -> None:
    packed = tool("tool", tests=[{"name": "fruit", "input": "in"}])
    answer = check(proxy, packed)
    assert (answer.status, answer.error) == (422, "registration.check")
    assert b"build it again with storlet build" in answer.data
    assert put(proxy, {names.CHECK: "false"}).status == 201
