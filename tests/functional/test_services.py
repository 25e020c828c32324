"""Services of a running storlet: the store, in the caller's name, and no more."""

from __future__ import annotations

import hashlib
import http.client
import itertools
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest

from tests.functional.test_objects import KINDS, WHOLE, object_of
from tests.functional.test_signed_urls import KEY, signature
from tests.functional.wards import (
    CONTENT,
    ETAG,
    MASKED,
    RESEARCHER,
    RULES,
    Ward,
    assert_reveals_nothing,
    make_ward,
)
from tests.support import native
from tests.support.accounts import delete_large_objects, unique
from tests.support.http import Answer, Client
from tests.support.storlets import SOURCES, Toolbox, declaration, usage
from tests.support.waiting import wait_for

#: Far fewer than a second of a flood has.
FLOOD_OPERATIONS = 10
ASKER = "asker.py"
CHANGER = "changer.py"
SOURCE = (SOURCES / ASKER).read_bytes()
SUFFIXES = {"python": ".py", "java": "-1.0.jar", "native": ".so"}
#: The store does not know the language of a storlet.  So a test with both has each kind of object
#: once, and each language for some kinds.
LANGUAGE_AND_KIND = list(zip(itertools.cycle(SUFFIXES), KINDS, strict=False))
SAME_LANGUAGE = [(language, language) for language in SUFFIXES]


def md5(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


@dataclass
class Author(Client):
    """The owner of a storlet in one of the languages, which uses its services."""

    storlet: str = ASKER

    @classmethod
    def of(cls, owner: Client, language: str, stem: str) -> Author:
        return cls(owner.storage_url, owner.token, owner.user, stem + SUFFIXES[language])


def authors_of(owner: Client, toolbox: Toolbox, stem: str, services: str) -> dict[str, Author]:
    """The owner, whose account gets the storlet in each language."""
    found = {language: Author.of(owner, language, stem) for language in SUFFIXES}
    for author in found.values():
        jar = toolbox.java.jar("asking")
        assert upload(author, services, author.storlet, jar).status == 201
    return found


def upload(
    client: Client, services: str = "read, list", name: str = ASKER, jar: bytes = b"", **more: str
) -> Answer:
    """Upload the storlet, with the services that it declares; ``jar`` is that of the Java one."""
    stem, _, suffix = name.rpartition(".")
    if suffix == "py":
        headers = declaration("python", f"{stem}.Asker", Services=services, **more)
        return client.put(f"storlet/{name}", SOURCE, headers)
    if suffix == "jar":
        headers = declaration("java", "asking.Asker", Services=services, **more)
        return client.put(f"storlet/{name}", jar, headers)
    library = native.jansson()
    assert library.upload(client).status == 201
    headers = declaration("native", f"{name}:asker", [library.name], Services=services, **more)
    return client.put(f"storlet/{name}", native.asker(), headers)


def ask(
    client: Client, path: str, *asked: list[Any], storlet: str = ASKER, **headers: str
) -> Answer:
    """Run ``storlet``, or the one of an author."""
    storlet = client.storlet if isinstance(client, Author) else storlet
    parameter = f"ask:{json.dumps(asked)}"
    given = {key.replace("_", "-"): value for key, value in headers.items()}
    given |= {"X-Run-Storlet": storlet, "X-Storlet-Parameter-1": parameter}
    return client.get(path, given)


def outcomes(answer: Answer) -> list[Any]:
    assert (answer.status, answer.is_broken) == (200, False), answer
    found: list[Any] = json.loads(answer.body)
    return found


@pytest.fixture(scope="module")
def jar(toolbox: Toolbox) -> bytes:
    """The storlet in Java."""
    return toolbox.java.jar("asking")


@pytest.fixture(scope="module", params=SUFFIXES)
def asker(request: pytest.FixtureRequest, owner: Client, jar: bytes) -> Author:
    """The owner, whose account has the storlet in each language."""
    author = Author.of(owner, request.param, "asker")
    assert upload(author, name=author.storlet, jar=jar).status == 201
    return author


@pytest.fixture(scope="module", params=KINDS)
def path(request: pytest.FixtureRequest, owner: Client) -> Iterator[str]:
    """An object of each kind that reads as ``WHOLE``."""
    with object_of(owner, request.param, "asked") as made:
        yield made


# --- what it gives --------------------------------------------------------------------------------


@pytest.mark.parametrize(("asker", "path"), LANGUAGE_AND_KIND, indirect=True)
def test_an_object_of_any_kind_is_read_whole_in_parts_and_in_pieces(
    asker: Author, plain: str, path: str
) -> None:
    places = [[0, 7], [70_003, 11], [5, 3], [-9, 9], [-9, 99], [len(WHOLE), 5]]
    answer = ask(
        asker, plain, ["open", f"/{path}"], ["open", f"/{path}", [10, 19]], ["seek", f"/{path}", places],
        ["stat", f"/{path}"],
    )  # fmt: skip
    whole, part, pieces, stat = outcomes(answer)
    assert whole[:3] == ["ok", md5(WHOLE), len(WHOLE)]
    assert part[:3] == ["ok", md5(WHOLE[10:20]), 10]
    text = WHOLE.decode("latin-1")
    expected = [text[:7], text[70_003:70_014], text[5:8], text[-9:], text[-9:], ""]
    assert pieces == ["ok", *expected]
    kind = path.rpartition("/")[2]
    facts = stat[1]
    assert (facts["size"], facts["etag"]) == (len(WHOLE), whole[3])
    assert facts["metadata"]["Kind"] == kind
    assert answer.headers["X-Storlet-Ran-On"] == "proxy"


def test_usage_counts_operations_and_bytes(asker: Author, plain: str, content: bytes) -> None:
    asked = json.dumps([["open", f"/{plain}"], ["stat", f"/{plain}"]])
    headers = {"X-Run-Storlet": asker.storlet, "X-Storlet-Parameter-1": f"ask:{asked}"}
    answer = asker.request("COPY", plain, {**headers, "Destination": f"{plain}.found"})
    assert answer.status == 201, answer
    usage = answer.headers["X-Storlet-Usage"]
    assert f";service-operations=2;service-in={len(content)};service-out=0" in usage


def test_a_listing_pages_by_itself(asker: Author, owner: Client, container: str) -> None:
    names = [f"d{number % 3}/{number:04}" for number in range(30)]
    for name in names:
        assert owner.put(f"{container}/{name}", b"x").status == 201
    answer = ask(
        asker, f"{container}/{names[0]}", ["find", container, {}], ["find", container, {"delimiter": "/"}],
        ["find", container, {"prefix": "d1/", "reverse": True}], ["find", container, {"limit": 4}],
        ["find", container, {"marker": "d2/0010", "end_marker": "d2/0020"}], ["find", "none", {}],
    )  # fmt: skip
    everything, folders, reverse, few, between, missing = outcomes(answer)
    names.sort()
    assert everything == ["ok", names]
    assert folders == ["ok", ["d0/", "d1/", "d2/"]]
    assert reverse == ["ok", [name for name in names if name.startswith("d1/")][::-1]]
    assert few == ["ok", names[:4]]
    assert between == ["ok", [name for name in names if "d2/0010" < name < "d2/0020"]]
    assert missing[:2] == ["NotFound", "input.not_found"]


def test_threads_of_a_storlet_may_send_requests_at_the_same_time(
    asker: Author, plain: str, content: bytes
) -> None:
    # As many as Service-Files allows.
    assert outcomes(ask(asker, plain, ["parts", f"/{plain}", 16])) == [["ok", [md5(content)], 16]]


def test_an_object_that_is_replaced_gives_no_bytes_of_two_versions(
    changer: Author, owner: Client, plain: str, container: str
) -> None:
    path, marker = f"{container}/big", f"{container}/marker"
    found = ["ok", "aaaaa", "aaaaa"]
    for _ in range(3):
        if found != ["ok", "aaaaa", "aaaaa"]:
            break
        # A replica that the PUT had not reached yet had the version that was opened.
        assert owner.put(marker, b"").status == 201
        assert owner.put(path, b"a" * 3_000_000).status == 201
        asked = ["replaced", f"/{path}", 2_000_000, f"/{marker}"]
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(ask, changer, plain, asked)
            # The storlet has opened the object, and waits until it is another.
            wait_for(lambda: owner.head(marker).headers["X-Object-Meta-Opened"], 30, "the storlet")
            assert owner.put(path, b"b" * 2_500_000).status == 201
            [found] = outcomes(running.result())
    assert found[:2] == ["Changed", "services.changed"]


# --- what it does not give ------------------------------------------------------------------------


def test_other_paths_are_refused(asker: Author, plain: str) -> None:
    paths = [
        ["open", "/c"], ["open", "c/o"], ["stat", "//o"], ["open", "/c/\0"], ["find", "c/o", {}]
    ]  # fmt: skip
    found = outcomes(ask(asker, plain, *paths))
    assert [row[:2] for row in found] == [["ServiceError", "bad_request"]] * len(paths), found


@pytest.mark.parametrize("suffix", SUFFIXES.values())
def test_a_storlet_has_only_the_services_that_it_declares(
    owner: Client, plain: str, suffix: str, jar: bytes
) -> None:
    lister, nothing = f"lister{suffix}", f"nothing{suffix}"
    assert upload(owner, "list", lister, jar).status == 201
    [[name, code, text]] = outcomes(ask(owner, plain, ["stat", f"/{plain}"], storlet=lister))
    assert (name, code) == ("Denied", "services.undeclared")
    assert "read" in text
    assert upload(owner, "", nothing, jar).status == 201
    answer = ask(owner, plain, ["stat", f"/{plain}"], storlet=nothing)
    assert outcomes(answer)[0][:2] == ["Denied", "services.none"]
    assert "service-operations" not in (answer.headers["X-Storlet-Usage"] or "")


def test_a_service_that_cannot_be_given_is_refused_at_the_upload(owner: Client) -> None:
    answer = upload(owner, "read, lst")
    assert (answer.status, answer.error) == (400, "registration.invalid")
    assert "did you mean list?" in answer.text
    answer = owner.put("storlet/a.sh", b"#!/bin/sh", declaration("native", "a.sh", Services="read"))
    assert (answer.status, answer.error) == (400, "registration.invalid")
    assert "a program has no services: use a shared object" in answer.text


def test_the_callers_rights_are_the_storlets(
    owner: Client, users: dict[str, Client], plain: str, asker: Author, container: str
) -> None:
    """tester3 may read one container and the storlet, and no other."""
    guest = users["test:tester3"]
    closed = unique("closed")
    assert owner.put(closed).status == 201
    assert owner.put(f"{closed}/o", b"secret").status == 201
    assert owner.post(container, {"X-Container-Read": "test:tester3"}).status == 204
    assert owner.post("storlet", {"X-Container-Read": "test:tester3"}).status == 204
    try:
        asked = [["open", f"/{plain}"], ["open", f"/{closed}/o"], ["stat", f"/{closed}/o"]]
        asked.append(["find", closed, {}])
        answer = ask(guest, plain, *asked, storlet=asker.storlet)
        mine, *others = outcomes(answer)
        assert mine[0] == "ok"
        assert [each[:2] for each in others] == [["Denied", "access.denied"]] * 3
        assert "secret" not in answer.text
    finally:
        assert owner.post("storlet", {"X-Remove-Container-Read": "x"}).status == 204
        delete_large_objects(owner, closed)


def test_a_grant_gives_nothing_more_by_services(
    owner: Client, users: dict[str, Client], asker: Author, plain: str, container: str
) -> None:
    """tester3 may read the container through the storlet only: the storlet's input, that is."""
    guest = users["test:tester3"]
    grant = {"X-Storlet-Container-Read": "test:tester3", "X-Storlet-Name": asker.storlet}
    assert owner.post(container, grant).status == 204
    assert owner.post("storlet", {"X-Container-Read": "test:tester3"}).status == 204
    try:
        asked = [["open", f"/{plain}"], ["stat", f"/{plain}"], ["find", container, {}]]
        found = outcomes(ask(guest, plain, *asked, storlet=asker.storlet))
        assert [each[:2] for each in found] == [["Denied", "access.denied"]] * 3
    finally:
        assert owner.post("storlet", {"X-Remove-Container-Read": "x"}).status == 204


# --- rules ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ward(users: dict[str, Client], jar: bytes) -> Ward:
    ward = make_ward(users)
    for suffix in SUFFIXES.values():
        assert upload(ward.admin, name=f"asker{suffix}", jar=jar).status == 201
    ward.rule(RULES)
    return ward


@pytest.mark.parametrize("suffix", SUFFIXES.values())
def test_a_mandatory_rule_is_met_by_every_operation(ward: Ward, suffix: str) -> None:
    storlet, covered = f"asker{suffix}", "/patients/a.csv"
    asked = [
        ["open", covered], ["open", covered, [0, 9]], ["seek", covered, [[5, 5]]], ["stat", covered],
        ["find", "patients", {}],
    ]  # fmt: skip
    answer = ask(ward.researcher, "open/a.csv", *asked, storlet=storlet)
    whole, part, seek, stat, listing = outcomes(answer)
    assert whole[:4] == ["ok", md5(MASKED), None, None]
    # As the rule answers the caller's own request.
    assert part[:2] == ["Denied", "access.rule"]
    assert seek[0] == "UnsupportedOperation"
    assert stat[0] == "ok"
    assert listing[0] == "ok"
    # The headers are of the run's own input, which no rule covers.
    nothing = http.client.HTTPMessage()
    shown = json.dumps([whole[2:], part, seek, stat, listing]).encode()
    assert_reveals_nothing(Answer(200, nothing, shown))
    whole, *_ = outcomes(ask(ward.physician, "open/a.csv", *asked, storlet=storlet))
    assert whole[:4] == ["ok", md5(CONTENT), len(CONTENT), ETAG]


def test_a_rule_that_denies_is_named(ward: Ward) -> None:
    when = f'{{method: GET, container: patients, user: "{RESEARCHER}"}}'
    ward.rule(
        f"version: 1\nrules:\n- name: closed\n  when: {when}\n  deny: closed for you\n", accept=True
    )
    try:
        [[name, code, text]] = outcomes(
            ask(ward.researcher, "open/a.csv", ["open", "/patients/a.csv"])
        )
        assert (name, code) == ("Denied", "access.rule")
        assert "closed" in text
    finally:
        ward.rule(RULES)


def test_rules_that_run_each_other_end_with_the_name_of_the_cycle(ward: Ward) -> None:
    when = "{method: GET, container: patients}"
    run = json.dumps({"storlet": ASKER, "parameters": {"ask": '[["open", "/patients/a.csv"]]'}})
    ward.rule(f"version: 1\nrules:\n- name: loop\n  when: {when}\n  run: {run}\n", accept=True)
    try:
        answer = ward.physician.get("patients/a.csv")
        [[name, code, text]] = outcomes(answer)
        assert (name, code) == ("ServiceError", "storlet.services")
        assert f"{ASKER} -> {ASKER}" in text
    finally:
        ward.rule(RULES)


# --- changes --------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=SUFFIXES)
def changer(request: pytest.FixtureRequest, owner: Client, jar: bytes) -> Author:
    author = Author.of(owner, request.param, "changer")
    assert upload(author, "read, write, delete", author.storlet, jar).status == 201
    return author


def change(
    client: Client, path: str, *asked: list[Any], storlet: str = CHANGER, **headers: str
) -> list[Any]:
    return outcomes(ask(client, path, *asked, storlet=storlet, **headers))


@pytest.mark.parametrize(("changer", "path"), LANGUAGE_AND_KIND, indirect=True)
def test_metadata_of_an_object_of_any_kind_changes_item_by_item(
    changer: Author, plain: str, path: str
) -> None:
    set_, many, stat, whole = change(
        changer, plain, ["set", f"/{path}", {"Colour": "röd", "Content-Type": "text/x"}],
        ["set_many", f"/{path}", 8], ["stat", f"/{path}"], ["open", f"/{path}"],
    )  # fmt: skip
    if path.endswith("/symlink"):
        assert set_[:2] == ["ServiceError", "bad_request"]
        assert "the metadata of its target" in set_[2]
        return
    assert (set_, many) == (["ok"], ["ok"])
    facts = stat[1]
    assert (facts["size"], facts["content_type"]) == (len(WHOLE), "text/x")
    assert facts["metadata"]["Colour"] == "röd"
    assert sum(name.startswith("Item-") for name in facts["metadata"]) == 8
    kind = path.rpartition("/")[2]
    assert facts["metadata"]["Kind"] == kind
    assert whole[1] == md5(WHOLE)
    removed, stat = change(
        changer, plain, ["set", f"/{path}", {"Colour": None}], ["stat", f"/{path}"]
    )
    assert removed == ["ok"]
    assert "Colour" not in stat[1]["metadata"]
    assert stat[1]["content_type"] == "text/x"


def test_a_change_of_metadata_keeps_an_expiry_and_an_encoding(
    changer: Author, plain: str, container: str
) -> None:
    path = f"{container}/expires"
    headers = {"X-Delete-After": "9000", "Content-Encoding": "x-none"}
    assert changer.put(path, b"x", headers).status == 201
    before = changer.head(path).headers["X-Delete-At"]
    asked = [["set", f"/{path}", {"a": "b"}], ["copy", f"/{path}", f"/{path}.copy"]]
    # Headers of the client's own request are not stored.
    own = {"Cache_Control": "no-cache", "Expires": "0", "X_Delete_After": "1", "X_Robots_Tag": "x"}
    assert change(changer, plain, *asked, **own) == [["ok"]] * 2
    for name in (path, f"{path}.copy"):
        found = changer.head(name).headers
        assert [found[key] for key in ("Cache-Control", "Expires", "X-Robots-Tag")] == [None] * 3
        assert found["X-Delete-At"] == before
    found = changer.head(path).headers
    assert (found["X-Delete-At"], found["Content-Encoding"]) == (before, "x-none")
    assert found["X-Object-Meta-A"] == "b"


def test_an_object_with_versions_is_changed_copied_and_deleted(changer: Author, plain: str) -> None:
    container = unique("versions")
    assert changer.put(container, b"", {"X-Versions-Enabled": "true"}).status == 201
    path = f"/{container}/ö"
    for number in range(2):
        headers = {"X-Object-Meta-Number": str(number), "Content-Type": "text/x"}
        assert changer.put(path[1:], f"v{number}".encode(), headers).status == 201
    changed, copied, stat, copy, deleted, gone = change(
        changer, plain, ["set", path, {"a": "b"}], ["copy", path, f"{path}.copy"], ["stat", path],
        ["open", f"{path}.copy"], ["delete", path], ["stat", path],
    )  # fmt: skip
    assert [changed, copied, deleted] == [["ok"]] * 3
    assert stat[1]["metadata"] == {"Number": "1", "A": "b"}
    assert stat[1]["content_type"] == "text/x"
    assert copy[1:3] == [md5(b"v1"), 2]
    assert gone[0] == "NotFound"


@pytest.mark.parametrize(("changer", "path"), LANGUAGE_AND_KIND, indirect=True)
def test_objects_are_copied_and_deleted(changer: Author, plain: str, path: str) -> None:
    copy = f"/{path} cöpy?"
    copied, whole, deleted, again, missing = change(
        changer, plain, ["copy", f"/{path}", copy], ["open", copy], ["delete", copy],
        ["delete", copy], ["copy", copy, f"/{path}"],
    )  # fmt: skip
    assert (copied, deleted) == (["ok"], ["ok"])
    assert whole[:3] == ["ok", md5(WHOLE), len(WHOLE)]
    assert whole[4]["Kind"] == path.rpartition("/")[2]
    assert again[:2] == missing[:2] == ["NotFound", "input.not_found"]


@pytest.mark.parametrize(("changer", "asker"), SAME_LANGUAGE, indirect=True)
def test_changes_need_the_declaration_and_the_callers_rights(
    changer: Author, asker: Author, users: dict[str, Client], plain: str, container: str
) -> None:
    """tester3 may read the container and the storlets, and write nothing."""
    path = f"/{container}/kept"
    assert changer.put(path[1:], b"x").status == 201
    asked = [["set", path, {"a": "b"}], ["copy", path, f"{path}.2"], ["delete", path]]
    found = outcomes(ask(asker, plain, *asked))
    assert [each[:2] for each in found] == [["Denied", "services.undeclared"]] * 3
    guest = users["test:tester3"]
    assert changer.post(container, {"X-Container-Read": "test:tester3"}).status == 204
    assert changer.post("storlet", {"X-Container-Read": "test:tester3"}).status == 204
    try:
        found = change(guest, plain, *asked, storlet=changer.storlet)
        assert [each[:2] for each in found] == [["Denied", "access.denied"]] * 3
    finally:
        assert changer.post("storlet", {"X-Remove-Container-Read": "x"}).status == 204
    assert changer.get(path[1:]).body == b"x"


def test_storlets_dependencies_logs_and_rules_are_not_changed(changer: Author, plain: str) -> None:
    for container in ("storlet", "dependency", "storletlog", "storlet_rules"):
        path = f"/{container}/{changer.storlet}"
        found = change(
            changer, plain, ["set", path, {"a": "b"}], ["copy", f"/{plain}", path], ["delete", path]
        )
        assert [each[:2] for each in found] == [["Denied", "access.denied"]] * 3
        assert all(container in each[2] for each in found)


def test_a_change_stays_when_the_run_fails_after_it(
    changer: Author, plain: str, container: str
) -> None:
    path = f"{container}/marked"
    assert changer.put(path, b"x" * 100).status == 201
    answer = ask(changer, plain, ["set", f"/{path}", {"a": "b"}], ["die", f"/{path}"])
    assert (answer.status, answer.error) == (422, "storlet.failed")
    assert changer.head(path).headers["X-Object-Meta-A"] == "b"


@pytest.fixture(scope="module")
def changed_ward(ward: Ward) -> Ward:
    assert upload(ward.admin, "read, write, delete", CHANGER).status == 201
    return ward


def test_a_change_does_not_lose_or_copy_what_a_rule_withholds(changed_ward: Ward) -> None:
    ward, covered = changed_ward, "/patients/a.csv"
    found = change(
        ward.researcher, "open/a.csv", ["set", covered, {"a": "b"}], ["copy", covered, "/open/copy"],
        ["stat", "/open/copy"], ["open", "/open/copy"],
    )  # fmt: skip
    (name, code, text), copied, *_ = found
    assert (name, code) == ("Denied", "access.rule")
    assert "rule hide withholds metadata" in text
    # The length is that of the masked copy, too.
    assert "SECRET" not in json.dumps(found)
    assert ETAG not in json.dumps(found)
    assert copied == ["ok"], copied
    assert ward.admin.get("open/copy").body == MASKED
    kept = ward.admin.head("patients/a.csv").headers
    assert (kept["X-Object-Meta-Patient"], kept["X-Object-Meta-A"]) == ("SECRET", None)
    # No rule covers the object for another caller.
    assert change(ward.physician, "open/a.csv", ["set", covered, {"a": "b"}]) == [["ok"]]
    kept = ward.admin.head("patients/a.csv").headers
    assert (kept["X-Object-Meta-Patient"], kept["X-Object-Meta-A"]) == ("SECRET", "b")


def test_rules_about_changes_hold_for_those_of_storlets(changed_ward: Ward) -> None:
    ward = changed_ward
    rules = """
version: 1
rules:
- {name: no-post, when: {method: POST, container: patients}, deny: no changes}
- {name: no-delete, when: {method: DELETE, container: patients}, deny: no deletion}
- {name: no-put, when: {method: PUT, container: patients}, deny: nothing new}
- {name: marked, when: {method: PUT, container: open}, mandatory: true, run: mask.py}
"""
    ward.rule(rules, accept=True)
    try:
        own = "/patients/a.csv"
        post, delete, put, marked = change(
            ward.physician, "open/a.csv", ["set", own, {"x": "y"}], ["delete", own],
            ["copy", "/open/a.csv", "/patients/new"], ["copy", own, "/open/marked"],
        )  # fmt: skip
        for outcome, rule in ((post, "no-post"), (delete, "no-delete"), (put, "no-put")):
            assert outcome[:2] == ["Denied", "access.rule"]
            assert f"rule {rule}: " in outcome[2]
        assert marked == ["ok"], marked
        assert ward.admin.get("open/marked").body == MASKED
        assert ward.admin.get("patients/a.csv").body == CONTENT
        assert ward.admin.get("patients/new").status == 404
    finally:
        ward.rule(RULES)


# --- limits ---------------------------------------------------------------------------------------


def test_limits_are_refused_by_name(asker: Author, owner: Client, container: str) -> None:
    path = f"{container}/o"
    assert owner.put(path, b"x" * 1_000_000).status == 201
    few = ask(asker, path, *[["stat", f"/{path}"]] * 3, X_Storlet_Limit_Service_Operations="2")
    *fine, (name, code, text) = outcomes(few)
    assert [each[0] for each in fine] == ["ok", "ok"]
    assert (name, code) == ("LimitExceeded", "storlet.limit.services")
    assert "Service-Operations" in text
    held = ask(asker, path, ["hold", f"/{path}", 5], X_Storlet_Limit_Service_Files="3")
    [[name, code, text]] = outcomes(held)
    assert (name, code) == ("LimitExceeded", "storlet.limit.services")
    assert "Service-Files" in text
    much = ask(asker, path, ["open", f"/{path}"], X_Storlet_Limit_Service_Bytes="100K")
    [[name, code, text]] = outcomes(much)
    assert (name, code) == ("LimitExceeded", "storlet.limit.services")
    assert "Service-Bytes" in text
    assert outcomes(ask(asker, path, ["open", f"/{path}"]))[0][0] == "ok"


# --- hostile storlets -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "code", "text", "seconds"),
    [
        (["garbage"], "storlet.services", "invalid request for a service", 10),
        # It waits for itself, and not for the store: the deadline holds.
        (["flood", "/{path}"], "storlet.timeout.first_byte", "no output within", 1),
        (["die", "/{path}"], "storlet.failed", "", 10),
    ],
    ids=["garbage", "flood", "killed"],
)
def test_a_storlet_that_abuses_its_services_fails_alone(  # noqa: PLR0917 - fixtures
    asker: Author,
    owner: Client,
    container: str,
    asked: list[str],
    code: str,
    text: str,
    seconds: int,
) -> None:
    path = f"{container}/big"
    assert owner.put(path, b"x" * 3_000_000).status == 201
    given = [each.format(path=path) for each in asked]
    answer = ask(asker, path, given, X_Storlet_Limit_Timeout_First_Byte=f"{seconds}s")
    assert (answer.status, answer.error) == (422, code), answer
    assert text in answer.text
    is_flood = asked[0] == "flood"
    assert not is_flood or usage(answer)["service-operations"] > FLOOD_OPERATIONS, answer
    assert outcomes(ask(asker, path, ["stat", f"/{path}"]))[0][0] == "ok"


@pytest.mark.parametrize("before", [[], ["std:nop"]], ids=["only", "second"])
def test_a_signed_url_runs_a_rules_storlet_without_services(ward: Ward, before: list[str]) -> None:
    """The signature covers one object, and the storlet of the rule would read others."""
    assert ward.admin.post("", {"X-Account-Meta-Temp-Url-Key": KEY}).status == 204
    when = "{method: GET, container: patients}"
    asker = {"storlet": ASKER, "parameters": {"ask": '[["stat", "/open/a.csv"]]'}}
    run = json.dumps([*before, asker])
    ward.rule(f"version: 1\nrules:\n- name: index\n  when: {when}\n  run: {run}\n", accept=True)
    try:
        [[first, *_]] = outcomes(ward.physician.get("patients/a.csv"))
        assert first == "ok"
        [[name, code, _]] = outcomes(
            Client(ward.admin.storage_url, "").get(
                "patients/a.csv", query=signature(ward.admin, "GET", "patients/a.csv")
            )
        )
        assert (name, code) == ("Denied", "services.none")
    finally:
        ward.rule(RULES)
