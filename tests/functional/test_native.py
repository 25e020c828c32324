"""Native programs on a real cluster: Unix filters, scripts, and what cannot run here."""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support import native
from tests.support.accounts import unique
from tests.support.cluster import CHECKOUT
from tests.support.http import Answer, Client
from tests.support.storlets import Dependency, Tool, declaration

#: Where an author keeps ``jq`` with its libraries.
JQ = CHECKOUT / "storlets/native/jq"
SHELL = b"""\
#!/bin/sh
eval "exec 9>&$STORLET_METADATA_FD"
case "$STORLET_PARAM_do" in
facts) echo '{"n": 1, "on": true}' >&9
       echo "$STORLET_INPUTS"; cat; echo; echo "$STORLET_PARAMETERS" ;;
fail) printf half; echo one >&2; echo "no such column" >&2; exit 3 ;;
late) echo early; sleep 0.1; echo '{"a": "1"}' >&9 ;;
plant) printf '#!/bin/sh\\n' > "$STORLET_PARAM_storlet_execution_path/planted" ;;
tool) "$STORLET_PARAM_storlet_execution_path/tool.sh" ;;
letters) wc -m ;;
hold) printf half; sleep 30 2> /dev/null & ;;
apart) sleep 30 < /dev/null > /dev/null 2>&1 & cat ;;
esac
"""


def upload(
    owner: Client, content: bytes, name: str = "", dependencies: str = "", **more: str
) -> str:
    name = name or unique("native") + ".bin"
    headers = declaration("native", more.pop("Main", name), **more)
    if dependencies:
        headers["X-Object-Meta-Storlet-Dependency"] = dependencies
    answer = owner.put(f"storlet/{name}", content, headers)
    assert answer.status == 201, answer
    return name


@pytest.fixture(scope="module")
def shell(owner: Client) -> str:
    tool = Dependency("tool.sh", b"#!/bin/sh\ntr a-z A-Z\n", "0700")
    assert tool.upload(owner).status == 201
    return upload(owner, SHELL, dependencies="tool.sh")


@pytest.fixture
def program(owner: Client, shell: str, placement: str) -> Tool:
    return Tool(owner, shell, placement)


@pytest.mark.parametrize(
    ("command", "arguments", "expected"),
    [
        ("sed", "-n -e 's/ the / a /p'", b"0123456789 a content of a plain object\n"),
        ("tr", "0-9 'x'", b"xxxxxxxxxx the content of a plain object\n"),
    ],
)
def test_a_unix_filter_runs_unaltered(
    owner: Client, plain: str, command: str, arguments: str, expected: bytes
) -> None:
    binary = Path(shutil.which(command) or "").read_bytes()
    name = upload(owner, binary, Arguments=arguments)
    assert owner.get(plain, {"X-Run-Storlet": name}).body == expected


def test_gzip_compresses_at_the_data(owner: Client, plain: str, content: bytes) -> None:
    binary = Path(shutil.which("gzip") or "").read_bytes()
    name = upload(owner, binary, Arguments="-9 -n")
    answer = owner.get(plain, {"X-Run-Storlet": name})
    assert gzip.decompress(answer.body) == content


def jq() -> bytes:
    path = shutil.which("jq")
    if path is None:
        pytest.skip("jq is missing")
    return Path(path).read_bytes()


def test_jq_runs_unaltered_with_the_libraries_that_it_brings(
    owner: Client, container: str, placement: str, tmp_path: Path
) -> None:
    parts = [Dependency("jq", jq(), "0700")]
    shutil.copy(JQ / "collect.sh", tmp_path)
    subprocess.run(["sh", "collect.sh"], cwd=tmp_path, check=True)
    libraries = sorted((tmp_path / "out").glob("*.so.*"))
    parts += [Dependency(path.name, path.read_bytes(), "0600") for path in libraries]
    for part in parts:
        assert part.upload(owner).status == 201
    names = ",".join(part.name for part in parts)
    script = (JQ / "jq.sh").read_bytes()
    name = upload(owner, script, dependencies=names, Arguments="-c '{name, age: (.age + 1)}'")
    path = f"{container}/people.json"
    assert owner.put(path, '{"age": 36, "name": "Zoë", "x": 1}'.encode()).status == 201
    answer = Tool(owner, name, placement).get(path)
    assert (answer.status, answer.text) == (200, '{"name":"Zoë","age":37}\n'), answer


def test_a_program_sees_parameters_metadata_and_input(
    program: Tool, plain: str, content: bytes
) -> None:
    answer = program.get(plain, "facts", who="me")
    assert answer.status == 200, answer
    inputs, text, empty, parameters = answer.text.split("\n", 3)
    assert json.loads(inputs)[0]["fd"] == 0
    assert json.loads(inputs)[0]["metadata"]["Colour"] == "red"
    assert text.encode() + b"\n" == content
    assert empty == ""
    assert json.loads(parameters)["who"] == "me"
    assert answer.headers["x-object-meta-n"] == "1"
    assert answer.headers["x-object-meta-on"] == "true"


def test_a_dependency_is_a_program_of_its_own(program: Tool, plain: str, content: bytes) -> None:
    assert program.get(plain, "tool").body == content.upper()


def test_a_put_and_a_copy_store_what_a_program_makes(
    owner: Client, shell: str, container: str
) -> None:
    tool = Tool(owner, shell)
    assert tool.put(f"{container}/a", b"some text", "tool").status == 201
    assert owner.get(f"{container}/a").body == b"SOME TEXT"
    assert owner.put(f"{container}/plain", b"other").status == 201
    assert tool.copy(f"{container}/plain", f"/{container}/b", "tool").status == 201
    assert owner.get(f"{container}/b").body == b"OTHER"


def test_text_of_a_program_is_utf_8(owner: Client, shell: str, container: str) -> None:
    assert Tool(owner, shell).put(f"{container}/count", "Grüße".encode(), "letters").status == 201
    assert owner.get(f"{container}/count").body == b"5\n"


def test_a_range_is_the_input_of_a_program(program: Tool, plain: str) -> None:
    answer = program.get(plain, "tool", {"X-Storlet-Range": "bytes=11-13"})
    assert (answer.status, answer.body) == (200, b"THE")


def test_an_exit_status_is_an_error_and_stores_nothing(
    owner: Client, shell: str, container: str
) -> None:
    tool = Tool(owner, shell)
    answer = tool.put(f"{container}/a", b"x", "fail")
    assert (answer.status, answer.error) == (422, "storlet.failed")
    assert "the program exited with status 3: no such column" in answer.text
    assert owner.head(f"{container}/a").status == 404


def test_a_process_that_may_add_to_the_output_is_an_error_and_stores_nothing(
    owner: Client, shell: str, container: str
) -> None:
    tool = Tool(owner, shell)
    answer = tool.put(f"{container}/a", b"x", "hold")
    assert (answer.status, answer.error) == (422, "storlet.failed")
    assert "a process that the program started still holds its output" in answer.text
    assert owner.head(f"{container}/a").status == 404


def test_a_process_that_cannot_add_to_the_output_may_be_left(
    program: Tool, plain: str, content: bytes
) -> None:
    answer = program.get(plain, "apart")
    assert (answer.status, answer.body) == (200, content), answer


def test_late_metadata_is_an_error(owner: Client, shell: str, container: str) -> None:
    answer = Tool(owner, shell).put(f"{container}/a", b"x", "late")
    assert (answer.status, answer.error) == (422, "storlet.failed")
    assert "after the first byte" in answer.text


def test_the_code_cannot_be_changed(owner: Client, shell: str, container: str) -> None:
    answer = Tool(owner, shell).put(f"{container}/a", b"x", "plant")
    assert answer.error == "storlet.failed"
    assert "Read-only file system" in answer.text


# --- what cannot run here -------------------------------------------------------------------------


def true() -> bytes:
    return Path("/bin/true").read_bytes()


def seeker() -> bytes:
    return native.shared_object(native.SEEKER)


def of_other_machine(code: bytes) -> bytes:
    return code[:18] + (243).to_bytes(2, "little") + code[20:]


def with_other_loader(code: bytes) -> bytes:
    path = b"/lib64/ld-linux-x86-64.so.2"
    return code.replace(path, b"/lib64/ld-nowhere.so.1".ljust(27, b"\0"))


def with_other_library(code: bytes) -> bytes:
    return code.replace(b"libc.so.6\0", b"libz.so.9\0")


OTHER_MACHINE = "is for another machine: RISC-V; this sandbox has x86-64"
OTHER_LIBRARY = "needs what is not in this sandbox: libz.so.9"
BAD = {
    "machine": (lambda: of_other_machine(true()), OTHER_MACHINE),
    "loader": (lambda: with_other_loader(true()), "not in this sandbox: /lib64/ld-nowhere.so.1"),
    "library": (lambda: with_other_library(true()), OTHER_LIBRARY),
    "jq's library": (jq, "needs what is not in this sandbox: libjq.so.1"),
    "object's machine": (lambda: of_other_machine(seeker()), OTHER_MACHINE),
    "object's library": (lambda: with_other_library(seeker()), OTHER_LIBRARY),
    "text": (lambda: b"hello", "is not a program: want an ELF file, or a script"),
    "interpreter": (lambda: b"#!/usr/bin/jq -f\n", "not in this sandbox: /usr/bin/jq"),
    "line ends": (lambda: b"#!/bin/sh\r\nexit 0\r\n", "save it with Unix line ends"),
}


@pytest.mark.parametrize("fault", BAD)
def test_code_that_cannot_run_is_refused_by_name(owner: Client, plain: str, fault: str) -> None:
    make, text = BAD[fault]
    name = unique("bad") + ".bin"
    headers = declaration("native", f"{name}:seeker" if fault.startswith("object") else name)
    refused = owner.put(f"storlet/{name}", make(), {**headers, "X-Storlet-Check": "true"})
    assert (refused.status, refused.error) == (422, "registration.check")
    assert text in refused.text
    assert owner.put(f"storlet/{name}", make(), headers).status == 201
    answer = owner.get(plain, {"X-Run-Storlet": name})
    assert (answer.status, answer.error) == (422, "storlet.load")
    assert text in answer.text


def test_a_dependency_without_the_execute_permission_is_no_program(
    owner: Client, plain: str
) -> None:
    tool = unique("tool")
    assert Dependency(tool, b"#!/bin/sh\n", "0600").upload(owner).status == 201
    name = upload(owner, b"x", dependencies=tool, Main=tool)
    answer = owner.get(plain, {"X-Run-Storlet": name})
    assert answer.error == "storlet.load"
    assert f"{tool} is not executable" in answer.text


def refused_text(answer: Answer) -> str:
    assert (answer.status, answer.error) == (400, "registration.invalid"), answer
    return answer.text


def test_faults_of_the_declaration_are_named(owner: Client) -> None:
    name = unique("native") + ".bin"
    headers = declaration("native", "other", Arguments="-e 's/a/b/")
    text = refused_text(owner.put(f"storlet/{name}", b"#!/bin/sh\n", headers))
    assert f"one of {name}" in text
    assert "want words as in a shell" in text
