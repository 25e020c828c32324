"""``Range`` on a GET for which a rule runs a storlet that declares ranges."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from storlet_daemon.protocol import messages
from tests.unit.middleware.rule_runs import MANDATORY, PLAN, RunHarness
from tests.unit.middleware.support import FakeSwift, WorkerRun

pytestmark = pytest.mark.usefixtures("nothing_is_left_open")
Make = Callable[..., RunHarness]

DATA = bytes(range(100))
SIZE = len(DATA)


@pytest.fixture(autouse=True)
def declared(swift: FakeSwift) -> None:
    """The storlet declares ranges."""
    swift.put_storlet(X_Object_Meta_Storlet_Ranges="true")


def giving(output: bytes, report: str | None = "", *, fails: bool = False) -> Any:
    """A worker that writes ``output`` in pieces.

    :param report: of the range; empty: the right one for ``DATA``.
    """

    def script(worker: WorkerRun) -> None:
        wanted = dict(worker.invoke.parameters)["storlet_range"]
        assert worker.invoke.inputs[0].seekable == messages.SEEK_READS
        first, _, last = wanted.removeprefix("bytes=").partition("-")
        told = f"bytes {first}-{last}/{SIZE}" if report == "" else report
        worker.begin(**({"Storlet-Range": told} if told else {}), Colour="red")
        for start in range(0, len(output), 7):
            worker.write(output[start : start + 7])
        if fails:
            worker.fail()
        else:
            worker.succeed()

    return script


def got(harness: RunHarness, span: str = "bytes=10-40", **more: Any) -> Any:
    given = {"Range": span} if span else {}
    return harness.call("GET", PLAN, headers={**given, **more.pop("headers", {})}, **more)


def test_a_range_of_the_result_is_206(make: Make) -> None:
    answer = got(make(giving(DATA[10:41])))
    assert (answer.status, answer.data, answer.broken) == (206, DATA[10:41], None)
    assert answer.headers["Content-Range"] == f"bytes 10-40/{SIZE}"
    assert answer.headers["Content-Length"] == "31"
    assert answer.headers["X-Object-Meta-Colour"] == "red"
    for name in ("X-Object-Meta-Storlet-Range", "Etag", "Last-Modified"):
        assert name not in answer.headers


@pytest.mark.parametrize(
    ("span", "report"),
    [("bytes=90-", "90-99"), ("bytes=-10", "90-99"), ("bytes=90-5000", "90-99")],
)
def test_the_storlet_reports_the_bytes_of_an_open_range(make: Make, span: str, report: str) -> None:
    answer = got(make(giving(DATA[90:], f"bytes {report}/{SIZE}")), span)
    assert (answer.status, answer.data) == (206, DATA[90:])
    assert answer.headers["Content-Range"] == f"bytes {report}/{SIZE}"


def test_a_result_without_a_byte_in_the_range_is_416_with_its_size(make: Make) -> None:
    answer = got(make(giving(b"", f"bytes */{SIZE}")), "bytes=100-")
    assert (answer.status, answer.error) == (416, "range.unsatisfiable")


def test_a_storlet_that_reports_no_range_gives_all_of_its_output(make: Make) -> None:
    answer = got(make(giving(DATA, None)))
    assert (answer.status, answer.data) == (200, DATA)
    assert "Content-Range" not in answer.headers


@pytest.mark.parametrize(
    "report",
    [
        "bytes 10-41/100",
        "bytes 9-40/100",
        "bytes 10-40/30",
        "bytes */100",
        "bytes 10-40/*",
        "10-40/100",
        "bytes 10-40/100 ",
        "bytes 10-40/" + "9" * 30,
    ],
)
def test_a_report_of_another_range_is_an_error(make: Make, report: str) -> None:
    answer = got(make(giving(DATA[10:41], report)))
    assert (answer.status, answer.error) == (422, "storlet.failed")
    assert DATA[10:41] not in answer.data


@pytest.mark.parametrize("end", [40, 42, 11])
def test_fewer_or_more_bytes_than_reported_never_look_complete(make: Make, end: int) -> None:
    answer = got(make(giving(DATA[10:end])))
    if answer.status == 206:
        assert answer.broken is not None
        assert len(answer.data) < int(answer.headers["Content-Length"])
    else:
        assert (answer.status, answer.error) == (422, "storlet.failed")


def test_a_failure_after_the_last_byte_breaks_the_answer(make: Make) -> None:
    answer = got(make(giving(DATA[10:41], fails=True)))
    if answer.status == 206:
        assert answer.broken is not None
        assert len(answer.data) < int(answer.headers["Content-Length"])
    else:
        assert (answer.status, answer.error) == (422, "storlet.failed")


def whole(worker: WorkerRun) -> None:
    assert "storlet_range" not in dict(worker.invoke.parameters)
    assert worker.invoke.inputs[0].seekable is None
    worker.begin()
    worker.write(worker.read())
    worker.succeed()


@pytest.mark.parametrize(
    "headers",
    [
        {"Range": "bytes=0-1,3-4"},
        {"Range": "bytes=4-3"},
        {"Range": "lines=0-1"},
        {"Range": "bytes=0-1", "If-Range": '"5d41402abc4b2a76b9719d911017c592"'},
        {},
    ],
)
def test_other_ranges_get_all_of_the_result(make: Make, headers: dict[str, str]) -> None:
    answer = make(whole).call("GET", PLAN, headers=headers)
    assert (answer.status, answer.data) == (200, b"hello")


def test_a_storlet_without_the_declaration_gives_all_of_its_output(
    make: Make, swift: FakeSwift
) -> None:
    swift.put_storlet()
    assert got(make(whole)).status == 200


@pytest.mark.parametrize(
    ("plan", "steps"),
    [
        (MANDATORY, ["up.py"]),
        (PLAN, ["up.py", "up.py"]),
        (replace(PLAN, explicit_count=1), ["up.py"]),
        (None, ["up.py"]),
    ],
)
def test_other_runs_get_all_of_the_result(make: Make, plan: Any, steps: list[str]) -> None:
    def script(worker: WorkerRun) -> None:
        whole(worker)

    answer = make(script).call("GET", plan, steps, headers={"Range": "bytes=0-1"})
    assert (answer.status, answer.data) == (200, b"hello")


def test_a_copy_stores_all_of_the_result(make: Make, swift: FakeSwift) -> None:
    assert make(whole).call("COPY", PLAN, headers={"Range": "bytes=0-1"}).status == 201
    assert swift.containers["c"].objects["copy"].body == b"hello"


def test_the_item_is_any_other_one_without_the_declaration(make: Make, swift: FakeSwift) -> None:
    def script(worker: WorkerRun) -> None:
        worker.begin(**{"Storlet-Range": "bytes 0-1/9"})
        worker.write(b"all")
        worker.succeed()

    swift.put_storlet()
    answer = got(make(script))
    assert (answer.status, answer.data) == (200, b"all")


def test_an_object_without_a_size_is_read_as_a_stream(make: Make, swift: FakeSwift) -> None:
    swift.put("c", "o", b"hello").headers["Etag"] = ""
    answer = got(make(whole))
    assert (answer.status, answer.data) == (200, b"hello")


def test_an_object_that_is_replaced_during_the_run_gives_no_byte_of_either(
    make: Make, swift: FakeSwift
) -> None:
    swift.put("c", "o", bytes(200_000))

    def script(worker: WorkerRun) -> None:
        worker.begin(**{"Storlet-Range": f"bytes 10-40/{SIZE}"})
        swift.put("c", "o", b"\1" * 200_000)
        os.write(worker.inputs[0], struct.pack(">QQ", 100_000, 31))
        worker.write(os.read(worker.inputs[0], 31))
        worker.succeed()

    answer = got(make(script))
    assert (answer.status, answer.error) == (503, "input.changed")


def test_conditions_are_of_the_stored_object(make: Make) -> None:
    etag = '"5d41402abc4b2a76b9719d911017c592"'
    assert got(make(giving(DATA[10:41])), headers={"If-Match": etag}).status == 206
    assert got(make(giving(DATA[10:41])), headers={"If-Match": '"other"'}).status == 412
    assert got(make(giving(DATA[10:41])), headers={"If-None-Match": etag}).status == 304
