"""``storlet run`` and ``storlet test`` in sandboxes of this machine, without the cluster's nodes.

The cluster gives the image, the Docker engine and the options only; one test compares the errors.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pytest

from storlet_client.builder import bundler, template, wheels
from storlet_client.cli.main import main
from storlet_client.errors import ConfigurationError, Refused, StorletsError
from storlet_client.local import subject as subjects
from storlet_client.local.here import run_here
from storlet_client.local.run import Input, Outcome
from storlet_client.local.sandbox import LocalNode
from storlet_client.login import Token
from storlet_client.storlets import Storlets
from storlet_middleware.aio.docker_api import DockerApi
from tests.support.accounts import unique
from tests.support.cluster import CHECKOUT, Cluster
from tests.support.forking import Ended
from tests.support.http import Client
from tests.support.local_node import one_node
from tests.support.waiting import retry_until, wait_for

#: Does what its parameter says.
SOURCE = """
import os
import socket
import time


class Fruit:
    def __init__(self, logger):
        self.logger = logger

    def __call__(self, in_files, out_files, params):
        action = params["text"]
        metadata = {"uid": os.getuid()}
        if action == "control":
            metadata["a"] = "b\\x07c"
        out_files[0].set_metadata(metadata)
        if action == "fail":
            raise ValueError("on purpose")
        if action == "memory":
            bytearray(1 << 30)
        if action == "network":
            socket.create_connection(("127.0.0.1", 22))
        if action == "hang":
            out_files[0].write(b"begun")
            time.sleep(60)
        if params["text"] == "secret":
            from storlet import secrets

            self.logger.info(secrets.get("key").decode())
            out_files[0].write(secrets.get("key"))
            return
        out_files[0].write(in_files[0].read())
        self.logger.info("copied")
"""


@pytest.fixture(scope="module", autouse=True)
def options(cluster: Cluster) -> Iterator[None]:
    """The image and the Docker engine of the cluster."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STORLET_LOCAL_CONF", str(cluster.storlet_conf))
        patch.setenv("PYTHONPATH", str(CHECKOUT))
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = template.make(tmp_path_factory.mktemp("local") / "fruit")
    (made / "src/fruit.py").write_text(SOURCE)
    return made


@pytest.fixture(scope="module")
def bundle(folder: Path) -> Path:
    return bundler.build(folder, folder / "dist", wheels.Sandbox())


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("out") / "output"


@pytest.fixture(scope="module")
def node(cluster: Cluster, output: Path) -> Iterator[LocalNode]:
    with one_node(cluster, output) as node:
        yield node


class Here:
    """The command ``storlet`` in this process, where all commands share the node."""

    def __init__(self, captured: pytest.CaptureFixture[str]) -> None:
        self._captured = captured

    def run(self, *words: str) -> Ended:
        self._captured.readouterr()
        code = main(words)
        return Ended(code, *self._captured.readouterr())


@pytest.fixture
def here(node: LocalNode, capfd: pytest.CaptureFixture[str]) -> Here:
    return Here(capfd)


def run(node: LocalNode, bundle: Path, action: str, **limits: str) -> Outcome:
    source = Input(bundle.parent.parent / "sample.txt")
    return node.run(bundle, [source], {"text": action}, limits)


def left(cluster: Cluster) -> list[str]:
    """Containers and directories of local nodes, but those of the fixture ``node``."""
    label = f"org.storlets={cluster.node_id}-local-1"
    top = Path(f"{cluster.run_dir}-local")
    folders = [str(path) for path in top.iterdir() if path.is_dir() and path.name != "0"]
    return [*DockerApi(cluster.docker_host).containers(label), *folders]


def storlet(*words: str, stdin: BinaryIO | None = None) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-W", "ignore", "-m", "storlet_client.cli.main", *words]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=stdin, stdout=pipe, stderr=pipe)


def test_a_run_gives_output_metadata_log_and_usage(
    node: LocalNode, bundle: Path, output: Path
) -> None:
    outcome = run(node, bundle, "copy")
    assert outcome.is_ok, outcome
    assert output.read_bytes().endswith((bundle.parent.parent / "sample.txt").read_bytes())
    assert "copied" in outcome.log
    assert int(outcome.metadata["uid"]) >= 100_000
    assert outcome.usage.startswith("cpu=")


def test_a_run_has_its_secrets(node: LocalNode, bundle: Path, output: Path) -> None:
    source = Input(bundle.parent.parent / "sample.txt")
    given = {"key": b"a value of a test"}
    outcome = node.run(bundle, [source], {"text": "secret"}, secrets=given)
    assert outcome.is_ok, outcome
    assert output.read_bytes().endswith(given["key"])
    assert "INFO: [secret]" in outcome.log
    assert run(node, bundle, "secret").code == "storlet.failed"


def test_a_sandbox_has_no_network(node: LocalNode, bundle: Path) -> None:
    outcome = run(node, bundle, "network")
    assert outcome.message == "PermissionError: [Errno 1] Operation not permitted", outcome


@pytest.fixture(scope="module")
def deployed(bundle: Path, users: dict[str, Client]) -> Iterator[Storlets]:
    """A new account with the storlet and an object."""
    client = users["admin:admin"].on(f"AUTH_{unique('local')}")
    assert client.put("").status in {201, 202}
    with Storlets(Token(client.storage_url, client.token)) as storlets:
        storlets.enable()
        # The cases of the template are for its own source.
        storlets.deploy_bundle("fruit", bundle.read_bytes(), check=False)
        storlets.upload("samples/input", b"one apple\n")
        yield storlets


@pytest.mark.parametrize("action", ["fail", "memory", "copy", "control"])
def test_errors_are_those_of_a_cluster(
    node: LocalNode, bundle: Path, deployed: Storlets, action: str
) -> None:
    parameters = {"text" if action != "copy" else "txt": action}
    limits = {"Memory": "32M"}
    with pytest.raises(Refused) as caught:
        _read(deployed, parameters, limits)
    outcome = node.run(bundle, [Input(bundle)], parameters, limits)
    assert outcome.code == caught.value.code
    assert caught.value.message.startswith(outcome.message)
    if action == "control":
        with Path(os.devnull).open("wb") as null:
            here = run_here(
                subjects.read(bundle), [Input(bundle)], os.dup(null.fileno()), parameters
            )
        assert (here.code, here.message) == (outcome.code, outcome.message)


def _read(storlets: Storlets, parameters: dict[str, str], limits: dict[str, str]) -> bytes:
    with storlets.run("fruit", "samples/input", parameters, limits=limits) as stream:
        return stream.read()


def test_a_storlet_seeks_in_the_file(node: LocalNode, output: Path, tmp_path: Path) -> None:
    made = template.make(tmp_path / "fruit")
    (made / "src/fruit.py").write_text(
        SOURCE.replace("in_files[0].read()", "seen(in_files[0])")
        + """

def seen(source):
    source.seek(-5, 2)
    return source.read() + b"%d" % source.size
"""
    )
    manifest = made / "storlet.toml"
    manifest.write_text('input = "seekable"\n' + manifest.read_text())
    outcome = run(node, bundler.build(made, made / "dist", wheels.Sandbox()), "copy")
    sample = (made / "sample.txt").read_bytes()
    assert outcome.is_ok, outcome
    assert output.read_bytes().endswith(sample[-5:] + b"%d" % len(sample))
    assert ";in=5;" in outcome.usage


def test_a_run_in_a_project_names_the_input_only(
    here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(template.make(tmp_path / "cherry"))
    done = here.run("run", "sample.txt", "-p", "text=apple")
    assert (done.code, done.out) == (0, "one apple\nthree apples\n"), done


def test_a_plain_file_runs_on_standard_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # outside of a project
    sample = CHECKOUT / "storlets/csv_filter"
    given = json.loads((sample / "manifest.json").read_text())["parameters"]
    options = [word for key, value in given.items() for word in ("-p", f"{key}={value}")]
    with (sample / "input.csv").open("rb") as source:
        done = storlet("run", str(sample / "csv_filter.py"), *options, stdin=source)
        out, err = done.communicate(timeout=120)
    assert (done.returncode, out) == (0, (sample / "expected.csv").read_bytes()), err


def test_a_java_project_runs_and_is_checked(here: Here, tmp_path: Path) -> None:
    made = template.make(tmp_path / "grape", "java")
    bundle = bundler.build(made, tmp_path, wheels.Sandbox())
    done = here.run("run", str(bundle), str(made / "sample.txt"), "-p", "text=apple")
    assert (done.code, done.out) == (0, "one apple\nthree apples\n"), done
    assert here.run("check", str(bundle)).out == "grape 0.1.0 loads in the sandbox\n"


def test_the_cases_of_a_project_and_of_its_bundle_run_in_one_sandbox(
    here: Here, tmp_path: Path
) -> None:
    made = template.make(tmp_path / "plum")
    built = bundler.build(made, tmp_path / "dist", wheels.Sandbox())
    for source in (made, built):
        done = here.run("test", "--sandbox", str(source))
        assert (done.code, "lines with apples  ok" in done.out) == (0, True), done


def test_a_storlet_with_two_outputs_runs_here_and_on_a_cluster(
    here: Here, tmp_path: Path, users: dict[str, Client]
) -> None:
    made = template.make(tmp_path / "date")
    source, second = made / "src/date.py", tmp_path / "second"
    source.write_text(source.read_text().replace("out_files[0]", "out_files[1]"))
    (made / "nothing.txt").write_bytes(b"")
    toml = (
        (made / "storlet.toml")
        .read_text()
        .replace('output = "expected.txt"', 'output = ["nothing.txt", "expected.txt"]')
    )
    (made / "storlet.toml").write_text(f"{toml}\n[outputs]\ncount = 2\n")
    done = here.run("test", "--sandbox", str(made))
    assert (done.code, "lines with apples  ok" in done.out) == (0, True), done
    words = ("run", str(made), str(made / "sample.txt"), "-p", "text=apple", "-m", "colour=red")
    done = here.run(*words, "--further-output", str(second))
    assert (done.code, done.out) == (0, ""), done
    assert second.read_bytes() == b"one apple\nthree apples\n"
    assert "metadata of output 2: colour: red" in done.err
    client = users["admin:admin"].on(f"AUTH_{unique('local')}")
    assert client.put("").status in {201, 202}
    bundle = bundler.build(made, tmp_path / "dist", wheels.Sandbox())
    with Storlets(Token(client.storage_url, client.token)) as storlets:
        storlets.enable()
        storlets.deploy_bundle("date", bundle.read_bytes(), check=True)
        storlets.upload("samples/input", (made / "sample.txt").read_bytes())
        with pytest.raises(Refused, match="number of outputs: 1: storlet date makes 2"):
            storlets.run("date", "samples/input").__enter__()
        several = {"outputs": ["samples/second"]}
        with storlets.run("date", "samples/input", {"text": "apple"}, **several) as stream:
            assert stream.read() == b""
        with storlets.read("samples/second") as stream:
            assert stream.read() == b"one apple\nthree apples\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_command_that_ends_early_leaves_nothing(
    cluster: Cluster, node: LocalNode, folder: Path, number: signal.Signals
) -> None:
    command = storlet("run", str(folder), str(folder / "sample.txt"), "-p", "text=hang")
    assert command.stdout is not None
    assert command.stdout.read(5) == b"begun"
    assert left(cluster) != []
    command.send_signal(number)
    command.communicate(timeout=60)
    assert command.returncode in {130, -signal.SIGKILL}
    wait_for(lambda: left(cluster) == [], 60, "the removal of the sandbox")


def test_the_next_start_removes_what_a_killed_owner_left(
    cluster: Cluster, node: LocalNode, bundle: Path, tmp_path: Path
) -> None:
    with (tmp_path / "out").open("wb") as file:
        with LocalNode(file.fileno()) as killed:
            assert run(killed, bundle, "copy").is_ok
            os.kill(killed.pid, signal.SIGKILL)
            # Its children have their signal when it has ended.
            os.waitid(os.P_PID, killed.pid, os.WEXITED | os.WNOWAIT)
            with pytest.raises(StorletsError, match="ended without an answer"):
                run(killed, bundle, "copy")
        assert left(cluster) != []
        with LocalNode(file.fileno()) as again:
            assert run(again, bundle, "copy").is_ok
    assert left(cluster) == []


@pytest.mark.parametrize(
    ("option", "reason"),
    [
        ("image = no-such-image:1", "the sandbox image no-such-image:1 is missing: 'make up'"),
        ("docker_url = unix:///no-such-socket", "systemctl start docker"),
        ("idle_stop = 1", "unknown option idle_stop"),
    ],
)
def test_the_reason_why_there_is_no_sandbox_is_given(
    cluster: Cluster, bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    option: str, reason: str,
) -> None:  # fmt: skip
    conf = tmp_path / "conf"
    engine = "" if "docker_url" in option else f"docker_url = {cluster.docker_host}\n"
    places = f"run_dir = {tmp_path}/r\nstate_dir = {tmp_path}/s\n"
    conf.write_text(f"[sandbox]\n{places}{engine}{option}\n")
    monkeypatch.setenv("STORLET_LOCAL_CONF", str(conf))
    with LocalNode(2) as node, pytest.raises(ConfigurationError, match="--no-sandbox") as caught:
        node.load(bundle)
    assert reason in str(caught.value)


def test_all_faults_of_a_project_are_found_in_one_check(here: Here, tmp_path: Path) -> None:
    made = template.make(tmp_path / "pear")
    source = made / "src/pear.py"
    source.write_text(source.read_text().replace("class Pear", "class Apple"))
    for name, text in (("broken", "import no_such_module"), ("ending", "import os; os._exit(3)")):
        (made / "src/lib" / name).mkdir(parents=True)
        (made / "src/lib" / name / "__init__.py").write_text(text)
    (made / "src/lib/other.so").write_bytes(b"MZ")
    done = here.run("check", str(made))
    assert done.code == 1
    for fault in (
        "storlet: lib/other.so: not a native library of Linux",
        "storlet: library broken: ModuleNotFoundError: No module named 'no_such_module'",
        "storlet: library ending: the import ended the run: storlet.failed",
        "storlet: storlet.load: LoadError: module pear has no class Pear",
    ):
        assert fault in done.err, done


def test_a_debugger_connects_to_the_jvm_of_a_java_project(tmp_path: Path) -> None:
    made = template.make(tmp_path / "grape", "java")
    words = ("--no-sandbox", "--debug", str(made), str(made / "sample.txt"), "-p", "text=apple")
    command = storlet("run", *words)
    assert command.stderr is not None
    lines = iter(command.stderr.readline, b"")
    told = next(line for line in lines if b"waiting for a debugger (jdwp) on " in line)
    host, _, port = told.split()[-1].decode().rpartition(":")
    assert host == "127.0.0.1"
    with debugger(host, int(port)) as connection:
        connection.sendall(JDWP_HANDSHAKE)
        assert connection.recv(len(JDWP_HANDSHAKE), socket.MSG_WAITALL) == JDWP_HANDSHAKE
        assert command.poll() is None
        # The JVM sends it when it has stopped; before that, it would stop after it was continued.
        (length,) = struct.unpack(">I", connection.recv(4, socket.MSG_WAITALL))
        packet = connection.recv(length - 4, socket.MSG_WAITALL)
        assert packet[5:7] == JDWP_EVENT
        connection.sendall(JDWP_DISPOSE)
        out, err = command.communicate(timeout=120)
    assert (command.returncode, out) == (0, b"one apple\nthree apples\n"), err


#: Of the protocol between debuggers and JVMs: the start of each connection, the command
#: Event.Composite of the JVM, and VirtualMachine.Dispose, after which the JVM continues.
JDWP_HANDSHAKE = b"JDWP-Handshake"
JDWP_EVENT = bytes((64, 100))
JDWP_DISPOSE = struct.pack(">IIBBB", 11, 1, 0, 1, 6)


def debugger(host: str, port: int) -> socket.socket:
    """A connection to a JVM that may be about to listen."""

    def connected() -> socket.socket | None:
        try:
            return socket.create_connection((host, port), 60)
        except ConnectionRefusedError:
            return None

    connection: socket.socket | None = retry_until(connected, 60)
    assert connection is not None, "the JVM does not listen"
    return connection


def test_a_java_project_runs_in_a_jvm_here(here: Here, tmp_path: Path) -> None:
    made = template.make(tmp_path / "grape", "java")
    source = made / "src/Grape.java"
    words = ("--no-sandbox", str(made), str(made / "sample.txt"))
    done = here.run("run", *words, "-p", "text=apple", "-m", "colour=red")
    assert (done.code, done.out) == (0, "one apple\nthree apples\n"), done
    assert "kept 2 lines" in done.err
    assert "metadata colour: red" in done.err
    several, second = source.read_text().replace("outputs.get(0)", "outputs.get(1)"), tmp_path / "o"
    once, manifest = source.read_text(), (made / "storlet.toml").read_text()
    source.write_text(several)
    (made / "storlet.toml").write_text(f"{manifest}\n[outputs]\ncount = 2\n")
    done = here.run("run", *words, "-p", "text=apple", "--further-output", str(second))
    assert (done.code, done.out) == (0, ""), done
    assert second.read_bytes() == b"one apple\nthree apples\n"
    source.write_text(once)
    (made / "storlet.toml").write_text(manifest)
    text = source.read_text().replace("int kept = 0;", 'int kept = Integer.parseInt("no");')
    source.write_text(text)
    done = here.run("run", *words)
    assert (done.code, done.out) == (4, ""), done
    assert "storlet: storlet.failed: java.lang.NumberFormatException" in done.err
    assert "at Grape.invoke(Grape.java" in done.err
