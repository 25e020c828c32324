"""Storlets written for OpenStack Storlets run unchanged."""

from __future__ import annotations

import pytest

from tests.support.http import Client
from tests.support.storlets import Dependency, Tool, Toolbox, declaration
from tests.support.waiting import retry_until

SCRIPT = b"#!/bin/sh\nprintf 'from the dependency'\nexit 42\n"


def streams(owner: Client, toolbox: Toolbox, language: str) -> str:
    if language == "java":
        return toolbox.upload_jar(owner, "legacystreams-1.0.jar", "legacy", "legacy.Streams")
    return toolbox.upload_source(owner, "legacy_streams.py", "legacy_streams.Streams")


def test_a_legacy_storlet_writes_metadata_and_data(
    owner: Client, toolbox: Toolbox, language: str, placement: str, plain: str, content: bytes
) -> None:
    tool = Tool(owner, streams(owner, toolbox, language), placement)
    answer = owner.get(plain, tool.headers())
    assert (answer.status, answer.body, answer.is_broken) == (200, content, False), answer
    assert answer.meta("override_key") == "new_value"
    assert answer.meta("Parsed") == "7"
    assert answer.meta("Colour") == "red"
    assert answer.headers["X-Storlet-Ran-On"] == placement


def test_a_legacy_storlet_runs_on_put_and_copy(
    owner: Client, toolbox: Toolbox, language: str, plain: str, container: str, content: bytes
) -> None:
    tool = Tool(owner, streams(owner, toolbox, language))
    assert (
        owner.put(
            f"{container}/put", b"some", tool.headers() | {"X-Object-Meta-Colour": "blue"}
        ).status
        == 201
    )
    assert (
        owner.request("COPY", plain, tool.headers({"Destination": f"/{container}/copied"})).status
        == 201
    )
    put, copied = owner.get(f"{container}/put"), owner.get(f"{container}/copied")
    assert (put.body, put.meta("Colour"), put.meta("Parsed")) == (b"some", "blue", "7")
    assert (copied.body, copied.meta("Colour"), copied.meta("Parsed")) == (content, "red", "7")


def test_a_legacy_storlet_runs_an_executable_dependency(
    owner: Client, toolbox: Toolbox, language: str, placement: str, plain: str
) -> None:
    program = Dependency("get42", SCRIPT, "0755")
    if language == "java":
        name = toolbox.upload_jar(owner, "legacyexec-1.0.jar", "legacy", "legacy.Exec", [program])
    else:
        name = toolbox.upload_source(owner, "legacy_exec.py", "legacy_exec.Exec", [program])
    answer = owner.get(plain, Tool(owner, name, placement).headers(), query={"program": "get42"})
    assert (answer.status, answer.body) == (200, b"from the dependency"), answer
    assert answer.meta("Depend-Ret-Code") == "42"


def test_the_log_has_the_lines_of_the_storlet(
    owner: Client, toolbox: Toolbox, language: str, plain: str
) -> None:
    name = streams(owner, toolbox, language)
    answer = owner.get(plain, {"X-Run-Storlet": name, "X-Storlet-Generate-Log": "True"})
    path = f"storletlog/{name}/{answer.headers['X-Storlet-Invocation']}.log"
    log = retry_until(lambda: (got := owner.get(path)).status == 200 and got)
    assert "Streams was called" in log.text
    assert "Streams is done" in log.text


@pytest.mark.parametrize("ranged", [False, True])
def test_python_file_objects_keep_every_promise(
    owner: Client, toolbox: Toolbox, placement: str, container: str, ranged: bool
) -> None:
    name = toolbox.upload_source(owner, "legacy_files.py", "legacy_files.Files")
    text = b"first\nsecond\nthird\nfourth\nfifth"
    data = b"before" + text + b"after" if ranged else text
    assert owner.put(f"{container}/lines", data).status == 201
    headers = {"X-Storlet-Range": f"bytes=6-{5 + len(text)}"} if ranged else {}
    answer = owner.get(f"{container}/lines", Tool(owner, name, placement).headers(headers))
    assert (answer.status, answer.text) == (200, "kept\n"), answer
    assert answer.meta("Checked") == "yes"


def test_the_metadata_of_a_python_storlet_may_name_its_interpreter(
    owner: Client, plain: str
) -> None:
    source = (
        b"import sys\nclass V(object):\n    def __init__(self, logger): pass\n"
        b"    def __call__(self, ins, outs, params):\n"
        b"        outs[0].set_metadata({})\n        outs[0].write(repr(sys.version_info[:2]).encode())\n"
    )
    for version, wanted in (("3", "(3, "), ("3.11", "(3, 11)")):
        headers = declaration("python", "which.V", Language_Version=version)
        assert owner.put("storlet/which.py", source, headers).status == 201
        answer = owner.get(plain, {"X-Run-Storlet": "which.py"})
        assert answer.status == 200, answer
        assert answer.text.startswith(wanted)
