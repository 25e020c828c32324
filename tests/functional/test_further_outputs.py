"""Further outputs: objects that are stored with the result of a GET, PUT or COPY, all or none."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.functional.test_services import ask, upload
from tests.support.accounts import delete_large_objects, unique
from tests.support.cluster import CHECKOUT, Cluster
from tests.support.http import Answer, Client
from tests.support.proxies import OtherProxy, other_proxy
from tests.support.storlets import LANGUAGES, Tool, declaration
from tests.support.waiting import retry_until

METHODS = ("GET", "PUT", "COPY")
#: More than a PUT keeps back: it begins while the storlet runs.
LARGE = 2 << 20

#: Failures of storlets in any method.  The language changes from row to row: what is stored does
#: not depend on it.
FAILURES = [
    (LANGUAGES[(row + column) % 2], method, how, size)
    for row, method in enumerate(METHODS)
    for column, (how, size) in enumerate([("raise", 0), ("raise", LARGE), ("exit", LARGE)])
]


@pytest.fixture
def second(owner: Client) -> Iterator[str]:
    """A second container, erasure-coded."""
    name = unique("ec")
    assert owner.put(name, headers={"X-Storage-Policy": "ec21"}).status == 201
    yield name
    delete_large_objects(owner, name)


def run(tool: Tool, method: str, container: str, outputs: list[str], **parameters: str) -> Answer:
    """Run ``spread`` with the input ``in``."""
    source = f"{container}/in"
    headers = {"X-Storlet-Output": ", ".join("/" + output for output in outputs)}
    if method == "PUT":
        return tool.put(f"{container}/main", b"in", "spread", headers, **parameters)
    assert tool.client.put(source, b"in").status == 201
    if method == "COPY":
        return tool.copy(source, f"{container}/main", "spread", headers, **parameters)
    return tool.get(source, "spread", headers, **parameters)


def contents(client: Client, paths: list[str]) -> list[bytes | None]:
    answers = [client.get(path) for path in paths]
    return [answer.body if answer.status == 200 else None for answer in answers]


@pytest.mark.parametrize("method", METHODS)
def test_all_outputs_are_stored(
    either: Tool, owner: Client, container: str, second: str, method: str
) -> None:
    outputs = [f"{container}/one", f"{second}/two"]
    answer = run(either, method, container, outputs, bytes="100000")
    assert answer.status == (200 if method == "GET" else 201), answer
    assert not answer.is_broken
    filler = b"x" * 100_000
    assert contents(owner, outputs) == [b"1:in" + filler, b"2:in" + filler]
    for number, path in enumerate(outputs, 1):
        stored = owner.head(path)
        assert stored.headers["Content-Type"] == f"text/x-{number}"
        assert stored.meta("Number") == str(number)
    main = answer if method == "GET" else owner.get(f"{container}/main")
    assert (main.body, main.meta("Number")) == (b"0:in" + filler, "0")
    assert answer.headers["X-Storlet-Ran-On"] == "proxy"
    if method != "GET":
        assert f"out={3 * 100_004}" in answer.headers["X-Storlet-Usage"]


@pytest.mark.parametrize("method", METHODS)
def test_large_outputs_are_streamed(
    any_tool: Tool, owner: Client, container: str, second: str, method: str
) -> None:
    outputs = [f"{container}/one", f"{second}/two"]
    answer = run(any_tool, method, container, outputs, bytes=str(5 * LARGE))
    assert answer.status == (200 if method == "GET" else 201), answer
    assert not answer.is_broken
    assert [owner.head(path).headers["Content-Length"] for path in outputs] == [
        str(5 * LARGE + 4)
    ] * 2


@pytest.mark.parametrize(("language", "method", "how", "size"), FAILURES, indirect=["language"])
def test_a_storlet_that_fails_stores_nothing(
    either: Tool, owner: Client, container: str, method: str, how: str, size: int
) -> None:
    outputs = [f"{container}/one", f"{container}/two"]
    assert owner.put(outputs[0], b"the old one").status == 201
    answer = run(either, method, container, outputs, how=how, bytes=str(size))
    assert answer.error == "storlet.failed" or answer.is_broken, answer
    assert contents(owner, [*outputs, f"{container}/main"]) == [b"the old one", None, None]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("size", [0, LARGE])
def test_a_full_container_of_one_output_stores_none(
    any_tool: Tool, owner: Client, container: str, method: str, size: int
) -> None:
    full = unique("full")
    assert owner.put(full, headers={"X-Container-Meta-Quota-Count": "0"}).status == 201
    outputs = [f"{container}/one", f"{full}/two"]
    answer = run(any_tool, method, container, outputs, bytes=str(size))
    assert (answer.status, answer.error) == (413, "swift.refused"), answer
    assert f"output /{full}/two" in answer.text
    assert contents(owner, [*outputs, f"{container}/main"]) == [None] * 3
    delete_large_objects(owner, full)


def test_a_client_that_disconnects_stores_nothing(
    any_tool: Tool, owner: Client, container: str
) -> None:
    outputs = [f"{container}/one", f"{container}/two"]
    assert owner.put(f"{container}/in", b"in").status == 201
    headers = any_tool.headers({"X-Storlet-Output": ", ".join("/" + each for each in outputs)})
    query = {"do": "spread", "bytes": str(10 * LARGE), "pause": "1"}
    connection, response = owner.open("GET", f"{container}/in", headers, query=query)
    assert response.read(10)
    connection.close()
    identity = response.headers["X-Storlet-Invocation"]
    query_of_record = f"storlet-runs&id={identity}"
    assert retry_until(lambda: owner.get("", query=query_of_record).status == 200)
    assert contents(owner, outputs) == [None, None]


def test_the_record_of_a_run_names_its_outputs(
    any_tool: Tool, owner: Client, container: str
) -> None:
    answer = run(
        any_tool, "GET", container, [f"{container}/one", f"{container}/missing/x"], how="raise"
    )
    identity = answer.headers["X-Storlet-Invocation"]
    record = f"storlet-runs&id={identity}"
    assert retry_until(lambda: owner.get("", query=record).status == 200)
    wanted = f'"outputs":["{container}/one","{container}/missing/x"]'
    assert wanted in owner.get("", query=record).text.replace(": ", ":").replace(", ", ",")


@pytest.mark.usefixtures("shared_storlets")
def test_the_right_to_write_is_the_callers(
    owner: Client, users: dict[str, Client], any_tool: Tool, container: str, second: str
) -> None:
    user = "test:tester3"
    caller = Tool(users[user], any_tool.storlet)
    rights = {"X-Container-Read": user, "X-Container-Write": user}
    assert owner.post(container, rights).status == 204
    answer = run(caller, "GET", container, [f"{container}/one", f"{second}/two"])
    assert answer.status == 403, answer
    assert run(caller, "GET", container, [f"{container}/one"]).status == 200
    assert contents(owner, [f"{container}/one"]) == [b"1:in"]


@pytest.mark.parametrize("method", METHODS)
def test_a_commit_that_fails_is_reported_with_the_names(
    any_tool: Tool, owner: Client, container: str, losing: OtherProxy, method: str
) -> None:
    outputs = [f"{container}/one", f"{container}/lost"]
    tool = Tool(losing.client(owner), any_tool.storlet)
    answer = run(tool, method, container, outputs)
    assert (answer.status, answer.error) == (503, "outputs.partial"), answer
    assert f"not stored: /{container}/lost (503" in answer.text
    assert f"/{container}/one" in answer.text.partition("; stored:")[2]
    is_stored = [b"1:in", None, None if method == "GET" else b"0:in"]
    assert contents(owner, [*outputs, f"{container}/main"]) == is_stored


def test_a_commit_that_fails_names_created_objects(
    owner: Client, container: str, losing: OtherProxy
) -> None:
    assert upload(owner, "write", "creator.py").status == 201
    path = f"{container}/in"
    assert owner.put(path, b"in").status == 201
    asked = [["create", f"/{container}/{name}", name] for name in ("one", "lost", "two")]
    answer = ask(losing.client(owner), path, *asked, storlet="creator.py")
    assert (answer.status, answer.error) == (503, "outputs.partial"), answer
    lost, _, kept = answer.text.partition("; stored: ")
    assert f"not stored: /{container}/lost (503" in lost
    assert f"/{container}/one, /{container}/two" in kept
    paths = [f"{container}/{name}" for name in ("one", "lost", "two")]
    assert contents(owner, paths) == [b"one", None, b"two"]


@pytest.fixture(scope="module")
def losing(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OtherProxy]:
    """A proxy that waits for bodies for one second only, and whose Swift loses objects with a
    certain name."""
    pipeline = _pipeline(cluster).replace(" proxy-server", " losing proxy-server")
    changes = {
        "DEFAULT": {"client_timeout": "1"},
        "pipeline:main": {"pipeline": pipeline},
        "filter:losing": {"paste.filter_factory": "commit_doubles:factory"},
    }
    # A folder with nothing else: the server must not import modules of the tests.
    folder = tmp_path_factory.mktemp("doubles")
    shutil.copy(Path(__file__).with_name("commit_doubles.py"), folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(folder))
        with other_proxy(cluster, changes) as proxy:
            yield proxy


def _pipeline(cluster: Cluster) -> str:
    text = Path(cluster.description["conf_dir"], "proxy-server.conf").read_text("utf-8")
    found = next(line for line in text.splitlines() if line.startswith("pipeline ="))
    return found.partition("=")[2].strip()


def test_an_output_may_pause_for_longer_than_swift_waits(
    any_tool: Tool, owner: Client, losing: OtherProxy
) -> None:
    tool = Tool(losing.client(owner), any_tool.storlet)

    def check(method: str) -> None:
        container = unique("paused")
        assert owner.put(container).status == 201
        outputs = [f"{container}/one", f"{container}/two"]
        answer = run(tool, method, container, outputs, bytes=str(LARGE), before="2", pause="2")
        assert answer.status == (200 if method == "GET" else 201), answer
        assert not answer.is_broken
        sizes = [owner.head(path).headers["Content-Length"] for path in outputs]
        assert sizes == [str(LARGE + 4)] * 2
        delete_large_objects(owner, container)

    # All wait at the same time.
    with ThreadPoolExecutor(len(METHODS)) as pool:
        assert list(pool.map(check, METHODS)) == [None] * len(METHODS)


def test_the_sample_splits_an_object_by_lines(owner: Client, container: str) -> None:
    folder = CHECKOUT / "storlets/split_lines"
    headers = declaration("python", "split_lines.SplitLines")
    code = (folder / "split_lines.py").read_bytes()
    assert owner.put("storlet/split_lines.py", code, headers).status == 201
    assert owner.put(f"{container}/in", (folder / "input.csv").read_bytes()).status == 201
    outputs = [f"{container}/1", f"{container}/2"]
    sent = {"X-Storlet-Output": ", ".join("/" + output for output in outputs)}
    tool = Tool(owner, "split_lines.py")
    answer = owner.get(f"{container}/in", tool.headers(sent), query={"header": "true"})
    head = b"station,temperature\n"
    assert [answer.body, *contents(owner, outputs)] == [
        head + b"Zermatt,4\nBern,10\n",
        head + b"Basel,12\n",
        head + b"Chur,9\n",
    ]
    assert owner.head(outputs[1]).meta("Parts") == "3"


def test_the_sample_makes_tiles_and_a_thumbnail_in_one_run(owner: Client, container: str) -> None:
    folder = CHECKOUT / "storlets/tiles"
    code = (folder / "tiles.py").read_bytes()
    assert owner.put("storlet/tiles.py", code, declaration("python", "tiles.Tiles")).status == 201
    assert owner.put(f"{container}/in.png", (folder / "input.png").read_bytes()).status == 201
    outputs = [f"{container}/{line}-{column}.png" for line in range(2) for column in range(3)]
    sent = {"X-Storlet-Output": ", ".join("/" + output for output in outputs)}
    query = {"columns": "3", "size": "48"}
    answer = owner.get(f"{container}/in.png", Tool(owner, "tiles.py").headers(sent), query=query)
    assert (answer.status, answer.body) == (200, (folder / "expected.png").read_bytes()), answer
    for output in outputs:
        tile = owner.get(output)
        assert tile.headers["Content-Type"] == "image/png"
        assert (tile.meta("Width"), tile.meta("Height")) == ("80", "80")
        assert tile.body.startswith(b"\x89PNG\r\n")
    # One tile too many for the grid: none is stored.
    sent = {"X-Storlet-Output": f"/{container}/a.png, /{container}/b.png"}
    answer = owner.get(f"{container}/in.png", Tool(owner, "tiles.py").headers(sent), query=query)
    assert (answer.status, answer.error) == (422, "storlet.failed")
    assert contents(owner, [f"{container}/a.png", f"{container}/b.png"]) == [None, None]
