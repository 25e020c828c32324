"""Short deadlines and limits of the node and of a trust class: the error code names the one
exceeded, and the next run works.  Limits of storlets and requests are in test_storlet_limits.py."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.functional.test_storlet_limits import at_once
from tests.functional.test_upload_check import CHECKED, put
from tests.support.accounts import unique
from tests.support.cluster import Cluster
from tests.support.http import Client
from tests.support.storlets import Tool, Toolbox, declaration
from tests.support.waiting import retry_until

OPTIONS: dict[str, dict[str, object]] = {
    "storlet.conf:invocation": {
        "first_byte_seconds": 2, "idle_seconds": 2, "total_seconds": 4, "load_seconds": 6,
    },
    "storlet.conf:limits": {"memory_bytes": "192M", "output_bytes": "1M", "log_bytes": "1K"},
    "storlet.conf:class:user": {"metadata_bytes": 256, "storlet_memory_bytes": "128M"},
    "storlet.conf:class:admin": {"storlets": "AUTH_test/trusted.py"},
}  # fmt: skip
CONTENT = b"a small object"


@pytest.fixture(scope="module")
def older(other_owner: Client, toolbox: Toolbox) -> str:
    """A storlet from the time before the limits became small."""
    declared = {"Output": "2M", "Timeout_Total": "30s"}
    status, text, name = upload(other_owner, toolbox, unique("before"), **declared)
    assert status == 201, text
    return name


@pytest.fixture(scope="module")
def small(other_cluster: Cluster, other_owner: Client, older: str) -> Iterator[str]:
    """The path of a small object on a cluster with small limits."""
    with other_cluster.configured(OPTIONS):
        assert other_owner.put("c/small", CONTENT).status == 201
        yield "c/small"


def warm_up(tool: Tool, small: str) -> None:
    """The total deadline includes the start of a sandbox and of a worker, and of replacements for
    killed ones."""
    assert retry_until(lambda: tool.get(small).body == CONTENT, 60)


def test_a_late_first_byte_exceeds_its_deadline(there: Tool, small: str) -> None:
    key = unique("late")
    warm_up(there, small)
    answer = there.get(small, "slow", before="30", count=key)
    assert (answer.status, answer.error) == (422, "storlet.timeout.first_byte"), answer
    warm_up(there, small)
    assert there.count(small, key) == 1


def test_silence_within_the_output_breaks_it(there: Tool, small: str) -> None:
    warm_up(there, small)
    answer = there.get(small, "slow", pieces="2", pause="30")
    assert (answer.status, answer.is_broken, answer.body) == (200, True, b"1:0\n")
    warm_up(there, small)


def test_a_long_run_exceeds_the_total_deadline_of_the_node(there: Tool, small: str) -> None:
    warm_up(there, small)
    answer = there.get(small, "slow", pieces="100", pause="0.5")
    assert (answer.status, answer.is_broken) == (200, True)
    assert answer.body.startswith(b"1:0\n1:1\n")
    assert len(answer.body) < 50


@pytest.mark.usefixtures("small")
def test_an_endless_import_ends_the_check_of_an_upload(other_owner: Client) -> None:
    answer = put(
        other_owner, unique("loop"), "import threading\nthreading.Event().wait()\n", CHECKED
    )
    assert (answer.status, answer.error) == (422, "registration.check")
    assert "loading took longer than 6 seconds" in answer.text


def test_deadlines_apply_to_put_and_copy(there: Tool, small: str) -> None:
    target = f"c/{unique('put')}"
    warm_up(there, small)
    for late in at_once(
        lambda: there.put(target, b"x", "slow", before="30"),
        lambda: there.copy(small, "/" + target, "slow", before="30"),
    ):
        assert (late.status, late.error) == (422, "storlet.timeout.first_byte"), late
    warm_up(there, small)
    stalled = there.put(target, b"x", "slow", pieces="2", pause="30")
    assert (stalled.status, stalled.error) == (422, "storlet.timeout.idle"), stalled
    assert there.client.head(target).status == 404


def test_too_much_output_exceeds_its_limit(there: Tool, small: str) -> None:
    target = f"c/{unique('put')}"
    warm_up(there, small)
    answer = there.get(small, "flood", bytes="3000000")
    assert (answer.status, answer.is_broken) == (
        200,
        True,
    ) or answer.error == "storlet.limit.output", answer
    assert len(answer.body) <= 1024 * 1024
    warm_up(there, small)
    answer = there.put(target, b"x", "flood", bytes="3000000")
    assert (answer.status, answer.error) == (422, "storlet.limit.output"), answer
    assert there.client.head(target).status == 404
    warm_up(there, small)
    assert there.get(small, "flood", bytes="1048576").size == 1024 * 1024


def test_too_much_memory_exceeds_its_limit(there: Tool, small: str) -> None:
    warm_up(there, small)
    answer = there.get(small, "hoard", bytes="400000000")
    assert (answer.status, answer.error) == (422, "storlet.limit.memory"), answer
    # A sandbox whose supervisor was killed for lack of memory is replaced.
    warm_up(there, small)


def test_a_log_ends_at_its_limit(there: Tool, small: str) -> None:
    warm_up(there, small)
    answer = there.get(
        small, "identity", {"X-Storlet-Generate-Log": "True"}, log="w" * 200, times="50"
    )
    assert (answer.status, answer.body) == (200, CONTENT)
    path = f"storletlog/{there.storlet}/{answer.headers['X-Storlet-Invocation']}.log"
    log = retry_until(lambda: (got := there.client.get(path)).status == 200 and got)
    assert "log truncated at 1024 bytes" in log.text
    assert len(log.body) < 1200


@pytest.mark.parametrize("header", ["X-Storlet-Memory", "X-Storlet-Timeout"])
def test_a_request_cannot_raise_a_limit(there: Tool, small: str, header: str) -> None:
    assert there.get(small, headers={header: "1000000"}).status == 400


# --- trust classes


def upload(client: Client, toolbox: Toolbox, stem: str, **declared: str) -> tuple[int, str, str]:
    """Status and text of the upload of a Python Multitool with limits, and its name."""
    name, content, main = toolbox.multitool("python", stem)
    answer = client.put(f"storlet/{name}", content, declaration("python", main, **declared))
    return answer.status, answer.text, name


def test_a_class_has_a_lower_limit_than_the_node(there: Tool, toolbox: Toolbox, small: str) -> None:
    warm_up(there, small)
    answer = there.get(small, set_big="x" * 300)
    assert (answer.status, answer.error) == (422, "storlet.limit.metadata"), answer
    status, text, name = upload(there.client, toolbox, "trusted")
    assert status == 201, text
    trusted = Tool(there.client, name, there.placement)
    warm_up(trusted, small)
    answer = trusted.get(small, set_big="x" * 300)
    assert (answer.status, answer.body, answer.meta("Big")) == (200, CONTENT, "x" * 300), answer


def test_limits_that_a_storlet_may_declare_depend_on_the_class(
    other_owner: Client, toolbox: Toolbox, small: str
) -> None:
    status, text, _ = upload(other_owner, toolbox, unique("plain"), Memory="160M")
    assert (status, "Memory: 160M is more than 128M" in text) == (400, True), text
    status, text, name = upload(other_owner, toolbox, "trusted", Memory="160M")
    assert status == 201, text
    headers = {"X-Run-Storlet": name, "X-Storlet-Limit-Memory": "150M"}
    assert retry_until(lambda: other_owner.get(small, headers).body == CONTENT, 60)
    status, text, _ = upload(other_owner, toolbox, "trusted", Memory="200M")
    assert (status, "Memory: 200M is more than 192M" in text) == (400, True), text


def test_lowering_a_maximum_does_not_break_existing_storlets(
    other_owner: Client, toolbox: Toolbox, small: str, older: str
) -> None:
    for placement in ("object", "proxy"):
        tool = Tool(other_owner, older, placement)
        warm_up(tool, small)
        answer = tool.get(small, "flood", bytes="3000000")
        assert answer.is_broken or answer.error == "storlet.limit.output", answer
        assert len(answer.body) <= 1 << 20
        refused = tool.get(small, headers={"X-Storlet-Limit-Output": "2M"})
        assert (refused.status, "2M is more than 1M" in refused.text) == (400, True), refused
    # Its declaration stays, for the time when the maximum is raised.
    declared = other_owner.head(f"storlet/{older}").headers["X-Object-Meta-Storlet-Output"]
    assert declared == "2M"
    status, text, _ = upload(other_owner, toolbox, unique("after"), Output="2M")
    assert (status, "Output: 2M is more than 1M" in text) == (400, True), text
