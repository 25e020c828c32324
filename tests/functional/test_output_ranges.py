"""``Range`` on objects that a rule restores on read: the answers are those of the plain object.

Swift's own answer for an object with the plain bytes is the model: status, ``Content-Range`` and
body are compared with it.
"""

from __future__ import annotations

import json
import random

import pytest
from backports import zstd
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.functional.test_library_storlets import set_secret
from tests.functional.wards import PHYSICIAN, Ward, make_ward
from tests.support.accounts import unique
from tests.support.http import Answer, Client

MIB = 1 << 20
_CHANCE = random.Random(4)  # noqa: S311  the same each time
#: Data that become half as long, in four frames of zstd and 49 chunks of an encrypted object.
PLAIN = b"".join(_CHANCE.randbytes(MIB // 16) * 2 for _ in range(24)) + b"the end"
WORDS = random.Random(5).choices([b"alpha ", b"beta ", b"gamma\n"], k=20_000)  # noqa: S311
SMALL = b"".join(WORDS)
RULES = """\
version: 1
rules:
- name: pack
  when: {{method: PUT, container: patients}}
  run:
    storlet: "std:compress"
    parameters: {{format: zstd, policy: {policy}, seek-table: "true"}}
  and-reverse-on-read:
    run: {{storlet: "std:decompress", parameters: {{accept-plain: "true"}}{on}}}
    when: {{user: "{user}"}}
- name: seal
  when: {{method: PUT, container: open, object: {{prefix: sealed}}}}
  run: {{storlet: "std:encrypt", parameters: {{key: ward-key}}}}
  and-reverse-on-read:
    run: {{storlet: "std:decrypt", parameters: {{key: ward-key}}}}
    when: {{user: "{user}"}}
- name: read
  when: {{method: GET, container: open, object: {{prefix: old}}, user: "{user}"}}
  run: {{storlet: "std:decompress", parameters: {{accept-plain: "true"}}{on}}}
"""
SPANS = [
    "0-0", "0-9", "1048570-1048585", "1048576-1048576", "-1", "-20", "3145727-", "3145720-9999999",
    "0-", "-9999999", "2000000-2999999",
]  # fmt: skip
OUTSIDE = ["3145735-", "99999999-", "99999999-999999999", "-0"]


def furnished(ward: Ward, on: str = "", policy: str = "auto") -> Ward:
    set_secret(ward.admin, "ward-key", bytes(range(32)))
    for name, data in {"open/plain": PLAIN, "open/small": SMALL}.items():
        assert ward.admin.put(name, data).status == 201
    ward.rule(RULES.format(user=PHYSICIAN, on=on, policy=policy))
    for name, data in {
        "patients/packed": PLAIN, "open/sealed": PLAIN, "patients/small": SMALL,
    }.items():  # fmt: skip
        assert ward.physician.put(name, data).status == 201
    assert ward.admin.get("patients/packed").meta("Compression") == "zstd"
    return ward


@pytest.fixture(scope="module", params=["object", "proxy", "ec"])
def place(request: pytest.FixtureRequest, users: dict[str, Client]) -> tuple[str, Ward]:
    """Where a storlet without secrets runs, and the account."""
    ward = make_ward(users, "ec21" if request.param == "ec" else "")
    on = "" if request.param == "ec" else f", on: {request.param}"
    return ("object" if request.param == "object" else "proxy"), furnished(ward, on)


@pytest.fixture(scope="module")
def ward(users: dict[str, Client]) -> Ward:
    return furnished(make_ward(users))


def told(answer: Answer) -> tuple[int, str | None, bool, bytes]:
    """The parts of an answer that are compared with Swift's."""
    body = b"" if answer.status == 416 else answer.body
    return answer.status, answer.headers.get("Content-Range"), answer.is_broken, body


#: Swift's answers for the plain objects, by the object and the range.
_models: dict[tuple[str, str], tuple[int, str | None, bool, bytes]] = {}


def spans_of(ward: Ward, path: str, span: str, model: str = "open/plain") -> Answer:
    """The answer to a range, which is Swift's for the plain object."""
    headers = {"Range": f"bytes={span}"}
    answer = ward.physician.get(path, headers)
    # Each account has the same plain objects.
    if (model, span) not in _models:
        _models[model, span] = told(ward.admin.get(model, headers))
    assert told(answer) == _models[model, span], (span, answer)
    if answer.status == 206:
        assert answer.headers["Content-Length"] == str(len(answer.body))
        assert "Etag" not in answer.headers
    return answer


def bytes_in(answer: Answer) -> int:
    return int(dict(each.split("=") for each in answer.headers["X-Storlet-Usage"].split(";"))["in"])


@pytest.mark.parametrize("path", ["patients/packed", "open/sealed"])
def test_a_range_is_that_of_the_plain_object(place: tuple[str, Ward], path: str) -> None:
    where, ward = place
    for span in SPANS:
        answer = spans_of(ward, path, span)
        assert answer.status == 206
        expected = "proxy" if path == "open/sealed" else where
        assert answer.headers["X-Storlet-Ran-On"] == expected
        assert answer.headers["X-Storlet-Rule"] == ("seal" if "sealed" in path else "pack")
        assert answer.meta("Storlet-Range") is None
    for span in OUTSIDE:
        answer = spans_of(ward, path, span)
        assert (answer.status, answer.error) == (416, "range.unsatisfiable")
    whole = ward.physician.get(path)
    assert (whole.status, whole.is_broken, whole.body) == (200, False, PLAIN)


@pytest.mark.parametrize("path", ["patients/small"])
def test_random_ranges_are_those_of_the_plain_object(ward: Ward, path: str) -> None:
    number = st.integers(0, len(SMALL) + 50).map(str)
    spans = st.one_of(
        st.tuples(number, number), st.tuples(number, st.just("")), st.tuples(st.just(""), number)
    )

    @settings(deadline=None, max_examples=40, suppress_health_check=list(HealthCheck))
    @given(span=spans.map("-".join))
    def check(span: str) -> None:
        spans_of(ward, path, span, "open/small")

    check()


def test_only_the_frames_of_the_range_are_read(place: tuple[str, Ward]) -> None:
    _, ward = place
    size = int(ward.admin.head("patients/packed").headers["Content-Length"])
    answer = spans_of(ward, "patients/packed", "1200000-1201023")
    # A frame, the last one, the table, and the first bytes, which show the format.
    # At the proxy server also bytes that were read ahead.
    assert size / 4 < bytes_in(answer) < size * 0.9


@pytest.mark.parametrize(
    "headers",
    [
        {"Range": "bytes=0-9,20-29"},
        {"Range": "bytes=9-0"},
        {"Range": "pages=0-9"},
        {"Range": "bytes=0-9", "If-Range": '"a"'},
        {"Range": "bytes=0-9", "If-Range": "Sat, 01 Jan 2050 00:00:00 GMT"},
    ],
)
def test_other_ranges_are_answered_with_all_of_the_plain_object(
    ward: Ward, headers: dict[str, str]
) -> None:
    answer = ward.physician.get("patients/small", headers)
    assert (answer.status, answer.body) == (200, SMALL), answer
    assert "Content-Range" not in answer.headers


def test_the_etag_of_the_stored_object_is_no_validator_of_the_plain_one(ward: Ward) -> None:
    etag = ward.admin.head("patients/small").headers["Etag"]
    headers = {"Range": "bytes=0-9", "If-Range": f'"{etag}"'}
    assert ward.physician.get("patients/small", headers).status == 200
    # A condition is one of the stored object, with or without a range.
    for condition, status in ({"If-Match": etag}, 206), ({"If-None-Match": etag}, 304):
        answer = ward.physician.get("patients/small", {"Range": "bytes=0-9", **condition})
        assert answer.status == status, answer
    answer = ward.physician.get("patients/small", {"Range": "bytes=0-9", "If-Match": '"a"'})
    assert answer.status == 412


def test_a_caller_without_the_reverse_gets_ranges_of_the_stored_object(ward: Ward) -> None:
    stored = ward.researcher.get("patients/small")
    assert stored.meta("Compression") == "zstd"
    answer = ward.researcher.get("patients/small", {"Range": "bytes=3-20"})
    assert (answer.status, answer.body) == (206, stored.body[3:21])
    assert answer.headers["Content-Range"] == f"bytes 3-20/{len(stored.body)}"


def test_a_head_is_of_the_stored_object(ward: Ward) -> None:
    stored = ward.researcher.get("patients/small")
    answer = ward.physician.head("patients/small", {"Range": "bytes=0-9"})
    assert answer.headers["Etag"] == stored.headers["Etag"]
    assert answer.meta("Compression") == "zstd"
    length = ward.physician.head("patients/small").headers["Content-Length"]
    assert length == str(len(stored.body))


def test_a_range_is_not_copied(ward: Ward) -> None:
    headers = {"Destination": "patients/copy", "Range": "bytes=0-9"}
    answer = ward.physician.request("COPY", "patients/small", headers)
    assert (answer.status, answer.error) == (403, "access.rule")
    assert ward.admin.get("patients/copy").status == 404


def test_an_object_that_stays_as_it_is_has_ranges(ward: Ward) -> None:
    noise = random.Random(6).randbytes(100_000)  # noqa: S311
    assert ward.physician.put("patients/noise", noise).status == 201
    assert ward.admin.get("patients/noise").meta("Compression") == "none"
    answer = ward.physician.get("patients/noise", {"Range": "bytes=-10"})
    assert (answer.status, answer.body) == (206, noise[-10:])
    assert answer.headers["Content-Range"] == "bytes 99990-99999/100000"


def test_an_empty_object_has_no_range(ward: Ward) -> None:
    assert ward.physician.put("patients/empty", b"").status == 201
    answer = ward.physician.get("patients/empty", {"Range": "bytes=0-9"})
    assert (answer.status, answer.headers["Content-Range"]) == (416, "bytes */0")


def test_formats_without_a_table_are_answered_as_a_whole(ward: Ward) -> None:
    assert ward.admin.put("open/old.zst", zstd.compress(SMALL)).status == 201
    answer = ward.physician.get("open/old.zst", {"Range": "bytes=0-9"})
    assert (answer.status, answer.body) == (200, SMALL)


@pytest.fixture
def packed(ward: Ward) -> bytes:
    """The stored form of ``PLAIN``."""
    stored = ward.researcher.get("patients/packed")
    assert stored.meta("Compression") == "zstd"
    return stored.body


def test_a_large_object_of_compressed_segments_has_ranges(ward: Ward, packed: bytes) -> None:
    cuts = [packed[: MIB // 3], packed[MIB // 3 :]]
    manifest = []
    for number, data in enumerate(cuts):
        assert ward.admin.put(f"open/segment-{number}", data).status == 201
        manifest.append({"path": f"/open/segment-{number}"})
    body, query = json.dumps(manifest).encode(), {"multipart-manifest": "put"}
    assert ward.admin.put("open/old-slo", body, query=query).status == 201
    headers = {"X-Object-Manifest": "open/segment-"}
    assert ward.admin.put("open/old-dlo", b"", headers).status == 201
    for path in ("open/old-slo", "open/old-dlo"):
        for span in SPANS[:6]:
            assert spans_of(ward, path, span).headers["X-Storlet-Ran-On"] == "proxy"
    answer = ward.physician.get("open/old-slo", {"Range": "bytes=0-9"}, query="part-number=1")
    assert answer.status != 206


@pytest.mark.parametrize("change", [1, -1])
def test_a_table_that_lies_never_gives_other_bytes(ward: Ward, packed: bytes, change: int) -> None:
    count, at = 4, len(packed) - 9
    for frame in range(count):
        place = at - 8 * (count - frame) + 4
        changed = bytearray(packed)
        size = int.from_bytes(changed[place : place + 4], "little") + change
        changed[place : place + 4] = size.to_bytes(4, "little")
        name = unique("open/old-lie")
        assert ward.admin.put(name, bytes(changed)).status == 201
        answer = ward.physician.get(name, {"Range": "bytes=1048576-2097151"})
        if answer.status == 200:
            assert answer.body == PLAIN
        else:
            assert (answer.status, answer.error) == (422, "storlet.failed"), answer


def test_a_mandatory_rule_about_the_read_refuses_ranges(ward: Ward) -> None:
    rules = RULES.format(user=PHYSICIAN, on="", policy="auto")
    closed = rules.replace("- name: read\n", "- name: read\n  mandatory: true\n")
    ward.rule(closed, accept=True)
    try:
        assert ward.admin.put("open/old-closed", SMALL).status == 201
        answer = ward.physician.get("open/old-closed", {"Range": f"bytes={len(SMALL)}-"})
        assert (answer.status, answer.error) == (403, "access.rule")
        assert "Content-Range" not in answer.headers
        assert str(len(SMALL)) not in f"{answer.headers}{answer.text}"
    finally:
        ward.rule(rules)


def test_a_range_and_a_storlet_of_the_client_are_refused_together(ward: Ward) -> None:
    headers = {"Range": "bytes=0-9", "X-Run-Storlet": "std:nop"}
    answer = ward.physician.get("patients/small", headers)
    assert (answer.status, answer.error) == (400, "bad_request"), answer


def test_a_restored_object_has_no_range_after_its_rule_is_removed(ward: Ward) -> None:
    ward.rule("version: 1\nrules: []\n")
    try:
        stored = ward.physician.get("patients/small", {"Range": "bytes=0-3"})
        assert (stored.status, stored.body) == (206, b"\x28\xb5\x2f\xfd")
    finally:
        ward.rule(RULES.format(user=PHYSICIAN, on="", policy="auto"))
