"""Each condition of a rule on a cluster: one request that matches, and one that differs only in
that fact.

All rules are in force at once, which is faster; each also matches on a separate header.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from tests.functional.wards import (
    CONTENT,
    PHYSICIAN,
    RESEARCHER,
    RULES,
    Ward,
    assert_closed,
    make_ward,
)
from tests.support.http import Answer, Client

Request = Callable[[Ward], Answer]
OBJECT = "patients/a.csv"
DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


@pytest.fixture(scope="module")
def ward(users: dict[str, Client]) -> Ward:
    """An account with a further container, which has metadata and another storage policy."""
    made = make_ward(users)
    acl = {
        "X-Container-Read": f".r:*,{RESEARCHER},{PHYSICIAN}",
        "X-Container-Write": f"{RESEARCHER},{PHYSICIAN}",
    }
    cold = {"X-Storage-Policy": "ec21", "X-Container-Meta-Temperature": "cold"}
    assert made.admin.put("cold", b"", acl | cold).status == 201
    assert made.admin.put("cold/a.csv", CONTENT, {"Content-Type": "text/plain"}).status == 201
    assert (
        made.admin.put("open/größe, ein:s.txt", b"short", {"X-Object-Meta-Label": "grün"}).status
        == 201
    )
    conditions = [case[1] for case in CASES] + [
        f"method: GET, {condition}" for _, condition, _ in GIVEN
    ]
    made.rule(
        "version: 1\nrules:\n" + "".join(map(rule, range(len(conditions)), conditions)), accept=True
    )
    return made


def rule(number: int, condition: str) -> str:
    when = f'{{header: {{x-case: "{number}"}}, all: [{{{condition}}}]}}'
    return f"- name: case-{number}\n  when: {when}\n  mandatory: true\n  deny: by the condition\n"


@dataclass
class Cased(Client):
    """A client whose requests match one of the rules."""

    number: int = -1

    def open(
        self, method: str, path: str, headers: Mapping[str, str] | None = None, **more: Any
    ) -> Any:
        return super().open(method, path, {**(headers or {}), "X-Case": str(self.number)}, **more)


def of_case(ward: Ward, number: int) -> Ward:
    clients = (ward.admin, ward.researcher, ward.physician)
    return Ward(
        *(Cased(client.storage_url, client.token, client.user, number) for client in clients)
    )


def get(path: str = OBJECT, who: str = "physician", query: str = "", **headers: str) -> Request:
    sent = {key.replace("_", "-"): value for key, value in headers.items()}
    return lambda ward: getattr(ward, who).get(path, sent, query=query)


def put(path: str, body: bytes = b"x", who: str = "physician", **headers: str) -> Request:
    sent = {key.replace("_", "-"): value for key, value in headers.items()}
    return lambda ward: getattr(ward, who).put(path, body, sent)


def copy(path: str, target: str, **headers: str) -> Request:
    sent = {key.replace("_", "-"): value for key, value in headers.items()} | {
        "Destination": target
    }
    return lambda ward: ward.physician.request("COPY", path, sent)


def chunked(path: str) -> Request:
    return lambda ward: ward.physician.put(path, iter([b"x" * 5000]))


def manifest(path: str) -> Request:
    """Swift decodes the names of parameters."""
    segments = b'[{"path": "/open/a.csv"}]'
    return lambda ward: ward.physician.put(path, segments, query="multipart%2Dmanifest=put")


def anonymous(path: str) -> Request:
    return lambda ward: replace(ward.physician, token="").get(path)


def delete(path: str) -> Request:
    return lambda ward: ward.physician.delete(path)


def post(path: str) -> Request:
    return lambda ward: ward.physician.post(
        path, {"X-Object-Meta-Study": "7", "Content-Type": "text/csv"}
    )


def window(seconds: int) -> str:
    """A UTC window that began ``seconds`` ago and lasts three hours more: created when tests are
    collected."""
    begin, end = time.gmtime(time.time() - seconds), time.gmtime(time.time() + 3 * 3600)
    return f'time: {{from: "{begin.tm_hour:02}:{begin.tm_min:02}", to: "{end.tm_hour:02}:{end.tm_min:02}"}}'


def not_today() -> str:
    """Tests that run at midnight must not fail."""
    today = time.gmtime().tm_wday
    others = [day for number, day in enumerate(DAYS) if (number - today) % 7 not in (0, 1)]
    return f"time: {{days: [{', '.join(others)}]}}"


#: Name, condition, a request for which it holds, one for which it does not.
CASES: list[tuple[str, str, Request, Request]] = [
    ("method", "method: PUT", put("open/new"), get()),
    ("GET means HEAD", "method: GET", lambda w: w.physician.head(OBJECT), put("open/new")),
    ("DELETE", "method: DELETE", delete("open/a.csv"), get()),
    ("POST", "method: POST", post("open/a.csv"), get()),
    ("COPY", "method: COPY, container: patients", copy(OBJECT, "open/copy"), get()),
    ("container", "method: GET, container: patients", get(), get("open/a.csv")),
    ("containers", "method: GET, container: [cold, patients]", get("cold/a.csv"), get("open/a.csv")),
    ("glob of names", "method: GET, object: {glob: '*.[ct]sv'}", get(), get("open/größe, ein:s.txt")),
    ("name in full", "method: GET, object: 'größe, ein:s.txt'", get("open/größe, ein:s.txt"), get()),
    ("prefix and suffix", "method: GET, object: {prefix: a, suffix: .csv}", get(), get("open/größe, ein:s.txt")),
    ("content type", "method: GET, content-type: text/csv", get(), get("cold/a.csv")),
    ("content type of an upload", "method: PUT, content-type: image/png",
     put("open/new", Content_Type="Image/PNG; q=1"), put("open/new", Content_Type="text/plain")),
    ("content type as Swift guesses it", "method: PUT, content-type: image/png", put("open/new.png"), put("open/new")),
    ("content type of a copy as Swift guesses it", "method: PUT, content-type: image/png",
     copy(OBJECT, "open/new.png", X_Detect_Content_Type="true"), copy(OBJECT, "open/new.png")),
    ("size", "method: GET, size: {at-least: 1K}", get(), get("open/größe, ein:s.txt")),
    ("size of an upload", "method: PUT, size: {at-least: 1K}", put("open/new", b"x" * 1024), put("open/new")),
    ("unknown size", "method: PUT, size: {at-most: 1M}", put("open/new"), chunked("open/new")),
    ("no size", "method: PUT, size: {present: false}", chunked("open/new"), put("open/new")),
    ("no size of a manifest", "method: PUT, size: {present: false}", manifest("open/new"), put("open/new")),
    ("metadata", "method: GET, metadata: {study: '7'}", get(), get("cold/a.csv")),
    ("metadata in any language", "method: GET, metadata: {Label: grün}", get("open/größe, ein:s.txt"), get()),
    ("metadata of an upload", "method: PUT, metadata: {study: {present: true}}",
     put("open/new", X_Object_Meta_Study="7"), put("open/new")),
    ("metadata of a copy", "method: PUT, metadata: {study: '8'}",
     copy(OBJECT, "open/new", X_Object_Meta_Study="8"), copy(OBJECT, "open/new")),
    ("metadata that a copy brings along", "method: PUT, metadata: {study: '7'}",
     copy(OBJECT, "open/new"), copy(OBJECT, "open/new", X_Fresh_Metadata="true")),
    ("container metadata", "method: GET, container-metadata: {temperature: cold}", get("cold/a.csv"), get()),
    ("policy", "method: GET, policy: ec21", get("cold/a.csv"), get()),
    ("header", "method: GET, header: {x-purpose: {glob: 'export*'}}", get(X_Purpose="export 1"), get(X_Purpose="view")),
    ("no header", "method: GET, header: {x-purpose: {present: false}}", get(), get(X_Purpose="")),
    ("header in any language", "method: GET, header: {X-Purpose: grün}", get(X_Purpose="grün"), get(X_Purpose="grun")),
    ("query", "method: GET, query: {purpose: export}", get(query="purpose=export"), get(query="purpose=view")),
    ("last of the query", "method: GET, query: {p: b}", get(query="p=a&p=b"), get(query="p=b&p=a")),
    ("empty query", "method: GET, query: {flag: ''}", get(query="flag"), get(query="flag=1")),
    ("user", f"method: GET, user: '{RESEARCHER}'", get(who="researcher"), get()),
    ("project", "method: GET, project: test2", get(who="researcher"), get()),
    ("roles", "method: GET, roles: [test2]", get(who="researcher"), get()),
    ("roles in any case", "method: GET, roles: [TEST2]", get(who="researcher"), get()),
    ("not", f"method: GET, not: {{user: '{PHYSICIAN}'}}", get(who="researcher"), get()),
    ("not of what is missing", f"method: GET, not: {{user: '{PHYSICIAN}'}}", anonymous("cold/a.csv"), get("cold/a.csv")),
    ("anonymous", "method: GET, anonymous: true", anonymous("cold/a.csv"), get("cold/a.csv")),
    ("any", f"method: GET, any: [{{user: '{RESEARCHER}'}}, {{query: {{a: b}}}}]", get(query="a=b"), get(query="a=c")),
    ("all", f"all: [{{method: GET}}, {{user: '{RESEARCHER}'}}]", get(who="researcher"), get()),
]  # fmt: skip


#: Name, condition outside of a client's control, and whether it holds here.  The names contain no
#: time: workers of pytest that collect in different minutes must find the same tests.
GIVEN: list[tuple[str, str, bool]] = [
    ("address", "client-address: 127.0.0.0/8", True),
    ("addresses", "client-address: [192.0.2.0/24, '127.0.0.1']", True),
    ("other address", "client-address: 192.0.2.0/24", False),
    ("not the address", "not: {client-address: 192.0.2.0/24}", True),
    ("time from now", window(0), True),
    ("time from earlier", window(2 * 3600), True),
    ("other days", not_today(), False),
    ("header", "header: {x-forwarded-for: 192.0.2.1}", True),
    ("known user", "anonymous: false", True),
    ("signed", "signed: true", False),
    ("domain", "domain: {present: true}", False),
]


@pytest.mark.parametrize("what", [case[0] for case in CASES])
def test_a_condition_holds_for_its_request_only(ward: Ward, what: str) -> None:
    (number,) = (number for number, case in enumerate(CASES) if case[0] == what)
    _, _, holds, differs = CASES[number]
    there = of_case(ward, number)
    assert_closed(holds(there), f"case-{number}")
    answer = differs(there)
    assert (answer.status // 100, answer.headers["X-Storlet-Rule"]) == (2, None), answer


@pytest.mark.parametrize("number", range(len(GIVEN)), ids=[name for name, _, _ in GIVEN])
def test_conditions_about_facts_outside_the_request(ward: Ward, number: int) -> None:
    rule = len(CASES) + number
    answer = of_case(ward, rule).physician.get(OBJECT, {"X-Forwarded-For": "192.0.2.1"})
    if GIVEN[number][2]:
        assert_closed(answer, f"case-{rule}")
    else:
        assert (answer.status, answer.body) == (200, CONTENT), answer


def test_a_missing_object_has_no_facts_and_an_earlier_allow_decides(
    users: dict[str, Client],
) -> None:
    ward = make_ward(users)
    when = "{method: GET, container: open, not: {metadata: {study: '7'}}}"
    ward.rule(
        f"version: 1\nrules:\n- {{name: closed, when: {when}, mandatory: true, deny: not this}}\n",
        accept=True,
    )
    assert_closed(ward.physician.get("open/none"), "closed")
    assert ward.physician.get("open/a.csv").status == 200
    # The first rule that matches decides.
    allow = (
        f"  - {{name: first, when: {{user: '{RESEARCHER}', container: patients}}, allow: true}}\n"
    )
    ward.rule(
        RULES.replace("rules:\n", f"rules:\n{allow}", 1).replace("hide", "second"), accept=True
    )
    answer = ward.researcher.get(OBJECT)
    assert (answer.status, answer.body, answer.headers["X-Storlet-Rule"]) == (200, CONTENT, None), (
        answer
    )
