"""Checks at upload: code that does not load never takes effect, and nothing of it is kept."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from storlet_client.bundle.manifest import files_at_upload
from tests.support.accounts import unique
from tests.support.bundles import bundle, tool
from tests.support.cluster import CHECKOUT
from tests.support.http import Answer, Client
from tests.support.storlets import Toolbox, declaration

MULTITOOL = CHECKOUT / "tests/functional/storlets/multitool.py"
CHECKED = {"X-Storlet-Check": "true"}
GOOD = """\
class Tool:
    def __init__(self, logger):
        pass

    def __call__(self, in_files, out_files, params):
        out_files[0].set_metadata({{}})
        out_files[0].write(b"{answer}")
        out_files[0].close()
"""
#: Source, and what the refusal says.
BAD = {
    "import": ("import no_such_module\n", "No module named 'no_such_module'"),
    "syntax": ("class Tool(:\n", "SyntaxError"),
    "class": ("class Other:\n    pass\n", "has no class Tool"),
    "method": ("class Tool:\n    def __cal__(self): pass\n", "has no method __call__"),
    "exit": ("import os\nos._exit(3)\n", "exited with code 3"),
    "system exit": ("raise SystemExit(0)\n", "SystemExit"),
    "memory": ("held = [bytes(range(256)) * 4096 for _ in range(4096)]\n", "64 MiB of its limit"),
}


def put(owner: Client, name: str, source: str, headers: dict[str, str] | None = None) -> Answer:
    declared = declaration("python", f"{name}.Tool") | {"X-Object-Meta-Storlet-Memory": "64M"}
    return owner.put(f"storlet/{name}.py", source.encode(), declared | (headers or {}))


def stored(owner: Client) -> set[str]:
    return {row["name"] for row in owner.listing("storlet")}


@pytest.mark.parametrize("fault", BAD)
def test_plain_code_that_does_not_load_is_refused(owner: Client, plain: str, fault: str) -> None:
    name, (source, text) = unique("bad"), BAD[fault]
    before = stored(owner)
    answer = put(owner, name, source, CHECKED)
    assert (answer.status, answer.error) == (422, "registration.check")
    assert text in answer.text
    assert stored(owner) == before
    assert put(owner, name, GOOD.format(answer="good"), CHECKED).status == 201
    assert put(owner, name, source, CHECKED).status == 422
    assert owner.get(plain, {"X-Run-Storlet": f"{name}.py"}).text == "good"
    assert stored(owner) == before | {f"{name}.py"}


def test_the_traceback_names_the_line(owner: Client) -> None:
    answer = put(owner, unique("line"), "def f():\n    return 1 / 0\n\n\nf()\n", CHECKED)
    assert "Traceback" in answer.text
    assert "line 2, in f" in answer.text
    assert "ZeroDivisionError" in answer.text


#: A bundle is loaded as plain code is: an error of the code, and a limit of the run.
@pytest.mark.parametrize("fault", ["import", "memory"])
def test_bundle_that_does_not_load_makes_no_version(owner: Client, plain: str, fault: str) -> None:
    name, (source, text) = unique("bad"), BAD[fault]
    path = f"storlet/{name}.storlet"
    assert owner.put(path, tool(name, "one"), CHECKED).status == 201
    before = stored(owner)
    files = {"tool.py": (source.encode(), 0o644)}
    broken = bundle(name, files, main="tool.Tool", limits={"memory": "64M"})
    answer = owner.put(path, broken, CHECKED)
    assert (answer.status, answer.error) == (422, "registration.check")
    assert text in answer.text
    assert stored(owner) == before
    assert owner.get(plain, {"X-Run-Storlet": name}).text.startswith("one ")
    assert owner.put(path, broken, {"X-Storlet-Check": "false"}).status == 201
    answer = owner.post(path, CHECKED, query={"storlet-version": "2"})
    assert (answer.status, answer.error) == (422, "registration.check")


def test_java_is_checked(owner: Client, toolbox: Toolbox) -> None:
    jar = toolbox.java.jar("functional")
    for main, status in (("functional.Multitool", 201), ("functional.NoSuchClass", 422)):
        headers = declaration("java", main) | CHECKED
        answer = owner.put(f"storlet/{unique('tool')}-1.0.jar", jar, headers)
        assert answer.status == status, answer


def test_metadata_of_a_post_is_checked(owner: Client, plain: str) -> None:
    name = unique("post")
    assert put(owner, name, GOOD.format(answer="good")).status == 201
    path = f"storlet/{name}.py"
    answer = owner.post(path, declaration("python", f"{name}.Missing") | CHECKED)
    assert (answer.status, answer.error) == (422, "registration.check")
    assert owner.get(plain, {"X-Run-Storlet": f"{name}.py"}).text == "good"
    assert owner.post(path, declaration("python", f"{name}.Tool") | CHECKED).status == 202


def test_missing_dependency_is_refused(owner: Client) -> None:
    name = unique("dep")
    headers = CHECKED | {"X-Object-Meta-Storlet-Dependency": "no-such-file"}
    answer = put(owner, name, GOOD.format(answer="good"), headers)
    assert (answer.status, answer.error) == (422, "registration.check")
    assert "no-such-file" in answer.text


def test_the_account_has_a_default(owner: Client) -> None:
    name, source = unique("default"), BAD["import"][0]
    refused = owner.post("", {"X-Account-Meta-Storlet-Check": "maybe"})
    assert (refused.status, refused.error) == (400, "bad_request")
    assert owner.post("", {"X-Account-Meta-Storlet-Check": "true"}).status == 204
    try:
        assert put(owner, name, source).status == 422
        assert put(owner, name, source, {"X-Storlet-Check": "false"}).status == 201
        copied = owner.request("COPY", f"storlet/{name}.py", {"Destination": f"storlet/{name}.py"})
        assert (copied.status, copied.error) == (400, "registration.invalid")
    finally:
        assert owner.post("", {"X-Account-Meta-Storlet-Check": ""}).status == 204
    assert put(owner, name, source).status == 201


@pytest.mark.parametrize(
    ("path", "headers", "text"),
    [
        ("storlet/tool.py", {"X-Storlet-Check": "maybe"}, "want true or false"),
        ("storlet/tool.py", {"X-Storlet-Chek": "true"}, "X-Storlet-Check"),
        ("storlet/tool.storlet", {"X-Storlet-Check": ""}, "want true or false"),
        ("dependency/lib.py", {"X-Storlet-Check": "true"}, "of a storlet only"),
        ("{container}/object", {"X-Storlet-Check": "true"}, "of a storlet only"),
    ],
)
def test_invalid_use_is_refused(
    owner: Client, container: str, path: str, headers: dict[str, str], text: str
) -> None:
    answer = owner.put(path.format(container=container), b"x", headers)
    assert (answer.status, answer.error) == (400, "bad_request")
    assert text in answer.text


def test_the_old_code_serves_during_checks(owner: Client, plain: str) -> None:
    name = unique("busy")
    assert put(owner, name, GOOD.format(answer="one"), CHECKED).status == 201
    answers, ended = [], threading.Event()

    def reads() -> None:
        while not ended.is_set():
            answers.append(owner.get(plain, {"X-Run-Storlet": f"{name}.py"}))

    readers = [threading.Thread(target=reads) for _ in range(4)]
    for reader in readers:
        reader.start()
    try:
        for fault in ("import", "exit", "class", "memory"):
            assert put(owner, name, BAD[fault][0], CHECKED).status == 422
    finally:
        ended.set()
        for reader in readers:
            reader.join()
    assert {(each.status, each.text) for each in answers} == {(200, "one")}


def with_cases(
    name: str, language: str, toolbox: Toolbox, *cases: dict[str, object], **fields: object
) -> bytes:
    """A bundle of the multitool with test cases."""
    main = {"python": "multitool.Multitool", "java": "functional.Multitool"}[language]
    jar = ("tool-1.0.jar", toolbox.java.jar("functional")) if language == "java" else None
    path, content = jar or ("multitool.py", MULTITOOL.read_bytes())
    rows = [{"name": "fruit", "input": "in", "output": "out", **case} for case in cases]
    contents = {"in": b"one apple\ntwo pears\n", "out": b"ONE APPLE\nTWO PEARS\n"}
    files = {each: contents[each] for each in files_at_upload({"tests": rows})}
    code = {path: (content, 0o644)}
    return bundle(name, code, files, main=main, language=language, tests=rows, **fields)


UPPER = {"parameters": {"do": "upper", "set-colour": "red"}, "metadata": {"colour": "red"}}
FAILS = {"name": "fails", "parameters": {"do": "fail", "word": "pears"}}


@pytest.mark.parametrize("language", ["python", "java"])
def test_test_cases_of_a_bundle_decide(
    owner: Client, plain: str, toolbox: Toolbox, language: str
) -> None:
    name = unique("tested")
    path = f"storlet/{name}.storlet"
    good = with_cases(name, language, toolbox, UPPER, {**FAILS, "error": "storlet.failed"})
    assert owner.put(path, good, CHECKED).status == 201
    before = stored(owner)
    for case, text in (
        ({**UPPER, "name": "as it was", "output": "in"}, "want 'one apple', got 'ONE APPLE'"),
        ({**UPPER, "name": "green", "metadata": {"colour": "green"}}, "metadata colour: want"),
        (FAILS, "fails on purpose: pears"),
    ):
        answer = owner.put(path, with_cases(name, language, toolbox, UPPER, case), CHECKED)
        assert (answer.status, answer.error) == (422, "registration.check"), answer
        assert f"test case '{case['name']}' failed: " in answer.text
        assert text in answer.text
    assert stored(owner) == before
    query = {"do": "identity"}
    assert owner.get(plain, {"X-Run-Storlet": name}, query=query).body == owner.get(plain).body


def test_a_test_case_has_the_limits_of_the_storlet(owner: Client, toolbox: Toolbox) -> None:
    name = unique("slow")
    endless = {"name": "endless", "parameters": {"do": "burn", "seconds": "60"}}
    packed = with_cases(name, "python", toolbox, endless, limits={"timeout-total": "1s"})
    answer = owner.put(f"storlet/{name}.storlet", packed, CHECKED)
    assert (answer.status, answer.error) == (422, "registration.check")
    assert "test case 'endless' failed: storlet.timeout" in answer.text


@pytest.fixture
def in_small_pieces() -> Callable[[bytes], list[bytes]]:
    return lambda data: [data[at : at + 7] for at in range(0, len(data), 7)]


def test_a_chunked_body_arrives_whole(
    owner: Client, plain: str, in_small_pieces: Callable[[bytes], list[bytes]]
) -> None:
    name, source = unique("chunks"), GOOD.format(answer="whole").encode()
    headers = declaration("python", f"{name}.Tool") | CHECKED
    answer = owner.put(f"storlet/{name}.py", iter(in_small_pieces(source)), headers)
    assert answer.status == 201, answer
    assert owner.get(f"storlet/{name}.py").body == source
    assert owner.get(plain, {"X-Run-Storlet": f"{name}.py"}).text == "whole"
