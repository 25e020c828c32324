"""Storlets of a rule: parameters, placement, limits, and which metadata leaves with the result."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.functional.wards import (
    CONTENT,
    ETAG,
    MASKED,
    RESEARCHER,
    Ward,
    assert_closed,
    make_ward,
    tells_length,
    told,
)
from tests.support.accounts import unique
from tests.support.http import Answer, Client
from tests.support.storlets import SOURCES, declaration

OBJECT = "patients/a.csv"


@pytest.fixture(scope="module")
def ward(users: dict[str, Client]) -> Ward:
    return make_ward(users)


@pytest.fixture
def ruled(ward: Ward) -> Iterator[Callable[..., Ward]]:
    """Put one rule about GET in force, with its action and further fields."""

    def rule(run: str, more: str = "", method: str = "GET", mandatory: bool = True) -> Ward:
        kind = "  mandatory: true\n" if mandatory else ""
        when = f"{{method: {method}, container: patients}}"
        ward.rule(
            f"version: 1\nrules:\n- name: hide\n  when: {when}\n{kind}{more}  run: {run}\n",
            accept=True,
        )
        return ward

    yield rule
    assert ward.admin.delete("storlet_rules/rules.yaml").status in (204, 404)


def shown(answer: Answer) -> dict[str, Any]:
    assert answer.status == 200, answer
    found: dict[str, Any] = json.loads(answer.body)
    return found


# --- parameters -----------------------------------------------------------------------------------

NAME = "grüße, 1:2; a=b & {c} %41 +\"quoted\" 'x' €.csv"
LITERALS = [
    "plain", "two words", "  spaces  ", "a,b,c", "a:b", "a=b;c", "grüße €", "{{braces}}", '"quoted"', "100%", "a+b%20c", "\\n",
    "line\nbreak", "𝄞", "",
]  # fmt: skip


def test_values_of_parameters_are_unchanged(ruled: Callable[..., Ward]) -> None:
    given = {f"p{number}": text for number, text in enumerate(LITERALS)}
    run = json.dumps({"storlet": "show.py", "parameters": given}, ensure_ascii=False)
    params = shown(ruled(run).physician.get(OBJECT))["params"]
    for name, text in given.items():
        assert params[name] == text.replace("{{", "{").replace("}}", "}"), name


TEMPLATES = {
    "o": "{object}", "c": "{container}", "u": "{user}", "p": "{project}", "m": "{method}", "s": "{metadata.study}",
    "all": "for {user}: {container}/{object}, {{not this}}",
}  # fmt: skip


@pytest.mark.parametrize("name", ["a.csv", NAME, "deep/er/ name "])
def test_templates_are_filled_with_facts_of_the_request(
    ruled: Callable[..., Ward], name: str
) -> None:
    run = json.dumps({"storlet": "show.py", "parameters": TEMPLATES}, ensure_ascii=False)
    ward = ruled(run)
    assert (
        ward.admin.put(f"patients/{name}", b"x", {"X-Object-Meta-Study": "7, 8: ü"}).status == 201
    )
    try:
        params = shown(ward.researcher.get(f"patients/{name}"))["params"]
    finally:
        assert ward.admin.put(OBJECT, CONTENT, FIRST).status == 201
    wanted = {"o": name, "c": "patients", "u": RESEARCHER, "p": "test2", "m": "GET", "s": "7, 8: ü"}
    wanted["all"] = f"for {RESEARCHER}: patients/{name}, {{not this}}"
    assert {key: params[key] for key in wanted} == wanted


FIRST = {"Content-Type": "text/csv", "X-Object-Meta-Patient": "SECRET", "X-Object-Meta-Study": "7"}


@pytest.mark.parametrize("mandatory", [True, False])
def test_a_missing_fact_of_a_parameter_is_named_and_the_storlet_does_not_run(
    ruled: Callable[..., Ward], mandatory: bool
) -> None:
    ward = ruled('{storlet: mask.py, parameters: {word: "{metadata.none}"}}', mandatory=mandatory)
    answer = ward.researcher.get(OBJECT)
    assert_closed(answer)
    assert "{metadata.none}" in answer.text
    copied = ward.researcher.request("COPY", OBJECT, {"Destination": "open/copy"})
    if mandatory:
        assert_closed(copied)
        assert ward.admin.head("open/copy").status == 404


def test_missing_facts_are_hidden_from_callers_without_read_permission(
    ruled: Callable[..., Ward],
) -> None:
    ward = ruled('{storlet: mask.py, parameters: {word: "{metadata.none}"}}')
    answer = Client(ward.admin.storage_url, "").get(OBJECT)
    assert (answer.status, answer.headers["X-Storlet-Rule"]) == (401, None), answer
    assert "metadata.none" not in told(answer)


def test_templates_are_filled_for_uploads(ruled: Callable[..., Ward]) -> None:
    ward = ruled(
        '{storlet: show.py, parameters: {s: "{metadata.study}", m: "{method}"}}', method="PUT"
    )
    name = unique("patients/upload")
    assert_closed(ward.researcher.put(name, b"x"))
    assert ward.researcher.put(name, b"x", {"X-Object-Meta-Study": "9"}).status == 201
    params = json.loads(ward.admin.get(name).body)["params"]
    assert (params["s"], params["m"]) == ("9", "PUT")


def test_parameters_of_the_request_are_not_the_rules(ruled: Callable[..., Ward]) -> None:
    """Otherwise a client could disable the rule's storlet."""
    ward = ruled("mask.py")
    for headers in ({}, {"X-Storlet-Parameter-Word": "x"}):
        answer = ward.researcher.get(OBJECT, headers, query={"word": "nothing"})
        assert "SECRET" not in told(answer)
        assert answer.status != 200 or answer.body == MASKED


# --- placement and limits -------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["object", "proxy"])
def test_the_placement_of_a_rule_applies(ruled: Callable[..., Ward], place: str) -> None:
    ward = ruled(f"{{storlet: mask.py, on: {place}}}")
    answer = ward.admin.get(OBJECT)
    assert (answer.status, answer.body, answer.headers["X-Storlet-Ran-On"]) == (
        200,
        MASKED,
        place,
    ), answer
    assert ward.admin.request("COPY", OBJECT, {"Destination": "open/copy"}).headers[
        "X-Storlet-Ran-On"
    ]


@pytest.mark.parametrize("place", ["object", "proxy"])
def test_the_placement_is_hidden_from_covered_callers(
    ruled: Callable[..., Ward], place: str
) -> None:
    """A node runs the storlet on a whole, plain object only.  Larger results of a node have a
    length."""
    ward = ruled(f"{{storlet: mask.py, on: {place}}}")
    assert ward.researcher.get(OBJECT).headers["Content-Length"] is None
    for answer in (
        ward.researcher.get(OBJECT),
        ward.researcher.request("COPY", OBJECT, {"Destination": "open/copy"}),
        ward.researcher.put("open/copy", b"", {"X-Copy-From": OBJECT}),
    ):
        assert (answer.status // 100, answer.headers["X-Storlet-Rule"]) == (2, "hide"), answer
        assert answer.headers["X-Storlet-Ran-On"] is None, answer
    ruled(f"{{storlet: fail.py, on: {place}}}")
    answer = ward.researcher.get(OBJECT)
    assert (answer.status, answer.headers["X-Storlet-Ran-On"]) == (422, None), answer


def test_limits_of_a_rule_apply(ruled: Callable[..., Ward]) -> None:
    ward = ruled("{storlet: mask.py, limits: {output: 1K}}")
    answer = ward.researcher.get(OBJECT)
    assert (answer.status >= 400 or answer.is_broken, answer.headers["X-Storlet-Rule"]) == (
        True,
        "hide",
    ), answer
    if answer.status >= 400:
        assert answer.error == "storlet.limit.output"


def test_runs_within_the_limits_of_a_rule_succeed(ruled: Callable[..., Ward]) -> None:
    ward = ruled("{storlet: mask.py, limits: {output: 64K, memory: 64M, timeout-total: 20s}}")
    assert ward.researcher.get(OBJECT).body == MASKED


@pytest.mark.parametrize(
    ("limits", "word"),
    [
        ("{none: 1}", "None: unknown"),
        ("{memory: much}", "Memory: 'much'"),
        ("{memory: 900T}", "Memory: 900T is more"),
    ],
)
def test_invalid_limits_are_refused_at_upload(ward: Ward, limits: str, word: str) -> None:
    text = f"version: 1\nrules:\n- name: hide\n  when: {{method: GET}}\n  run: {{storlet: mask.py, limits: {limits}}}\n"
    answer = ward.admin.put("storlet_rules/rules.yaml", text.encode())
    assert (answer.status, answer.error) == (400, "rules.invalid"), answer
    assert word in answer.text


def test_limits_that_the_storlet_no_longer_allows_are_named_as_those_of_the_rule(
    ward: Ward, ruled: Callable[..., Ward]
) -> None:
    """The client sent no header that could be wrong."""
    stem = unique("small")
    source = (SOURCES / "multitool.py").read_bytes()

    def upload(memory: str) -> None:
        headers = declaration("python", f"{stem}.Multitool", Memory=memory)
        assert ward.admin.put(f"storlet/{stem}.py", source, headers).status == 201

    upload("128M")
    ruled(f"{{storlet: {stem}.py, limits: {{memory: 128M}}}}")
    upload("64M")
    answer = ward.researcher.get(OBJECT)
    assert (answer.status, answer.error) == (400, "bad_request"), answer
    assert answer.text.startswith("rule hide: limits: Memory: 128M is more than 64M"), answer
    assert answer.headers["X-Storlet-Invocation"], answer


def test_limits_of_the_client_do_not_change_those_of_a_rule(ruled: Callable[..., Ward]) -> None:
    ward = ruled("mask.py")
    answer = ward.researcher.get(OBJECT, {"X-Storlet-Limit-Output": "1K"})
    assert "SECRET" not in told(answer)
    assert answer.status in (200, 400), answer


# --- passed metadata ------------------------------------------------------------------------------

PASS = "  pass: {metadata: [study, x-*], headers: [content-type, last-modified, x-timestamp]}\n"


@pytest.fixture
def passing(ruled: Callable[..., Ward]) -> Ward:
    ward = ruled("mask.py", PASS)
    more = {
        "X-Object-Meta-X-One": "1",
        "X-Object-Meta-Y": "SECRET",
        "Content-Disposition": "inline",
    }
    assert ward.admin.put(OBJECT, CONTENT, FIRST | more).status == 201
    return ward


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_passed_metadata_leaves_and_nothing_else(passing: Ward, method: str) -> None:
    answer = passing.researcher.request(method, OBJECT)
    assert answer.status == 200, answer
    assert (answer.meta("Study"), answer.meta("X-One")) == ("7", "1")
    assert answer.headers["Content-Type"] == "text/csv"
    assert answer.headers["Last-Modified"]
    assert (answer.meta("Patient"), answer.meta("Y"), answer.headers["Content-Disposition"]) == (
        None,
        None,
        None,
    )
    assert "SECRET" not in told(answer)
    assert ETAG not in told(answer)
    assert not tells_length(told(answer)) or method == "GET"


def test_passed_metadata_is_stored_with_a_copy(passing: Ward) -> None:
    assert passing.researcher.request("COPY", OBJECT, {"Destination": "open/copy"}).status == 201
    copied = passing.admin.get("open/copy")
    assert (copied.body, copied.meta("Study"), copied.meta("X-One")) == (MASKED, "7", "1")
    assert copied.headers["Content-Type"] == "text/csv"
    assert "SECRET" not in told(copied)
    assert copied.headers["Content-Disposition"] is None
    assert passing.admin.delete("open/copy").status == 204


def test_the_storlet_sees_the_metadata_that_may_leave(ruled: Callable[..., Ward]) -> None:
    ward = ruled("[mask.py, show.py]", "  pass: {metadata: [study]}\n")
    metadata = shown(ward.researcher.get(OBJECT))["metadata"]
    assert "SECRET" not in str(metadata)


def test_without_pass_an_ordinary_rule_answers_like_a_requested_run(
    ruled: Callable[..., Ward],
) -> None:
    ward = ruled("mask.py", mandatory=False)
    answer = ward.researcher.get(OBJECT)
    asked = ward.researcher.get(OBJECT.replace("patients", "open"), {"X-Run-Storlet": "mask.py"})
    assert (answer.body, answer.meta("Study"), answer.headers["Content-Type"]) == (
        MASKED,
        asked.meta("Study"),
        asked.headers["Content-Type"],
    )


def test_pass_of_an_ordinary_rule_holds_as_well(ruled: Callable[..., Ward]) -> None:
    ward = ruled("mask.py", "  pass: {metadata: [study]}\n", mandatory=False)
    answer = ward.researcher.get(OBJECT)
    assert (answer.body, answer.meta("Study"), answer.meta("Patient")) == (MASKED, "7", None)


@pytest.mark.parametrize(
    "header", ["etag", "content-length", "x-object-sysmeta-a", "x-static-large-object"]
)
def test_metadata_that_never_leaves_cannot_be_passed(ward: Ward, header: str) -> None:
    text = f"version: 1\nrules:\n- name: hide\n  mandatory: true\n  pass: {{headers: [{header}]}}\n  run: mask.py\n"
    answer = ward.admin.put("storlet_rules/rules.yaml", text.encode())
    assert (answer.status, answer.error, header in answer.text) == (400, "rules.invalid", True), (
        answer
    )


# --- explain --------------------------------------------------------------------------------------


def test_explain_names_storlet_placement_and_parameters(ruled: Callable[..., Ward]) -> None:
    run = '{storlet: show.py, on: proxy, parameters: {who: "{user}", what: "{metadata.patient}"}, limits: {memory: 64M}}'
    ward = ruled(run, "  pass: {metadata: [study]}\n")
    headers = {"X-Storlet-Explain": "true"}
    answer = ward.admin.get(OBJECT, headers)
    assert (answer.status, answer.headers["X-Storlet-Invocation"]) == (200, None), answer
    for word in ("mandatory rule hide", "show.py on the proxy", "64M", "metadata study"):
        assert word in answer.text
    assert "SECRET" not in told(answer)
    (as_json,) = json.loads(ward.admin.get(OBJECT, headers | {"Accept": "application/json"}).body)
    assert (as_json["rule"], as_json["steps"][0]["on"]) == ("hide", "proxy")
    assert as_json["steps"][0]["parameters"]["who"] == "admin:admin"
    for client in (ward.researcher, Client(ward.admin.storage_url, "")):
        refused = client.get(OBJECT, headers)
        assert (refused.status in (401, 403), "hide" in told(refused)) == (True, False), refused


def test_explain_stores_and_deletes_nothing(ruled: Callable[..., Ward]) -> None:
    ward = ruled("mask.py")
    for method in ("PUT", "POST", "DELETE"):
        assert (
            ward.admin.request(
                method, "open/a.csv", {"X-Storlet-Explain": "true"}, body=b"new"
            ).status
            == 200
        )
    copied = ward.admin.request(
        "COPY", OBJECT, {"Destination": "open/copy", "X-Storlet-Explain": "true"}
    )
    assert (copied.status, "what is written" in copied.text) == (200, True), copied
    assert ward.admin.get("open/a.csv").body == CONTENT
    assert ward.admin.head("open/copy").status == 404


# --- ranges under an ordinary rule ------------------------


@pytest.mark.parametrize("wanted", ["bytes=0-1", "bytes=-3", "bytes=2-", "bytes=0-1,4-5"])
def test_a_range_of_a_result_is_answered_with_all_of_it(
    ruled: Callable[..., Ward], wanted: str
) -> None:
    answer = ruled("mask.py", mandatory=False).researcher.get(OBJECT, {"Range": wanted})
    assert (answer.status, answer.body) == (200, MASKED)
    assert "Content-Range" not in answer.headers


@pytest.mark.parametrize("method", ["COPY", "PUT"])
def test_a_copy_of_a_range_is_refused_in_the_rules_name(
    ruled: Callable[..., Ward], method: str
) -> None:
    ward = ruled("{storlet: show.py}", method="COPY", mandatory=False)
    headers = {"Range": "bytes=0-1"}
    if method == "COPY":
        answer = ward.admin.request("COPY", OBJECT, {**headers, "Destination": "patients/part"})
    else:
        answer = ward.admin.put("patients/part", b"", {**headers, "X-Copy-From": OBJECT})
    assert (answer.status, answer.error, answer.headers["X-Storlet-Rule"]) == (
        403,
        "access.rule",
        "hide",
    ), answer
    assert ward.admin.head("patients/part").status == 404


def test_storlet_headers_without_x_run_storlet_are_refused_by_name_under_a_rule(
    ruled: Callable[..., Ward],
) -> None:
    answer = ruled("{storlet: show.py}", mandatory=False).researcher.get(
        OBJECT, {"X-Storlet-Range": "bytes=0-1"}
    )
    assert (answer.status, answer.error) == (400, "bad_request"), answer
    assert "X-Storlet-Range" in answer.text


# --- declared content types -----------------------------------------------------------------------


def test_rules_that_undo_one_another_by_declared_types_are_refused(ward: Ward) -> None:
    pack, unpack = unique("pack"), unique("unpack")
    for stem, output in ((pack, "application/gzip"), (unpack, "text/csv")):
        headers = declaration("python", f"{stem}.Multitool", Output_Type=output)
        source = (SOURCES / "multitool.py").read_bytes()
        assert ward.admin.put(f"storlet/{stem}.py", source, headers).status == 201
    when = "when: {{method: PUT, container: patients, content-type: {}}}"
    rules = (
        f"version: 1\nrules:\n- name: pack\n  {when.format('text/csv')}\n  run: {pack}.py\n"
        f"- name: unpack\n  {when.format('application/gzip')}\n  run: {unpack}.py\n"
    )
    before = ward.admin.head("storlet_rules/rules.yaml").status
    answer = ward.admin.put("storlet_rules/rules.yaml", rules.encode())
    assert (answer.status, answer.error) == (400, "rules.invalid"), answer
    assert "[rules.undo-one-another]: rules pack and unpack undo each other" in answer.text
    assert ward.admin.head("storlet_rules/rules.yaml").status == before
