"""The resolution of a run's storlets, and the checks against what their versions declare."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from swift.common.swob import Response

from storlet_daemon.protocol import messages
from storlet_middleware.proxy.permissions import MOST_DESCRIPTORS
from tests.support.bundles import tool
from tests.unit.middleware.rule_runs import MANDATORY, PLAN, RunHarness
from tests.unit.middleware.support import ACCOUNT, RUN, FakeSwift, Node, Proxy, WorkerRun

pytestmark = pytest.mark.usefixtures("nothing_is_left_open")
Make = Callable[..., Proxy]
CODE = f"/v1/{ACCOUNT}/storlet/up.py"


def test_missing_storlet_of_a_rule_is_not_reported_as_404(harness: RunHarness) -> None:
    answer = harness.call("GET", MANDATORY, ("none.py",))
    assert (answer.status, answer.error, answer.headers["X-Storlet-Rule"]) == (
        422,
        "storlet.not_found",
        "R",
    )


def test_a_limit_above_that_of_the_storlet_is_refused(proxy: Proxy, swift: FakeSwift) -> None:
    swift.put_storlet(X_Object_Meta_Storlet_Output="8")
    assert proxy.call("GET", "c/o", {**RUN, "X-Storlet-Limit-Output": "8"}).status == 200
    answer = proxy.call("GET", "c/o", {**RUN, "X-Storlet-Limit-Output": "9"})
    assert (answer.status, answer.error) == (400, "bad_request")
    assert b"X-Storlet-Limit-Output" in answer.data


def test_parameters_of_a_bundle_are_checked_and_its_defaults_reach_the_storlet(
    proxy: Proxy, node: Node
) -> None:
    parameters = {"width": {"type": "integer", "default": 5, "max": 9}}
    data = tool("tool", parameters=parameters)
    assert proxy.call("PUT", "storlet/tool.storlet", body=data).status == 201
    for query, given in (("", "5"), ("?width=7", "7"), ("?temp_url_sig=x&width=8", "8")):
        answer = proxy.call("GET", f"c/o{query}", {"X-Run-Storlet": "tool"})
        assert answer.status == 200, answer.data
        assert node.workers.runs[-1].invoke.parameters["width"] == given
    answer = proxy.call("GET", "c/o?width=10&hgt=1", {"X-Run-Storlet": "tool"})
    assert (answer.status, answer.error) == (400, "bad_request")
    assert "'width': '10': more than 9" in answer.data.decode()
    assert "'hgt': unknown" in answer.data.decode()


@pytest.mark.parametrize(
    ("declared", "headers", "fault"),
    [
        ({}, {}, ""),
        ({}, {"X-Storlet-Range": "bytes=0-1,3-4"}, "number of inputs: 2: storlet tool takes 1;"),
        ({"min": 2, "max": 3}, {"X-Storlet-Range": "bytes=0-1,3-4"}, ""),
        ({"min": 2, "max": 3}, {}, "number of inputs: 1: storlet tool takes 2 to 3;"),
        ({"min": 1, "max": 2}, {"X-Storlet-Extra-Resources": "/c/o"}, ""),
        (
            {"min": 1, "max": 2},
            {"X-Storlet-Extra-Resources": "/c/o, /c/o"},
            "takes 1 to 2; X-Storlet-Range has 0, X-Storlet-Extra-Resources 2",
        ),
    ],
)
def test_a_bundle_gets_the_number_of_inputs_that_it_declares(
    proxy: Proxy, declared: dict[str, int], headers: dict[str, str], fault: str
) -> None:
    assert (
        proxy.call("PUT", "storlet/tool.storlet", body=tool("tool", inputs=declared)).status == 201
    )
    answer = proxy.call("GET", "c/o", {"X-Run-Storlet": "tool", **headers})
    assert answer.status == (400 if fault else 200), answer.data
    assert fault in answer.data.decode()


@pytest.mark.parametrize(
    ("declared", "outputs", "fault"),
    [
        ({}, "", ""),
        ({}, "/c/one", "number of outputs: 2: storlet tool makes 1; X-Storlet-Output has 1"),
        ({"count": 2}, "/c/one", ""),
        ({"count": 2}, "", "number of outputs: 1: storlet tool makes 2; X-Storlet-Output has 0"),
        ({"max": 2}, "/c/one, /c/two", "number of outputs: 3: storlet tool makes 1 to 2;"),
        ({"max": 3}, "/c/one, /c/two", ""),
    ],
)
def test_a_bundle_has_the_number_of_outputs_that_it_declares(
    make_proxy: Make, declared: dict[str, int], outputs: str, fault: str
) -> None:
    def script(run: WorkerRun) -> None:
        run.begin()
        for number in range(1, len(run.outs)):
            run.begin_further(number)
        run.succeed()

    proxy = make_proxy(script)
    data = tool("tool", outputs=declared)
    assert proxy.call("PUT", "storlet/tool.storlet", body=data).status == 201
    headers = {"X-Run-Storlet": "tool"} | ({"X-Storlet-Output": outputs} if outputs else {})
    answer = proxy.call("GET", "c/o", headers)
    assert answer.status == (400 if fault else 200), answer.data
    assert fault in answer.data.decode()


def test_the_name_of_a_bundles_object_is_answered_with_its_own_name(proxy: Proxy) -> None:
    answer = proxy.call("GET", "c/o", {"X-Run-Storlet": "tool.storlet"})
    assert (answer.status, answer.error) == (404, "storlet.not_found")
    assert "X-Run-Storlet: tool" in answer.data.decode()


@pytest.mark.parametrize(
    ("request_", "headers", "fault"),
    [
        ("PUT c/new", {}, "the body of an upload cannot seek"),
        ("GET c/o", {"X-Storlet-Range": "bytes=0-1"}, "leave out X-Storlet-Range"),
        ("GET c/o?multipart-manifest=get", {}, "leave out the query multipart-manifest"),
        ("GET c/o?part-number=1", {}, "leave out the query part-number"),
    ],
)
def test_inputs_in_which_a_storlet_cannot_seek_are_refused(
    make_proxy: Make, swift: FakeSwift, node: Node, request_: str, headers: dict[str, str], fault: str
) -> None:  # fmt: skip
    swift.put_storlet(X_Object_Meta_Storlet_Input="seekable")
    method, _, path = request_.partition(" ")
    body = b"x" if method == "PUT" else b""
    answer = make_proxy().call(method, path, {**RUN, **headers}, body=body)
    assert (answer.status, answer.error) == (400, "bad_request")
    assert f"the storlet has seekable inputs: {fault}" in answer.data.decode()
    assert node.workers.runs == []


def test_the_output_of_a_storlet_is_no_seekable_input(
    harness: RunHarness, swift: FakeSwift, node: Node
) -> None:
    swift.put_storlet("seek.py", X_Object_Meta_Storlet_Input="seekable")
    answer = harness.call("GET", PLAN, ("up.py", "seek.py"))
    assert (answer.status, answer.error) == (400, "bad_request")
    assert "rule R: the storlet has seekable inputs: the output of" in answer.data.decode()
    assert node.workers.runs == []


def test_another_version_than_the_required_one_is_refused(proxy: Proxy, node: Node) -> None:
    answer = proxy.call("GET", "c/o", {**RUN, "X-Storlet-If-Version": "0" * 64})
    assert (answer.status, answer.error) == (412, "precondition.failed")
    assert node.workers.runs == []


def replace_before_fetch(swift: FakeSwift, **facts: str) -> None:
    """Another version, with ``facts``, replaces the storlet before its code is read."""

    def fetched(request: Any) -> Any:
        swift.put_storlet(body=b"class Up: new = 1", **facts)
        del swift.hooks["GET", CODE]
        return Response(status=412, request=request)

    swift.hooks["GET", CODE] = fetched


@pytest.mark.parametrize(("before", "after"), [("", "read"), ("read", ""), ("read", "read, list")])
def test_a_version_that_replaces_another_has_its_own_services(
    proxy: Proxy, swift: FakeSwift, node: Node, before: str, after: str
) -> None:
    swift.put_storlet(X_Object_Meta_Storlet_Services=before)
    replace_before_fetch(swift, X_Object_Meta_Storlet_Services=after)
    answer = proxy.call("GET", "c/o", {**RUN, "X-Storlet-Run-On-Proxy": ""})
    assert (answer.status, answer.data) == (200, b"HELLO")
    services = node.workers.runs[-1].invoke.services
    assert ", ".join(services.operations if services else ()) == after


def test_the_descriptors_of_a_version_that_replaces_another_are_counted(
    make_proxy: Make, swift: FakeSwift, node: Node
) -> None:
    proxy = make_proxy(limits__inputs=str(MOST_DESCRIPTORS))
    replace_before_fetch(swift, X_Object_Meta_Storlet_Services="read")
    extra = ", ".join(["/c/o"] * (MOST_DESCRIPTORS - 1))
    answer = proxy.call("GET", "c/o", {**RUN, "X-Storlet-Extra-Resources": extra})
    assert (answer.status, answer.error) == (400, "bad_request")
    assert node.workers.runs == []


def test_a_version_that_replaces_another_has_no_defaults_of_it(
    proxy: Proxy, swift: FakeSwift, node: Node
) -> None:
    code = f"/v1/{ACCOUNT}/storlet/tool.storlet"
    parameters = {"width": {"type": "integer", "default": 5}}
    assert proxy.call("PUT", "storlet/tool.storlet", body=tool("tool", parameters=parameters))

    def fetched(request: Any) -> Any:
        del swift.hooks["GET", code]
        assert proxy.call("PUT", "storlet/tool.storlet", body=tool("tool")).status == 201
        return Response(status=412, request=request)

    swift.hooks["GET", code] = fetched
    answer = proxy.call("GET", "c/o", {"X-Run-Storlet": "tool", "X-Storlet-Run-On-Proxy": ""})
    assert (answer.status, answer.data) == (200, b"HELLO")
    assert "width" not in node.workers.runs[-1].invoke.parameters


def test_the_limits_of_a_version_that_replaces_another_are_checked(
    proxy: Proxy, swift: FakeSwift, node: Node
) -> None:
    replace_before_fetch(swift, X_Object_Meta_Storlet_Output="8")
    answer = proxy.call("GET", "c/o", {**RUN, "X-Storlet-Limit-Output": "9"})
    assert (answer.status, answer.error) == (400, "bad_request")
    assert node.workers.runs == []


def test_a_version_that_replaces_another_has_its_own_deadlines_and_limits(
    make_proxy: Make, swift: FakeSwift
) -> None:
    logs: list[int] = []
    codes: list[str] = []

    def script(run: WorkerRun) -> None:
        assert run.invoke.log is not None
        logs.append(run.invoke.log.limit)
        for _ in range(2):
            answer, _ = run.ask(messages.StatObject, "/c/o")
            codes.append(getattr(answer, "code", "ok"))
        run.begin()
        assert run.wait_for_cancel()

    own = {
        "X_Object_Meta_Storlet_Timeout_First_Byte": "0.3",
        "X_Object_Meta_Storlet_Log": "512",
        "X_Object_Meta_Storlet_Service_Operations": "1",
    }
    services = {"X_Object_Meta_Storlet_Services": "read"}
    swift.put_storlet(**services)
    replace_before_fetch(swift, **services, **own)
    headers = {**RUN, "X-Storlet-Run-On-Proxy": "", "X-Storlet-Generate-Log": "true"}
    answer = make_proxy(script).call("GET", "c/o", headers)
    assert (answer.status, answer.error) == (422, "storlet.timeout.first_byte")
    assert b"within 0.3 s" in answer.data
    assert logs == [512]
    assert codes == ["ok", "storlet.limit.services"]
