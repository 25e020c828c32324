"""The parameters of a request for records."""

from __future__ import annotations

from typing import Any

import pytest

from storlet_middleware.errors import BadRequest
from storlet_middleware.records.query import JSON, LINES, Marker, Query, parse
from tests.unit.middleware.records.made import NOON, record

KEY = "20261123T190000.000000Z-0123456789ab"


def fault_of(accept: str = "", **given: str) -> str:
    with pytest.raises(BadRequest) as caught:
        parse({"storlet-runs": "", **given}, accept)
    return str(caught.value)


def test_a_query_without_parameters_requests_the_newest() -> None:
    assert parse({"storlet-runs": ""}, "*/*") == Query(limit=100, media_type=JSON)


def test_each_parameter_is_read() -> None:
    given = {
        "storlet": "up.py", "outcome": "failed", "since": "2026-11-23T19:00:00Z", "limit": "7",
        "until": "1795460401.5", "marker": KEY + ".12",
    }  # fmt: skip
    marker = Marker(f".runs/{KEY}.jsonl", 12)
    assert marker.text == given["marker"]
    assert parse(given, "") == Query("up.py", "failed", NOON, NOON + 1.5, 7, marker)


@pytest.mark.parametrize(
    "value", ["2026-11-23T19:00:00", "2026-11-23T20:00:00+01:00", "20261123T190000Z", "1795460400"]
)
def test_times_have_several_forms_and_are_utc_without_a_zone(value: str) -> None:
    assert parse({"since": value}, "").since == NOON


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"sinec": "1"}, "unknown parameter 'sinec'; did you mean since?"),
        ({"prefix": "x"}, "unknown parameter 'prefix'"),
        ({"lines": ""}, "lines: only supported with follow"),
        ({"lines": "", "follow": "", "outcome": "ok"}, "a running storlet has no outcome"),
        ({"limit": "0"}, "limit: '0': want a number from 1 to 1000"),
        ({"limit": "1001"}, "limit: '1001'"),
        ({"limit": "-1"}, "limit: '-1'"),
        ({"since": "yesterday"}, "since: 'yesterday': want a time such as"),
        ({"until": "9" * 12}, "until: '999999999999'"),
        ({"until": "0001-01-01"}, "until: '0001-01-01'"),
        ({"marker": "x"}, "marker: 'x': want the X-Storlet-Runs-Next of an earlier answer"),
        ({"marker": KEY + "."}, "marker: "),
        ({"outcome": "fail"}, "outcome: 'fail': want ok, failed, refused, cancelled or an error"),
        ({"outcome": "storlet.fail"}, "did you mean storlet.failed?"),
        ({"storlet-runs": "jsno"}, "storlet-runs: 'jsno': want json or jsonl; did you mean json?"),
        ({"format": "xml"}, "format: 'xml'"),
        ({"id": "tx1", "limit": "3"}, "limit: not supported with id: leave it out"),
    ],
)
def test_a_fault_is_named(given: dict[str, str], text: str) -> None:
    assert text in fault_of(**given)


def test_all_faults_are_reported_at_once() -> None:
    assert fault_of(limit="x", since="x", until="x", outcome="x", marker="x", y="x").count(";") == 5


@pytest.mark.parametrize(
    ("given", "accept", "media_type"),
    [
        ({}, "", JSON),
        ({}, "text/plain, application/x-ndjson;q=0.5", LINES),
        ({"storlet-runs": "jsonl"}, "", LINES),
        ({"storlet-runs": "json"}, "application/jsonl", JSON),
        # listing_formats sets the format of each request.
        ({"storlet-runs": "jsonl", "format": "json"}, "", LINES),
        ({"storlet-runs": "", "format": "json"}, "application/jsonl", LINES),
        ({"format": "jsonl"}, "", LINES),
    ],
)
def test_the_format_is_the_parameters_or_the_accepted_one(
    given: dict[str, str], accept: str, media_type: str
) -> None:
    assert parse(given, accept).media_type == media_type


@pytest.mark.parametrize(
    ("query", "matches"),
    [
        (Query(), True),
        (Query(storlet="up.py"), True),
        (Query(storlet="up"), False),
        (Query(outcome="failed"), True),
        (Query(outcome="storlet.failed"), True),
        (Query(outcome="ok"), False),
        (Query(since=NOON), True),
        (Query(since=NOON + 0.1), False),
        (Query(until=NOON), False),
        (Query(until=NOON + 0.1), True),
    ],
)
def test_a_record_matches_by_what_the_caller_sees(query: Query, matches: bool) -> None:
    view: dict[str, Any] = record(code="storlet.failed").mapping()
    assert query.matches(view) is matches
    if query.storlet:
        del view["storlets"]
        assert not query.matches(view)


@pytest.mark.parametrize(
    ("asked", "name", "matches"),
    [
        ("fruit", "fruit", True),
        ("fruit", "fruit@2", True),
        ("fruit@2", "fruit", True),
        ("fruit@2", "fruit@2", True),
        ("fruit@1", "fruit", False),
        ("fruit@1", "fruit@2", False),
        ("fruit@", "fruit", False),
    ],
)
def test_a_name_is_all_versions_and_a_number_is_one(asked: str, name: str, matches: bool) -> None:
    view = {**record().mapping(), "storlets": [{"name": name, "version": 2}]}
    assert Query(storlet=asked).matches(view) is matches


def test_a_plain_storlet_may_have_the_sign_in_its_name() -> None:
    view = {**record().mapping(), "storlets": [{"name": "up@home.py"}]}
    assert Query(storlet="up@home.py").matches(view)
    assert not Query(storlet="up").matches(view)


@pytest.mark.parametrize(
    ("asked", "row", "matches"),
    [
        ("", {"storlet": "fruit"}, True),
        ("fruit", {"storlet": "fruit@2"}, True),
        ("fruit", {"storlet": "grape"}, False),
        ("fruit", {"skipped_bytes": 9}, True),
    ],
)
def test_log_lines_match_as_records_do(asked: str, row: dict[str, Any], matches: bool) -> None:
    assert Query(storlet=asked).matches_lines(row) is matches
