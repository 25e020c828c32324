"""Bundles: upload, run, versions, rollback, and refusal of hostile ones."""

from __future__ import annotations

import io
import json
import zipfile

import pytest

from storlet_client.builder.bundler import build
from storlet_client.builder.wheels import Sandbox
from tests.support.accounts import unique
from tests.support.bundles import bundle, tool
from tests.support.http import Client, raw_connection
from tests.support.storlets import Toolbox
from tests.unit.client.bundle.hostile import CORPUS

MEAN = """\
import numpy


class Mean:
    def __init__(self, logger):
        pass

    def __call__(self, in_files, out_files, params):
        data = numpy.frombuffer(in_files[0].read(), dtype="u1")
        out_files[0].set_metadata({})
        out_files[0].write(f"{data.mean():.3f}".encode())
        out_files[0].close()
"""


def run(owner: Client, name: str, path: str, placement: str = "object", **query: str) -> str:
    headers = {"X-Run-Storlet": name}
    if placement == "proxy":
        headers["X-Storlet-Run-On-Proxy"] = ""
    answer = owner.get(path, headers, query=query)
    assert answer.status == 200, answer
    return answer.text


def upload(owner: Client, name: str, data: bytes) -> str:
    answer = owner.put(f"storlet/{name}.storlet", data)
    assert answer.status == 201, answer
    return str(answer.headers["x-storlet-version"])


def left_over(owner: Client, name: str) -> list[str]:
    return [row["name"] for row in owner.listing("storlet", prefix=f"versions/{name}/")]


def test_a_bundle_runs_with_its_library(owner: Client, plain: str, placement: str) -> None:
    name = unique("tool")
    assert upload(owner, name, tool(name)) == "1"
    assert run(owner, name, plain, placement, a="b").startswith("one 41 a=b")


@pytest.fixture(scope="module")
def mean(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, bytes]:
    """A bundle with numpy, and its name; it is built twice."""
    folder, name = tmp_path_factory.mktemp("mean"), unique("mean")
    (folder / "src").mkdir()
    (folder / "src/mean.py").write_text(MEAN)
    (folder / "storlet.toml").write_text(
        f'name = "{name}"\nversion = "1.0"\nlanguage = "python"\nmain = "mean.Mean"\n'
        'requirements = ["numpy==2.3.5"]\n'
    )
    data = build(folder, folder, Sandbox()).read_bytes()
    assert build(folder, folder / "again", Sandbox()).read_bytes() == data
    return name, data


def test_a_bundle_with_numpy_runs(
    owner: Client, plain: str, placement: str, mean: tuple[str, bytes]
) -> None:
    name, data = mean
    assert upload(owner, name, data) == "1"
    content = owner.get(plain).body
    assert run(owner, name, plain, placement) == f"{sum(content) / len(content):.3f}"
    assert owner.delete(f"storlet/{name}.storlet").status == 204


def test_a_java_bundle_with_two_jars_runs(
    owner: Client, plain: str, placement: str, toolbox: Toolbox
) -> None:
    name = unique("jars")
    resources = io.BytesIO()
    with zipfile.ZipFile(resources, "w") as jar:
        jar.writestr("version.txt", "of the second jar")
    files = {
        "tool-1.0.jar": (toolbox.java.jar("functional"), 0o644),
        "resources.jar": (resources.getvalue(), 0o644),
    }
    main = "functional.Multitool"
    assert upload(owner, name, bundle(name, files, language="java", main=main)) == "1"
    assert run(owner, name, plain, placement, do="version") == "of the second jar"


def test_versions_are_numbered_named_and_rolled_back(
    owner: Client, plain: str, placement: str
) -> None:
    name = unique("tool")
    for number, version in enumerate(("one", "two", "three"), 1):
        assert upload(owner, name, tool(name, version)) == str(number)
        assert run(owner, name, plain, placement).startswith(f"{version} ")
    assert run(owner, f"{name}@1", plain, placement).startswith("one ")
    answer = owner.post(f"storlet/{name}.storlet", query={"storlet-version": "2"})
    assert (answer.status, answer.headers["x-storlet-version"]) == (202, "2")
    assert run(owner, name, plain, placement).startswith("two ")
    assert run(owner, f"{name}@3", plain, placement).startswith("three ")
    listed = json.loads(owner.get(f"storlet/{name}.storlet", query={"storlet-versions": ""}).body)
    assert [(row["number"], row["current"]) for row in listed["versions"]] == [
        (3, False), (2, True), (1, False)
    ]  # fmt: skip
    assert listed["engine"] == ">=1.0,<2"
    assert upload(owner, name, tool(name, "four")) == "4"
    assert run(owner, name, plain, placement).startswith("four ")
    assert owner.get(f"storlet/{name}.storlet").body == tool(name, "four")


def test_the_oldest_versions_are_removed(owner: Client, plain: str) -> None:
    name = unique("tool")
    for number in range(1, 13):
        upload(owner, name, tool(name, f"v{number}"))
    assert len(left_over(owner, name)) == 10
    answer = owner.get(plain, {"X-Run-Storlet": f"{name}@2"})
    assert (answer.status, answer.error) == (404, "storlet.not_found")
    assert run(owner, f"{name}@3", plain).startswith("v3 ")


def test_deletion_removes_all_versions(owner: Client, plain: str) -> None:
    name = unique("tool")
    for version in ("one", "two"):
        upload(owner, name, tool(name, version))
    assert owner.delete(f"storlet/{name}.storlet").status == 204
    assert left_over(owner, name) == []
    assert owner.get(plain, {"X-Run-Storlet": name}).error == "storlet.not_found"


@pytest.mark.parametrize("fault", ["parent", "link", "wrong hash", "overlap", "manifest", "cut"])
def test_hostile_bundle_is_refused_and_nothing_is_left_behind(
    owner: Client, plain: str, fault: str
) -> None:
    make, part = CORPUS[fault]
    name = unique("tool")
    upload(owner, name, tool(name))
    answer = owner.put(f"storlet/{name}.storlet", make())
    assert (answer.status, answer.error) == (400, "registration.bundle")
    assert part in answer.text
    assert len(left_over(owner, name)) == 1
    assert run(owner, name, plain).startswith("one ")


def test_a_cut_upload_leaves_the_old_version(owner: Client, plain: str) -> None:
    name = unique("tool")
    upload(owner, name, tool(name))
    data = tool(name, "two")
    with raw_connection(owner) as connection:
        path = owner.target(f"storlet/{name}.storlet")
        connection.send_head("PUT", path, {"Content-Length": str(len(data))})
        connection.send(data[:-10])
    answer = owner.put(f"storlet/{name}.storlet", data, {"ETag": "0" * 32})
    assert (answer.status, answer.error) == (422, "input.etag_mismatch")
    assert run(owner, name, plain).startswith("one ")
    assert len(left_over(owner, name)) == 1


def test_parameters_are_checked_against_the_manifest(
    owner: Client, plain: str, placement: str
) -> None:
    name = unique("tool")
    parameters = {
        "width": {"type": "integer", "default": 100, "max": 4096},
        "format": {"type": "string", "choices": ["png", "jpeg"]},
    }
    upload(owner, name, tool(name, parameters=parameters))
    assert run(owner, name, plain, placement).endswith(" width=100")
    assert run(owner, name, plain, placement, format="png").endswith("format=png;width=100")
    answer = owner.get(plain, {"X-Run-Storlet": name}, query={"wdth": "1", "format": "gif"})
    assert (answer.status, answer.error) == (400, "bad_request")
    assert "did you mean width?" in answer.text
    assert "want one of png, jpeg" in answer.text


@pytest.mark.parametrize("method", ["GET", "PUT", "COPY"])
def test_the_number_of_inputs_is_checked_against_the_manifest(
    owner: Client, plain: str, method: str
) -> None:
    name = unique("tool")
    upload(owner, name, tool(name, inputs={"max": 2}))
    path = f"{plain}-put" if method == "PUT" else plain
    headers = {"X-Run-Storlet": name} | ({"Destination": path} if method == "COPY" else {})
    body = b"data" if method == "PUT" else None

    def status(extra: int) -> tuple[int, str | None]:
        others = {"X-Storlet-Extra-Resources": ", ".join([f"/{plain}"] * extra)}
        answer = owner.request(method, path, {**headers, **others}, body=body)
        assert "takes 1 to 2" in answer.text or answer.status != 400
        return answer.status, answer.error

    assert status(2) == (400, "bad_request")
    assert status(1) == (200 if method == "GET" else 201, None)


def test_metadata_links_copies_and_versions_cannot_be_written(owner: Client) -> None:
    name = unique("tool")
    upload(owner, name, tool(name))
    path = f"storlet/{name}.storlet"
    version = left_over(owner, name)[0]
    assert owner.post(path, {"X-Object-Meta-A": "b"}).error == "bad_request"
    assert owner.put(f"storlet/{version}", b"x").error == "bad_request"
    assert owner.put(path, b"", {"X-Copy-From": f"storlet/{version}"}).error == "bad_request"
    headers = {"X-Symlink-Target": "c/o", "X-Object-Meta-Storlet-Main": "a.B"}
    answer = owner.put(path, b"", headers)
    assert answer.error == "registration.bundle"
    assert "X-Symlink-Target" in answer.text
    assert "X-Object-Meta-Storlet-Main" in answer.text


def test_a_caller_without_write_access_changes_nothing(
    owner: Client, users: dict[str, Client]
) -> None:
    name = unique("tool")
    upload(owner, name, tool(name))
    other = users["test:tester3"].on(owner.account)
    path = f"storlet/{name}.storlet"
    assert other.put(path, tool(name, "two")).status == 403
    assert other.post(path, query={"storlet-version": "1"}).status == 403
    assert other.get(path, query={"storlet-versions": ""}).status == 403
