"""Servers of different versions, and the reasons of object nodes, through real Swift.

Some servers run with a double of ``upgrade_doubles.py`` instead of the filter during a test.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from storlet_middleware.backend.invocation_header import BackendInvocation
from storlet_middleware.engine.storlet_version import StorletVersion
from tests.support.accounts import prepare_account, unique, users_of
from tests.support.cluster import Cluster, wait_for
from tests.support.http import Answer, Client
from tests.support.storlets import SOURCES, Tool, declaration

DOUBLES = Path(__file__).with_name("upgrade_doubles.py")
NODES = ("object-1", "object-2")
SMALL = b"0123456789 of an object\n"
LARGE = bytes(range(256)) * 4096
CONTAINER = unique("upgraded")
PLAIN, LINK = f"{CONTAINER}/0", f"{CONTAINER}/link"
OBJECTS = {f"{CONTAINER}/{number}": SMALL for number in range(8)} | {f"{CONTAINER}/large": LARGE}


@pytest.fixture(scope="module")
def client(cluster: Cluster) -> Client:
    """An owner with the Python multitool as ``up.py``, the objects, and a link to one."""
    client = users_of(cluster.description)["test:tester"]
    prepare_account(client)
    source = (SOURCES / "multitool.py").read_bytes()
    assert client.put("storlet/up.py", source, declaration("python", "up.Multitool")).status == 201
    assert client.put(CONTAINER).status == 201
    for path, data in OBJECTS.items():
        assert client.put(path, data).status == 201
    etag = client.get(PLAIN).headers["Etag"]
    link = {"X-Symlink-Target": PLAIN, "X-Symlink-Target-Etag": etag}
    assert client.put(LINK, b"", link).status == 201
    return client


@pytest.fixture(params=["object", "proxy"])
def tool(request: pytest.FixtureRequest, client: Client) -> Tool:
    return Tool(client, "up.py", request.param)


@contextlib.contextmanager
def replaced(cluster: Cluster, name: str, filter_lines: str) -> Iterator[None]:
    """Server ``name`` with another section ``[filter:storlets]`` for the duration of a block."""
    (entry,) = [
        program
        for program in json.loads((cluster.home / "programs.json").read_text("utf-8"))["programs"]
        if program["name"] == name
    ]
    folder = cluster.home / f"double-{name}"
    folder.mkdir(exist_ok=True)
    shutil.copy(DOUBLES, folder)
    config = folder / "server.conf"
    text = Path(entry["config"]).read_text("utf-8")
    config.write_text(
        text.replace(
            "[filter:storlets]\nuse = egg:swift-storlets#storlets\n",
            f"[filter:storlets]\n{filter_lines}\n",
        ),
        "utf-8",
    )
    assert config.read_text("utf-8") != text
    command = [str(config) if word == entry["config"] else word for word in entry["command"]]
    cluster.stop(name)
    try:
        with Path(entry["log"]).open("ab") as log:
            server = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env={"PATH": os.environ["PATH"], "HOME": "/", "PYTHONPATH": str(folder)},
                user=entry["user"] or None,
                group=entry["user"] or None,
                extra_groups=[] if entry["user"] else None,
                start_new_session=True,  # Swift's servers end their whole process group
            )
        try:
            wait_for(lambda: is_healthy(server, entry["port"]), 30, f"{name} to answer")
            yield
        finally:
            server.send_signal(signal.SIGTERM)
            try:
                server.wait(20)
            finally:
                server.kill()
                server.wait()
    finally:
        cluster.start(name)


def is_healthy(server: subprocess.Popen[bytes], port: int) -> bool:
    assert server.poll() is None, f"the server ended with {server.returncode}"
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=3)
    try:
        connection.request("GET", "/healthcheck")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def node(double: str) -> str:
    return f"paste.filter_factory = upgrade_doubles:node_factory\ndouble = {double}"


def get_all(tool: Tool, times: int = 3) -> list[Answer]:
    """Read each object through the storlet several times; every response must be right."""
    answers = []
    for path, data in [*OBJECTS.items()] * times:
        answer = tool.get(path, "upper")
        assert (answer.status, answer.is_broken) == (200, False), answer
        assert answer.body == data.upper(), path
        answers.append(answer)
    return answers


def reasons(cluster: Cluster, answers: list[Answer]) -> set[str]:
    """Placements with their reasons, as the proxy logged them."""
    found: dict[str, str] = {}
    wanted = [answer.headers["X-Storlet-Invocation"] for answer in answers]

    def read() -> bool:
        for line in cluster.process("proxy").log.read_text("utf-8", "replace").splitlines():
            _, mark, rest = line.partition("invocation done id=")
            if mark:
                words = dict(word.partition("=")[::2] for word in rest.split()[1:])
                found[rest.split()[0]] = f"{words['placement']} {words['why']}"
        return all(one in found for one in wanted)

    wait_for(read, 10, "the log of the invocations")
    return {found[one] for one in wanted}


@pytest.mark.parametrize("double", ["polite", "eager", "description"])
def test_all_gets_are_right_while_one_of_two_object_servers_is_of_version_2(
    cluster: Cluster, tool: Tool, double: str
) -> None:
    get_all(tool, 1)
    with replaced(cluster, "object-2", node(double)):
        answers = get_all(tool)
        if tool.placement == "object":
            # Both nodes were used: one ran storlets, the other returned plain data.
            assert {answer.headers["X-Storlet-Ran-On"] for answer in answers} == {"object", "proxy"}
            assert "proxy node-version" in reasons(cluster, answers)
    answers = get_all(tool, 1)
    assert {answer.headers["X-Storlet-Ran-On"] for answer in answers} == {tool.placement}


# --- the headers of an object node, behind Swift's proxy server
# -------------------------------------------------

SEEN = "X-Test-Backend-Storlet-"


def described(**headers: str) -> dict[str, str]:
    """The headers of a GET with a description, for the double ``backend``."""
    version = StorletVersion("AUTH_test", "up.py", "python", "", "up.Up", ())
    given = BackendInvocation("tx-1", version, {}, (), False, 65536).to_headers() or {}
    return {
        name.replace("X-Backend-", "X-Test-Backend-"): value for name, value in given.items()
    } | headers


@pytest.fixture
def direct(cluster: Cluster, client: Client) -> Iterator[Client]:
    """A client whose proxy sends and shows backend headers, and runs no storlets."""
    with replaced(cluster, "proxy", "paste.filter_factory = upgrade_doubles:backend_factory"):
        yield client


def test_the_reasons_of_object_nodes_reach_the_proxys_filter(
    cluster: Cluster, direct: Client
) -> None:
    resumed = direct.get(PLAIN, described(Range="bytes=3-"))
    assert (resumed.status, resumed.headers[f"{SEEN}Refusal"]) == (409, "resume"), resumed
    of_another_version = {
        name: value.replace('"version":"1"', '"version":"2"') for name, value in described().items()
    }
    plain = direct.get(PLAIN, of_another_version)
    assert (plain.status, plain.body, plain.headers[f"{SEEN}Refusal"]) == (200, SMALL, "version")
    with contextlib.ExitStack() as stack:
        for name in NODES:
            stack.enter_context(replaced(cluster, name, node("full")))
        overflow = f"{SEEN}Overflow"
        refused = direct.get(PLAIN, described(**{overflow: "replica"}))
        assert (refused.status, refused.headers[f"{SEEN}Refusal"]) == (409, "full"), refused
        plain = direct.get(PLAIN, described(**{overflow: "proxy"}))
        assert (plain.status, plain.body, plain.headers[f"{SEEN}Refusal"]) == (200, SMALL, "full")


def test_swifts_own_409_for_a_link_has_no_reason(direct: Client) -> None:
    # The storlet's code does not exist; its failure is in the frames, which have a separate ETag.
    framed = direct.get(PLAIN, described())
    assert (framed.status, framed.headers[f"{SEEN}Run"]) == (200, "1")
    answer = direct.get(LINK, described())
    assert (answer.status, answer.headers.get(f"{SEEN}Refusal")) == (409, None), answer


def test_a_link_with_its_targets_hash_runs_at_the_proxy(cluster: Cluster, client: Client) -> None:
    answer = Tool(client, "up.py").get(LINK, "upper")
    assert (answer.status, answer.body) == (200, SMALL.upper())
    assert reasons(cluster, [answer]) == {"proxy link"}
