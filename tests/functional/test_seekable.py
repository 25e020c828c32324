"""Seekable inputs: a storlet reads any place of any object, and only what it reads is read."""

from __future__ import annotations

import json
import random
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import quote

import pytest

from tests.functional.test_objects import KINDS, WHOLE, expected_placement, object_of
from tests.support import native
from tests.support.accounts import delete_large_objects, prepare_account, unique
from tests.support.bundles import bundle
from tests.support.http import Answer, Client, read_all
from tests.support.storlets import LANGUAGES, Tool, Toolbox, declaration

MIB = 1024 * 1024
SEEKING = (*LANGUAGES, "native")
PLACES = [(0, 7), (70_003, 11), (5, 3), (-9, 9), (-9, 99), (len(WHOLE), 5), (len(WHOLE) + 9, 5)]
#: Python storlets of these tests; each begins with the class ``Reader``.
ARCHIVE = """
import zipfile


class Reader:
    def __init__(self, logger):
        pass

    def __call__(self, in_files, out_files, params):
        with zipfile.ZipFile(in_files[0]) as archive:
            out_files[0].write(archive.read(params["name"]))
"""
LIAR = """
import struct


class Reader:
    def __init__(self, logger):
        pass

    def __call__(self, in_files, out_files, params):
        first, length = map(int, params["place"].split(","))
        in_files[0].raw._socket.write(struct.pack(">QQ", first, length))
        # Python itself refuses to read as many bytes as it asks for.
        in_files[0].raw._socket.read(min(max(length, 1), 1 << 20))
        out_files[0].write(b"done")
"""


def upload_reader(owner: Client, name: str, source: str) -> Tool:
    headers = declaration("python", f"{name}.Reader", Input="seekable")
    assert owner.put(f"storlet/{name}.py", source.encode(), headers).status == 201
    return Tool(owner, f"{name}.py")


def places(given: list[tuple[int, int]]) -> str:
    return " ".join(f"{first},{length}" for first, length in given)


def pieces(data: bytes, given: list[tuple[int, int]]) -> bytes:
    """The output of ``seek`` for one input."""
    found = [b"%d" % len(data)]
    for first, length in given:
        start = first if first >= 0 else len(data) + first
        found.append(data[start : start + length])
    return b"|".join(found) + b"\n"


def bytes_in(answer: Answer) -> int:
    usage = dict(each.split("=") for each in answer.headers["X-Storlet-Usage"].split(";"))
    return int(usage["in"])


@pytest.fixture(scope="module")
def seekers(owner: Client, toolbox: Toolbox) -> dict[str, str]:
    """The multitool that declares seekable inputs, by language."""
    return {language: upload_seeker(owner, toolbox, language) for language in SEEKING}


def upload_seeker(owner: Client, toolbox: Toolbox, language: str) -> str:
    if language == "native":
        name, main = "seeker.so", "seeker.so:seeker"
        content = native.shared_object(native.SEEKER)
    else:
        name, content, main = toolbox.multitool(language, "seeker")
    headers = declaration(language, main, Input="seekable")
    assert owner.put(f"storlet/{name}", content, headers).status == 201
    return name


@pytest.fixture(params=SEEKING)
def language(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def seeker(owner: Client, seekers: dict[str, str], language: str, placement: str) -> Tool:
    """It, in all languages and placements."""
    return Tool(owner, seekers[language], placement)


@pytest.fixture
def at_proxy(owner: Client, seekers: dict[str, str], language: str) -> Tool:
    return Tool(owner, seekers[language], "proxy")


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest, owner: Client) -> Iterator[tuple[str, str]]:
    """The kind and the path of an object that reads as ``WHOLE``."""
    with object_of(owner, request.param, "sought") as path:
        yield request.param, path


# --- what it gives --------------------------------------------------------------------------------


def test_any_place_of_an_object_of_any_kind_is_read(seeker: Tool, kind: tuple[str, str]) -> None:
    name, path = kind
    answer = seeker.get(path, "seek", places=places(PLACES))
    assert (answer.status, answer.is_broken) == (200, False), answer
    assert answer.body == pieces(WHOLE, PLACES)
    assert answer.headers["X-Storlet-Ran-On"] == expected_placement(seeker, name)


def test_all_of_an_object_of_any_kind_is_read_in_order(seeker: Tool, kind: tuple[str, str]) -> None:
    name, path = kind
    answer = seeker.get(path, "upper")
    assert (answer.status, answer.is_broken, answer.body) == (200, False, WHOLE.upper())
    saw = seeker.describe(path)
    assert saw["input.0.meta.kind"] == ("plain" if name == "ec" else name)


def test_an_empty_object_has_a_size(seeker: Tool, owner: Client, container: str) -> None:
    path = f"{container}/empty"
    assert owner.put(path, b"").status == 201
    answer = seeker.get(path, "seek", places="0,5 9,5")
    assert (answer.status, answer.body) == (200, b"0||\n")


def test_every_extra_resource_can_be_sought(
    seeker: Tool, plain: str, content: bytes, kind: tuple[str, str]
) -> None:
    headers = {"X-Storlet-Extra-Resources": f"{quote('/' + kind[1])}, {quote('/' + plain)}"}
    answer = seeker.get(plain, "seek", headers, places="0,9 3,4")
    assert answer.status == 200, answer
    given = [(0, 9), (3, 4)]
    assert answer.body == pieces(content, given) + pieces(WHOLE, given) + pieces(content, given)
    assert answer.headers["X-Storlet-Ran-On"] == "proxy"


def test_a_copy_is_made_of_what_was_read(
    seeker: Tool, owner: Client, container: str, kind: tuple[str, str]
) -> None:
    answer = seeker.copy(kind[1], f"/{container}/copied", "seek", places="70003,11", set_a="b")
    assert answer.status == 201, answer
    copied = owner.get(f"{container}/copied")
    assert copied.body == pieces(WHOLE, [(70_003, 11)])
    assert copied.headers["X-Object-Meta-A"] == "b"
    # One read-ahead.
    assert bytes_in(answer) <= 64 << 10


@pytest.fixture(scope="module")
def archived(owner: Client) -> Iterator[str]:
    """An archive of 100 MiB in 400 members."""
    container, chance = unique("archive"), random.Random(1)  # noqa: S311
    assert owner.put(container).status == 201

    class Out:
        """Keeps what the archive writes; it cannot seek."""

        def __init__(self) -> None:
            self.parts: list[bytes] = []

        def write(self, data: bytes) -> int:
            self.parts.append(bytes(data))
            return len(data)

        def flush(self) -> None:
            pass

    def chunks() -> Iterator[bytes]:
        out = Out()
        with zipfile.ZipFile(out, "w") as archive:  # type: ignore[arg-type]
            for number in range(400):
                archive.writestr(f"member-{number}", chance.randbytes(4096) * 64)
                yield b"".join(out.parts)
                out.parts.clear()
        yield b"".join(out.parts)

    assert owner.put(f"{container}/archive.zip", chunks()).status == 201
    yield f"{container}/archive.zip"
    delete_large_objects(owner, container)


@pytest.mark.parametrize("placement", ["object", "proxy"])
def test_a_member_of_a_large_archive_is_read_and_little_else(
    owner: Client, container: str, archived: str, placement: str
) -> None:
    chance = random.Random(1)  # noqa: S311
    members = [chance.randbytes(4096) * 64 for _ in range(8)]
    tool = Tool(owner, upload_reader(owner, "archive", ARCHIVE).storlet, placement)
    answer = tool.copy(archived, f"/{container}/member", name="member-7")
    assert answer.status == 201, answer
    assert owner.get(f"{container}/member").body == members[7]
    assert 256 << 10 <= bytes_in(answer) <= 5 * MIB


def test_a_bundle_declares_it_in_its_manifest(owner: Client, archived: str) -> None:
    files = {"reader.py": (ARCHIVE.encode(), 0o644)}
    packed = bundle("members", files, main="reader.Reader", input="seekable")
    assert owner.put("storlet/members.storlet", packed).status == 201
    declared = owner.head("storlet/members.storlet").headers["X-Object-Meta-Storlet-Input"]
    assert declared == "seekable"
    answer = Tool(owner, "members", "proxy").get(archived, name="member-0")
    assert (answer.status, answer.size) == (200, 256 << 10)


# --- a replaced object ----------------------------------------------------------------------------


def test_a_replaced_object_fails_the_run_before_its_first_output(
    at_proxy: Tool, owner: Client, container: str
) -> None:
    """The object is replaced until the run has ended."""
    path = f"{container}/o"
    assert owner.put(path, b"0" * MIB).status == 201
    many = places([(0, 1), (500_000, 1), (900_000, 1)] * 200)
    with ThreadPoolExecutor(1) as pool:
        # The output is smaller than the storlet's buffer until its end.
        run = pool.submit(at_proxy.copy, path, f"/{container}/copied", "seek", places=many)
        number = 1
        while not run.done():
            assert owner.put(path, b"%d" % (number % 10) * MIB).status == 201
            number += 1
    answer = run.result()
    assert (answer.status, answer.error) == (503, "input.changed"), answer
    assert owner.get(f"{container}/copied").status == 404


def test_no_byte_of_another_version_follows_the_first_output(
    at_proxy: Tool, owner: Client, container: str
) -> None:
    path = f"{container}/o"
    assert owner.put(path, b"a" * MIB).status == 201
    query = {"do": "seek", "places": "0,1 500000,1 900000,1", "times": "100000"}
    connection, answer = owner.open("GET", path, at_proxy.headers(), query=query)
    try:
        assert answer.status == 200
        begun = answer.read(9)
        assert owner.put(path, b"b" * MIB).status == 201
        body, _, _, is_broken = read_all(answer, keep=True)
    finally:
        connection.close()
    assert is_broken
    assert b"b" not in begun + body


def test_the_file_of_an_object_node_stays_the_version_that_was_opened(
    owner: Client, seekers: dict[str, str], container: str
) -> None:
    path = f"{container}/o"
    assert owner.put(path, b"a" * 9000).status == 201
    answer = Tool(owner, seekers["python"]).get(path, "seek", places="0,2 8000,2", times="50")
    assert (answer.status, answer.body) == (200, b"9000|aa|aa\n" * 50)


# --- what is refused ------------------------------------------------------------------------------


def test_the_body_of_an_upload_is_refused(at_proxy: Tool, owner: Client, container: str) -> None:
    answer = at_proxy.put(f"{container}/new", b"x" * 1000)
    assert (answer.status, answer.error) == (400, "bad_request")
    assert "the body of an upload cannot seek" in answer.text
    assert owner.get(f"{container}/new").status == 404


@pytest.mark.parametrize(
    ("headers", "query", "fault"),
    [
        ({"X-Storlet-Range": "bytes=0-1"}, {}, "leave out X-Storlet-Range"),
        ({}, {"multipart-manifest": "get"}, "leave out the query multipart-manifest"),
    ],
)
def test_parts_and_other_forms_of_an_object_are_refused(
    at_proxy: Tool, owner: Client, plain: str, headers: dict[str, str], query: dict[str, str], fault: str
) -> None:  # fmt: skip
    answer = owner.get(plain, at_proxy.headers(headers), query=query)
    assert (answer.status, answer.error) == (400, "bad_request")
    assert fault in answer.text


def test_a_later_step_of_a_sequence_is_refused(at_proxy: Tool, owner: Client, plain: str) -> None:
    seek = {"storlet": at_proxy.storlet, "parameters": {"do": "seek", "places": "0,3"}}
    for steps, status in ((["std:nop", seek], 400), ([seek, "std:nop"], 200)):
        query = {"steps": json.dumps(steps)}
        answer = owner.get(plain, {"X-Run-Storlet": "std:sequence"}, query=query)
        assert answer.status == status, answer
    assert answer.body == b"41|012\n"


@pytest.mark.parametrize(
    ("language", "main", "value", "fault"),
    [
        ("native", "a.sh", "seekable", "a program has no seekable inputs: use a shared object"),
        ("python", "a.A", "seekble", "did you mean seekable?"),
    ],
)
def test_a_declaration_that_is_not_possible_is_refused(
    owner: Client, language: str, main: str, value: str, fault: str
) -> None:
    name = "a.sh" if language == "native" else "a.py"
    answer = owner.put(f"storlet/{name}", b"#!/bin/sh", declaration(language, main, Input=value))
    assert (answer.status, answer.error) == (400, "registration.invalid")
    assert f"X-Object-Meta-Storlet-Input: '{value}'" in answer.text
    assert fault in answer.text


# --- a sandbox that lies --------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["0,0", "41,1", "0,2000000", f"{1 << 63},{1 << 63}"])
def test_a_read_outside_of_the_object_ends_the_run(owner: Client, plain: str, place: str) -> None:
    liar = upload_reader(owner, "liar", LIAR)
    answer = Tool(owner, liar.storlet, "proxy").get(plain, place=place)
    assert (answer.status, answer.error) == (422, "storlet.failed"), answer
    assert "invalid read of an input" in answer.text


# --- rights and rules -----------------------------------------------------------------------------


@pytest.fixture
def ruled(users: dict[str, Client], toolbox: Toolbox) -> Iterator[Client]:
    """An account with a mandatory rule that runs a storlet with seekable inputs."""
    owner = users["admin:admin"].on(f"AUTH_{unique('sought')}")
    prepare_account(owner)
    for container in ("storlet_rules", "c", "d"):
        assert owner.put(container).status == 201
    name = upload_seeker(owner, toolbox, "python")
    run: dict[str, Any] = {"storlet": name, "parameters": {"do": "seek", "places": "0,3 70003,3"}}
    reads = {"method": "GET", "container": "c"}
    uploads = {"method": "PUT", "container": "d"}
    found = [
        {"name": "parts", "when": reads, "mandatory": True, "run": [run]},
        {"name": "uploads", "when": uploads, "run": [run]},
    ]
    rules = json.dumps({"version": 1, "rules": found}).encode()
    accept = {"X-Storlet-Rules-Accept-Warnings": "true"}
    assert owner.put("c/o", WHOLE).status == 201
    assert owner.put("d/o", b"plain").status == 201
    assert owner.put("storlet_rules/rules.yaml", rules, accept).status == 201
    yield owner
    owner.delete("storlet_rules/rules.yaml")


def test_a_rule_runs_it_and_its_object_is_no_input_of_another(
    ruled: Client,
) -> None:
    answer = ruled.get("c/o")
    assert (answer.status, answer.body) == (200, pieces(WHOLE, [(0, 3), (70_003, 3)])), answer
    headers = {"X-Run-Storlet": "seeker.py", "X-Storlet-Extra-Resources": "/c/o"}
    answer = ruled.get("d/o", headers, query={"do": "seek", "places": "0,3"})
    assert (answer.status, answer.error) == (403, "access.rule")
    assert WHOLE[:20] not in answer.body
    answer = ruled.put("d/new", b"x")
    assert (answer.status, answer.error) == (400, "bad_request")
    assert "rule uploads: the storlet has seekable inputs: the body of" in answer.text


def test_a_caller_without_the_right_reads_nothing(
    owner: Client, users: dict[str, Client], shared_storlets: None, container: str, plain: str,
    seekers: dict[str, str],
) -> None:  # fmt: skip
    stranger = users["test2:tester2"].on(owner.account)
    tool = Tool(stranger, seekers["python"], "proxy")
    answer = tool.get(plain, "seek", places="0,3")
    assert (answer.status, answer.error) == (403, "access.denied")
    given = {"X-Storlet-Container-Read": "test2:tester2", "X-Storlet-Name": seekers["python"]}
    assert owner.post(container, given).status == 204
    answer = tool.get(plain, "seek", places="0,3 38,9")
    assert (answer.status, answer.body) == (200, b"41|012|ct\n\n"), answer
