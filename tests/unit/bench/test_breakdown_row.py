"""Stages add up to the client's wait, and every probe names an existing function."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import eventlet
import pytest

from tests.bench import probed_server, stages
from tests.bench.figures import Figure
from tests.bench.storlets.probe import Probe as ProbeStorlet

COURSE: stages.Course = (("a", "one"), ("b", "two"), ("c", "one"), (stages.WHOLE, stages.REST))


def stamps(**micros: int) -> dict[str, int]:
    named = {"sent": stages.SENT, "whole": stages.WHOLE}
    return {named.get(name, name): 10**18 + value * 1000 for name, value in micros.items()}


def test_time_between_two_probes_belongs_to_one_stage_and_stages_add_up() -> None:
    found = stages.lengths(COURSE, stamps(sent=0, a=3, b=10, c=11, whole=15))
    assert found == {"one": 4.0, "two": 7.0, stages.REST: 4.0}


def test_concurrent_time_is_counted_once() -> None:
    found = stages.lengths(COURSE, stamps(sent=0, a=10, b=5, c=12, whole=15))
    assert found == {"one": 12.0, "two": 0.0, stages.REST: 3.0}


def test_a_request_without_a_stamp_is_no_sample() -> None:
    with pytest.raises(stages.NotPassed, match="b"):
        stages.lengths(COURSE, stamps(sent=0, a=10, c=12, whole=15))


def test_the_middle_half_is_chosen_by_the_whole_and_keeps_its_order() -> None:
    requests = [{"one": float(value), "two": 1.0} for value in (9, 4, 1, 3, 100, 5, 2, 0)]
    assert [one["one"] for one in stages.usual(requests)] == [4.0, 3.0, 5.0, 2.0]
    assert stages.usual([{"one": 1.0}]) == [{"one": 1.0}]


def test_figures_of_stages_add_up_to_the_figure_of_the_whole() -> None:
    requests = [{"one": 1.0, "two": 9.0}, {"one": 5.0, "two": 2.0}, {"one": 1.0, "two": 1.5}]
    figures = [
        Figure(key, key, "us", [one[key] for one in requests], quantile=None)
        for key in ("one", "two")
    ]
    whole = Figure("whole", "whole", "us", [sum(one.values()) for one in requests], quantile=None)
    assert sum(one.value().at for one in figures) == pytest.approx(whole.value().at)
    assert Figure.from_json(whole.to_json()) == whole


EDGES = {f"{edge}.{end}" for edge in probed_server.EDGES.values() for end in ("in", "out", "given")}
PROBES = {
    name
    for some in probed_server.PROBES.values()
    for one in some
    for name in (one.before, one.after)
    if name
}


@pytest.mark.parametrize("course", stages.COURSES.values(), ids=stages.COURSES)
def test_a_course_passes_existing_probes_and_ends_with_the_response(
    course: stages.Course,
) -> None:
    passed = [probe for probe, _ in course]
    assert set(passed) <= EDGES | PROBES | {*stages.STORLET, stages.WHOLE}
    assert len(set(passed)) == len(passed)
    assert passed[-1] == stages.WHOLE
    assert {stage for _, stage in course} <= set(stages.STAGES)


def test_every_probe_is_used() -> None:
    begins = {f"{edge}.got" for edge in probed_server.EDGES.values()}
    assert PROBES - begins <= {probe for course in stages.COURSES.values() for probe, _ in course}


def test_every_stage_is_part_of_a_course_and_has_a_colour_of_its_own() -> None:
    assert {stage for course in stages.COURSES.values() for _, stage in course} == set(
        stages.STAGES
    )
    assert len({stage.colour for stage in stages.STAGES.values()}) == len(stages.STAGES)


@pytest.mark.parametrize(
    "probe",
    [probe for some in probed_server.PROBES.values() for probe in some],
    ids=lambda probe: probe.attribute,
)
def test_every_probe_wraps_an_existing_function(probe: probed_server.Probe) -> None:
    owner, name = probed_server.definition_of(probe)
    assert callable(getattr(owner, name))


class Wrapped:
    """A class with a function that a probe wraps."""

    def double(self, number: int) -> int:
        if number < 0:
            raise ValueError(number)
        return 2 * number


def test_probes_are_inserted_and_removed_without_leftovers() -> None:
    before = Wrapped.double
    recorder = probed_server.Recorder("node")
    switch = probed_server.Switch(
        recorder, [probed_server.Probe(__name__, "Wrapped.double", "in", "out")]
    )
    switch.on()
    switch.on()
    recorder.stamp("node.got")
    assert Wrapped().double(4) == 8
    with pytest.raises(ValueError, match="-1"):
        Wrapped().double(-1)
    recorder.keep("tx1")
    switch.off()
    assert Wrapped.double is before
    assert recorder.take()["tx1"][::2] == ["node.got", "in", "out", "in", "out"]
    assert recorder.take() == {}


def test_a_probe_of_a_missing_function_is_an_error() -> None:
    with pytest.raises(AttributeError, match="treble"):
        probed_server.definition_of(probed_server.Probe(__name__, "Wrapped.treble", "in"))


def asked(app: Callable[..., Any], query: str = "", path: str = "/v1") -> bytes:
    environ = {"PATH_INFO": path, "QUERY_STRING": query, "HTTP_X_TRANS_ID": "tx1"}
    return b"".join(app(environ, start))


def start(status: str, headers: list[tuple[str, str]]) -> None:
    assert status == "200 OK"
    assert headers


def answering(_: dict[str, Any], __: Callable[..., Any]) -> Iterator[bytes]:
    yield from (b"an", b"swer")


def test_an_edge_notes_a_request_by_its_id_until_its_answer_has_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(
        probed_server.PROBES,
        "swift-object-server",
        (probed_server.Probe(__name__, "Wrapped.double", "in"),),
    )
    edge = probed_server.Edge(answering, "swift-object-server")
    assert asked(edge) == b"answer"
    assert json.loads(asked(edge, "take", "/probes")) == {}
    asked(edge, "on", "/probes")
    assert asked(edge) == b"answer"
    asked(edge, "off", "/probes")
    assert asked(edge) == b"answer"
    assert json.loads(asked(edge, "take", "/probes"))["tx1"][::2] == [
        "node.in",
        "node.out",
        "node.given",
    ]


def nothing() -> None:
    pass


def test_calls_are_counted_in_every_green_thread_by_file_until_the_end() -> None:
    counter = probed_server.CallCounter()
    counter.begin()
    nothing()
    other = eventlet.spawn(nothing)
    other.wait()
    calls = counter.end()
    nothing()
    own = calls[__file__]
    assert own == 2
    assert not [file for file in calls if "/eventlet/hubs/" in file]
    assert sys.getprofile() is None
    counter.begin()
    nothing()
    assert counter.end()[__file__] == 1


def test_an_edge_counts_the_calls_between_two_requests() -> None:
    edge = probed_server.Edge(answering, "swift-object-server")
    asked(edge, "count", "/probes")
    asked(edge)
    counted = json.loads(asked(edge, "counted", "/probes"))
    assert counted[__file__] >= 2
    assert json.loads(asked(edge, "counted", "/probes")) == {}


class Source:
    """One input of a storlet."""

    def __init__(self) -> None:
        self._left = [b"1 KiB"]

    def get_metadata(self) -> dict[str, str]:
        return {"own": "kept"}

    def readinto(self, buffer: bytearray) -> int:
        data = self._left.pop() if self._left else b""
        buffer[: len(data)] = data
        return len(data)


class Target:
    """The output of a storlet."""

    def __init__(self) -> None:
        self.metadata: dict[str, str] = {}
        self.data = b""

    def set_metadata(self, metadata: dict[str, str]) -> None:
        self.metadata = metadata

    def write(self, data: bytes) -> None:
        self.data += bytes(data)


def test_a_run_of_the_storlet_reports_the_times_of_the_previous_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ProbeStorlet, "before", "")
    said = []
    for _ in range(2):
        target = Target()
        ProbeStorlet(None)([Source()], [target], {})
        assert (target.data, target.metadata["own"]) == (b"1 KiB", "kept")
        said.append(stages.StorletTimes.read(target.metadata["probe"]))
    ended = stages.ended(said)
    assert list(ended) == [said[0].began]
    times = list(ended[said[0].began].values())
    assert list(ended[said[0].began]) == list(stages.STORLET)
    assert times == sorted(times)
    assert times[0] == said[0].began
