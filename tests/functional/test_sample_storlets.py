"""Each folder of ``storlets/``: upload by its manifest, run in every way, compare with its expected
output."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from storlet_middleware.aio import demo_library
from storlet_middleware.aio.client import log_in
from storlet_middleware.aio.demo import USER
from tests.support.accounts import delete_large_objects, unique
from tests.support.cluster import Cluster
from tests.support.http import Client
from tests.support.storlets import Dependency, Tool, declaration

ROOT = Path(__file__).resolve().parents[2] / "storlets"
MANIFESTS = {
    path.parent.name: json.loads(path.read_text()) for path in sorted(ROOT.glob("*/manifest.json"))
}


class Sample:
    """One sample, uploaded, with its inputs in a container of its own."""

    def __init__(self, owner: Client, folder: Path, code: bytes) -> None:
        self.owner, self.folder = owner, folder
        self.manifest = MANIFESTS[folder.name]
        self.container = unique(folder.name)
        self._upload(code)

    def _upload(self, code: bytes) -> None:
        manifest, owner = self.manifest, self.owner
        dependencies = [
            Dependency(d["file"], (self.folder / d["file"]).read_bytes(), d.get("permissions"))
            for d in manifest["dependencies"]
        ]
        for dependency in dependencies:
            assert dependency.upload(owner).status == 201
        headers = declaration(
            manifest["language"], manifest["main"], [d.name for d in dependencies]
        )
        answer = owner.put(f"storlet/{manifest['name']}", code, headers)
        assert answer.status == 201, answer
        assert owner.put(self.container).status == 201
        for name in self.inputs:
            assert (
                owner.put(f"{self.container}/{name}", (self.folder / name).read_bytes()).status
                == 201
            )

    @property
    def inputs(self) -> list[str]:
        given = self.manifest["input"]
        return given if isinstance(given, list) else [given]

    @property
    def path(self) -> str:
        return f"{self.container}/{self.inputs[0]}"

    @property
    def expected(self) -> bytes:
        return (self.folder / str(self.manifest["expected"])).read_bytes()

    def headers(self, placement: str) -> dict[str, str]:
        headers = Tool(self.owner, self.manifest["name"], placement).headers()
        if len(self.inputs) > 1:
            others = [quote(f"/{self.container}/{name}") for name in self.inputs[1:]]
            headers["X-Storlet-Extra-Resources"] = ", ".join(others)
        return headers


@pytest.fixture(scope="module", params=MANIFESTS)
def sample(
    request: pytest.FixtureRequest, owner: Client, description: dict[str, Any]
) -> Iterator[Sample]:
    folder = ROOT / request.param
    made = Sample(owner, folder, code_of(folder, MANIFESTS[request.param], description))
    yield made
    delete_large_objects(owner, made.container)


def code_of(folder: Path, manifest: dict[str, Any], description: dict[str, Any]) -> bytes:
    """The file in the folder, or the jar that the build of the cluster made of its sources."""
    if (folder / manifest["file"]).is_file():
        return (folder / str(manifest["file"])).read_bytes()
    places = [folder, Path(description["java_api_jar"]).parent]
    built = [path for place in places for path in place.rglob(manifest["file"])]
    if not built:
        pytest.fail(f"{manifest['file']} was not built; looked in {places}")
    return built[0].read_bytes()


def test_a_sample_returns_its_expected_output(sample: Sample, placement: str) -> None:
    answer = sample.owner.get(
        sample.path, sample.headers(placement), query=sample.manifest["parameters"]
    )
    if "expected_error" in sample.manifest:
        assert (answer.status, answer.error) == (422, sample.manifest["expected_error"])
        return
    assert (answer.status, answer.is_broken) == (200, False), answer
    assert answer.body == sample.expected
    for name, value in sample.manifest.get("expected_metadata", {}).items():
        assert answer.meta(name) == value


def test_a_sample_stores_its_expected_output(sample: Sample) -> None:
    target = f"{sample.container}/stored"
    headers = sample.headers("object") | {"Destination": "/" + quote(target)}
    answer = sample.owner.request("COPY", sample.path, headers, query=sample.manifest["parameters"])
    if "expected_error" in sample.manifest:
        assert (answer.status, answer.error) == (422, sample.manifest["expected_error"])
        return
    assert answer.status == 201, answer
    stored = sample.owner.get(target)
    assert stored.body == sample.expected
    for name, value in sample.manifest.get("expected_metadata", {}).items():
        assert stored.meta(name) == value


def test_partitions_of_csv_filter_return_each_line_once(
    owner: Client, placement: str, container: str
) -> None:
    rows = "".join(f"{number},{'x' * (number % 13)}\n" for number in range(2000))
    data = ("id,text\n" + rows).encode()
    source = (ROOT / "csv_filter" / "csv_filter.py").read_bytes()
    assert (
        owner.put(
            "storlet/csv_filter.py", source, declaration("python", "csv_filter.CsvFilter")
        ).status
        == 201
    )
    assert owner.put(f"{container}/rows.csv", data).status == 201
    cuts = [0, 5000, 5001, 12345, len(data)]
    got = b""
    for start, end in itertools.pairwise(cuts):
        query = {
            "header": "id,text",
            "partition_bytes": str(end - start),
            "partition": "later" if start else "first",
        }
        if not start:
            del query["header"]
        headers = Tool(owner, "csv_filter.py", placement).headers(
            {"X-Storlet-Range": f"bytes={start}-"}
        )
        answer = owner.get(f"{container}/rows.csv", headers, query=query)
        assert answer.status == 200, answer
        got += answer.body
    assert got == data


def test_the_demo_ends_with_sql_over_a_prefix_and_a_picture(
    owner: Client, cluster: Cluster, container: str, capsys: pytest.CaptureFixture[str]
) -> None:
    client = log_in(cluster.auth_url, USER, cluster.description["users"][USER])
    assert demo_library.show(client, container)
    shown = capsys.readouterr().out
    for row in demo_library.expected_rows():
        assert re.search(r"^  " + r" +".join(map(re.escape, row)) + "$", shown, re.MULTILINE), shown
    assert re.search(r"^  12 to 15 \|#+ +\d+$", shown, re.MULTILINE), shown
    picture = owner.get(f"{container}/{demo_library.PICTURE}")
    assert picture.headers["Content-Type"] == "image/svg+xml"
