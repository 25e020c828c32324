"""An author of rules learns nothing, by rules of its own, of objects that it may not see.

Rules compare facts of the object that a link leads to, and of the source of a copy.  Every tenant
can write rules, and make links to all paths of the cluster.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from tests.functional.wards import CONTENT, ETAG, RESEARCHER, RULES, Ward, make_ward, told
from tests.support.accounts import prepare_account, unique
from tests.support.http import Answer, Client

#: Guesses of the facts of the object.
RIGHT = f"{{metadata: {{patient: {{prefix: S}}}}}}, {{size: {{at-least: {len(CONTENT)}}}}}, {{content-type: text/csv}}"
WRONG = "{metadata: {patient: {prefix: T}}}, {size: {at-least: 9M}}, {content-type: text/x-wrong}"


@dataclass(frozen=True)
class Author:
    """A tenant with an account of its own, and the path of an object of the ward."""

    client: Client
    ward: Client
    container: str
    path: str

    @property
    def link(self) -> str:
        return f"{self.container}/link"

    @property
    def source(self) -> dict[str, str]:
        return {"X-Copy-From": self.path, "X-Copy-From-Account": self.ward.account}

    @property
    def destination(self) -> dict[str, str]:
        path = f"{self.container}/copy"
        return {"Destination": path, "Destination-Account": self.client.account}

    def make_link(self) -> None:
        headers = {"X-Symlink-Target": self.path, "X-Symlink-Target-Account": self.ward.account}
        assert self.client.put(self.link, b"", headers).status == 201

    def guess(self, facts: str) -> None:
        when = f"{{container: {self.container}, any: [{facts}]}}"
        text = f"version: 1\nrules:\n- name: guess\n  when: {when}\n  deny: right\n"
        headers = {"X-Storlet-Rules-Accept-Warnings": "true"}
        answer = self.client.put("storlet_rules/rules.yaml", text.encode(), headers)
        assert answer.status == 201, answer.text


EXPIRY = {"X-Delete-After": "9999"}
WAYS: dict[str, Callable[[Author], Answer]] = {
    "get of a link": lambda a: a.client.get(a.link),
    "head of a link": lambda a: a.client.head(a.link),
    "explained": lambda a: a.client.get(a.link, {"X-Storlet-Explain": "true"}),
    "copy of a link": lambda a: a.client.request("COPY", a.link, a.destination),
    "expiry of a link": lambda a: a.client.post(a.link, EXPIRY),
    "copy": lambda a: a.ward.request("COPY", a.path, a.destination),
    "copy from": lambda a: a.client.put(f"{a.container}/copy", b"", a.source),
    "copy with expiry": lambda a: a.client.put(f"{a.container}/copy", b"", a.source | EXPIRY),
    "copy with a storlet": lambda a: a.ward.request(
        "COPY", a.path, a.destination | {"X-Run-Storlet": "mask.py"}
    ),
    "delete of a link": lambda a: a.client.delete(a.link),
}


@pytest.fixture(scope="module")
def ward(users: dict[str, Client]) -> Ward:
    made = make_ward(users)
    made.rule(RULES)
    headers = {"Content-Type": "text/csv", "X-Object-Meta-Patient": "SECRET"}
    for container, acl in (("private", {}), ("read", {"X-Container-Read": RESEARCHER})):
        assert made.admin.put(container, b"", acl).status == 201
        assert made.admin.put(f"{container}/a.csv", CONTENT, headers).status == 201
    assert made.admin.put("read/link", b"", {"X-Symlink-Target": "private/a.csv"}).status == 201
    manifest, query = b'[{"path": "/patients/a.csv"}]', {"multipart-manifest": "put"}
    assert made.admin.put("read/large", manifest, headers, query=query).status == 201
    return made


@pytest.fixture
def author_of(ward: Ward, users: dict[str, Client]) -> Iterator[Callable[[str], Author]]:
    client = users[RESEARCHER]
    prepare_account(client)
    assert client.put("storlet_rules").status in (201, 202)

    def author(path: str) -> Author:
        made = Author(client, client.on(ward.admin.account), unique("c"), path)
        assert client.put(made.container).status == 201
        return made

    yield author
    assert client.delete("storlet_rules/rules.yaml").status in (204, 404)


def answers(author: Author) -> dict[str, tuple[int, str | None, str | None, bool]]:
    found = {}
    # Only the last way deletes it.
    author.make_link()
    for way, ask in WAYS.items():
        answer = ask(author)
        text = told(answer)
        leaks = ("SECRET", ETAG, f"is {len(CONTENT)}", "is 'text/csv'")
        assert not any(each in text for each in leaks), (way, answer)
        is_matched = "guess (line 3) matches" in text
        found[way] = answer.status, answer.headers["X-Storlet-Rule"], answer.error, is_matched
    return found


@pytest.mark.parametrize("path", ["patients/a.csv", "private/a.csv", "read/link", "read/large"])
def test_no_answer_depends_on_facts_that_the_author_may_not_see(
    author_of: Callable[[str], Author], path: str
) -> None:
    """Of a covered object, of one without read permission, of one at the end of a link, and of
    covered segments."""
    author = author_of(path)
    told_of_each = []
    for facts in (RIGHT, WRONG):
        author.guess(facts)
        told_of_each.append(answers(author))
    assert told_of_each[0] == told_of_each[1]


def test_a_manifest_confirms_no_guess_of_an_object_that_the_author_may_not_see(
    author_of: Callable[[str], Author],
) -> None:
    """The author covers itself, and puts a link in place of the segment that it has guessed."""
    author = author_of("private/a.csv")
    client, told_of_each = author.client, []
    rule = f"method: GET, container: {author.container}, object: covered"
    text = f"version: 1\nrules:\n- {{name: own, when: {{{rule}}}, mandatory: true, deny: x}}\n"
    for guess in (CONTENT, b"wrong"):
        assert client.delete("storlet_rules/rules.yaml").status in (204, 404)
        assert client.put(author.link, guess).status == 201
        static = {"X-Symlink-Target": author.link}
        static["X-Symlink-Target-Etag"] = hashlib.md5(guess, usedforsecurity=False).hexdigest()
        assert client.put(f"{author.container}/static", b"", static).status == 201
        manifest = json.dumps([{"path": f"/{author.link}"}]).encode()
        query = {"multipart-manifest": "put"}
        assert client.put(f"{author.container}/large", manifest, query=query).status == 201
        author.make_link()
        assert client.put("storlet_rules/rules.yaml", text.encode()).status == 201
        answers = (
            client.head(f"{author.container}/large"),
            client.get(f"{author.container}/large", query={"multipart-manifest": "get"}),
            client.head(f"{author.container}/static", query={"symlink": "get"}),
        )
        told_of_each.append([answer.status for answer in answers])
    assert told_of_each[0] == told_of_each[1]


def test_rules_compare_facts_that_the_author_may_see(author_of: Callable[[str], Author]) -> None:
    author = author_of("read/a.csv")
    author.make_link()
    author.guess(RIGHT)
    for way in ("get of a link", "copy of a link", "copy", "copy from"):
        answer = WAYS[way](author)
        assert (answer.status, answer.headers["X-Storlet-Rule"]) == (403, "guess"), (way, answer)
    author.guess(WRONG)
    assert author.client.get(author.link).body == CONTENT
    assert WAYS["copy from"](author).status == 201


def version_of(client: Client, path: str) -> str:
    """The id of the oldest version of an object."""
    container, _, name = path.partition("/")
    query = {"versions": "", "format": "json", "prefix": name}
    return str(json.loads(client.get(container, query=query).body)[-1]["version_id"])


@pytest.fixture(scope="module")
def versioned(users: dict[str, Client]) -> Ward:
    """The researcher reads and writes the container, but no version: Swift allows owners only.

    Each test has its own rules there, and changes no version.
    """
    ward = make_ward(users)
    acl = {"X-Container-Read": RESEARCHER, "X-Container-Write": RESEARCHER}
    assert ward.admin.put("versioned", b"", acl | {"X-Versions-Enabled": "true"}).status == 201
    headers = {"Content-Type": "text/csv", "X-Object-Meta-Patient": "SECRET"}
    for content, more in ((CONTENT, headers), (b"new", {})):
        assert ward.admin.put("versioned/v", content, more).status == 201
    assert ward.admin.post("storlet_rules", {"X-Container-Read": RESEARCHER}).status in (202, 204)
    return ward


@pytest.mark.parametrize("action", ["deny: right", "{mandatory: true, run: mask.py}"])
def test_no_answer_depends_on_facts_of_versions_that_swift_does_not_give(
    versioned: Ward, author_of: Callable[[str], Author], action: str
) -> None:
    author, told_of_each = author_of("versioned/v"), []
    researcher = versioned.researcher
    query = {"version-id": version_of(versioned.admin, "versioned/v")}
    assert researcher.get("versioned/v").body == b"new"
    here = {"Destination": "versioned/copy"}
    there = {"Destination": f"{author.container}/copy"}
    there["Destination-Account"] = author.client.account
    ways: tuple[tuple[str, dict[str, str]], ...] = (
        ("GET", {}),
        ("GET", {"X-Storlet-Explain": "true"}),
        ("GET", {"Range": "bytes=0-3"}),
        ("GET", {"If-Match": ETAG}),
        ("GET", {"X-Run-Storlet": "mark.py"}),
        ("HEAD", {}),
        ("HEAD", {"If-None-Match": ETAG}),
        ("DELETE", {}),
        ("POST", {"X-Object-Meta-A": "b"}),
        ("COPY", here),
        ("COPY", here | {"X-Run-Storlet": "mark.py"}),
        ("COPY", there),
        ("COPY", there | {"X-Fresh-Metadata": "true"}),
    )
    fields = action.strip("{}").split(", ")
    for facts in (RIGHT, WRONG):
        author.guess(facts)
        when = f"{{method: [GET, HEAD, COPY, DELETE, POST], any: [{facts}]}}"
        rule = f"version: 1\nrules:\n- name: guess\n  when: {when}\n"
        versioned.rule(rule + "".join(f"  {field}\n" for field in fields), accept=True)
        told_of_each.append([])
        for method, headers in ways:
            answer = researcher.request(method, "versioned/v", headers, query=query)
            seen = {key for key in answer.headers if key.startswith("X-Storlet")}
            told_of_each[-1].append((method, headers, answer.status, answer.error, seen))
    assert told_of_each[0] == told_of_each[1]


def test_rules_about_a_copy_compare_facts_of_all_that_the_caller_may_read(
    versioned: Ward,
) -> None:
    """Large objects and versions, also of callers that a rule covers elsewhere in the account."""
    ward, named = versioned, {"multipart-manifest": "put"}
    manifest = json.dumps([{"path": "/open/a.csv"}]).encode()
    assert ward.admin.put("open/large", manifest, query=named).status == 201
    assert ward.admin.put("versioned/large", manifest, query=named).status == 201
    assert ward.admin.put("versioned/large", b"new").status == 201
    covered = json.dumps([{"path": "/patients/a.csv"}]).encode()
    assert ward.admin.put("open/covered", covered, query=named).status == 201
    text = "version: 1\nrules:\n- name: hide\n  when: {method: GET, container: patients}\n"
    text += "  mandatory: true\n  run: mask.py\n- name: most\n"
    text += "  when: {method: PUT, size: {at-least: %s}}\n  deny: too large\n"
    target = {"Destination": "open/copy"}
    for size, status, rule in (("1M", 201, None), ("1000", 403, "most")):
        ward.rule(text % size, accept=True)
        for user, path in (
            (ward.researcher, "open/large"),
            (ward.researcher, "open/a.csv"),
            (ward.admin, "versioned/large"),
            (ward.admin, "versioned/v"),
        ):
            id_ = version_of(ward.admin, path) if path.startswith("versioned") else ""
            query = {"version-id": id_} if id_ else {}
            answer = user.request("COPY", path, target, query=query)
            assert (answer.status, answer.headers["X-Storlet-Rule"]) == (status, rule), answer
            assert ("may not see" in answer.text) is False, answer
        answer = ward.researcher.request("COPY", "versioned/v", {"Destination": "open/v"})
        assert answer.status == 201, answer
        answer = ward.researcher.request("COPY", "open/covered", target)
        assert (answer.status, "may not see" in answer.text) == (403, True), answer
