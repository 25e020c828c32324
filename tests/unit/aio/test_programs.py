"""The table of a cluster's processes: their order, their keys, their health."""

from __future__ import annotations

import http.server
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from storlet_middleware.aio import configs, programs
from storlet_middleware.aio.configs import Choices
from storlet_middleware.aio.home import Home
from storlet_middleware.aio.programs import DOCKERD, KEEPER, KEY, SANDBOXD, Entry

VENV = Path("/venv")


@pytest.fixture(autouse=True)
def _configured(place: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """The configuration files of the cluster, which belong to the test's user."""
    monkeypatch.setattr(configs.shutil, "chown", lambda *_: None)
    configs.write_all(place, Choices())


def table(place: Home) -> dict[str, Entry]:
    return {entry.name: entry for entry in programs.table(place, VENV, with_sandboxd=True)}


def test_a_process_starts_after_those_that_it_needs(place: Home) -> None:
    names = list(table(place))
    assert names[0] == "memcached"
    assert names[-1] == KEEPER
    assert names.index(SANDBOXD) < names.index("proxy")
    assert set(names) == {*place.ports, SANDBOXD, KEEPER}


def test_a_checkout_without_sandboxd_starts_none(place: Home) -> None:
    entries = programs.table(place, VENV, with_sandboxd=False)
    assert SANDBOXD not in {entry.name for entry in entries}


def test_sandboxd_tests_all_classes_or_the_chosen_one_at_its_start(place: Home) -> None:
    assert "--test" not in table(place)[SANDBOXD].command
    entries = programs.table(place, VENV, with_sandboxd=True, tested=("user",))
    (sandboxd,) = (entry for entry in entries if entry.name == SANDBOXD)
    assert sandboxd.command[-2:] == ["--test", "user"]


def test_the_servers_of_swift_start_without_a_resolver_of_names(place: Home) -> None:
    servers = {entry.name for entry in table(place).values() if "EVENTLET_NO_GREENDNS" in entry.env}
    assert servers == {"account-1", "container-1", "object-1", "object-2", "proxy"}


@pytest.mark.parametrize(
    ("file", "restarted"),
    [
        ("proxy-server.conf", {"proxy"}),
        ("object-server-2.conf", {"object-2"}),
        ("storlet.conf", {"proxy", "object-1", "object-2", SANDBOXD, KEEPER}),
        ("internal-client.conf", {"proxy", "object-1", "object-2"}),
        ("swift.conf", {"proxy", "object-1", "object-2", "account-1", "container-1", SANDBOXD,
                        KEEPER}),
    ],
)  # fmt: skip
def test_a_changed_file_restarts_the_processes_that_read_it(
    place: Home, file: str, restarted: set[str]
) -> None:
    before = table(place)
    with (place.real_conf / file).open("a") as conf:
        conf.write("# changed\n")
    after = table(place)
    assert {name for name in after if after[name] != before[name]} == restarted


def test_a_process_is_current_only_with_the_key_of_its_entry(place: Home) -> None:
    entry = table(place)["proxy"]
    for key, expected in ((entry.env[KEY], True), ("other", False)):
        command = [sys.executable, "-c", "print(flush=True); input()"]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, KEY: key}
        ) as process:
            assert process.stdout is not None
            process.stdout.readline()
            assert programs.is_current(process.pid, entry) is expected
            process.kill()
    assert not programs.is_current(1 << 30, entry)


def test_saved_entries_are_loaded_and_a_damaged_file_means_none(place: Home) -> None:
    assert programs.load(place) == []
    entries = list(table(place).values())
    programs.save(place, entries)
    assert programs.load(place) == entries
    (place.real / "programs.json").write_text("{")
    assert programs.load(place) == []


def test_a_pid_is_changed_for_one_process_of_the_description(place: Home) -> None:
    programs.set_pid(place, "proxy", 7)
    assert programs.load_cluster(place) == {}
    described = [{"name": "proxy", "pid": 1}, {"name": DOCKERD, "pid": 2}]
    programs.save_cluster(place, {"processes": described})
    programs.set_pid(place, DOCKERD, None)
    programs.set_pid(place, "unknown", 9)
    pids = {one["name"]: one["pid"] for one in programs.load_cluster(place)["processes"]}
    assert pids == {"proxy": 1, DOCKERD: None}


def test_the_engine_is_described_only_when_it_is_ours(place: Home) -> None:
    log, entries = Path("/log"), list(table(place).values())
    names = [one["name"] for one in programs.described(place, entries, None, log, "unix:///d")]
    assert names == [entry.name for entry in entries]
    *_, last = programs.described(place, entries, 7, log, "unix:///d")
    assert (last["name"], last["pid"], last["socket"]) == (DOCKERD, 7, "/d")


class Server(http.server.BaseHTTPRequestHandler):
    """Answers the health check with ``status``."""

    status = 200

    def do_GET(self) -> None:
        self.send_response(self.status if self.path == "/healthcheck" else 404)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Keep the output of the tests clean."""


@pytest.mark.parametrize(("status", "expected"), [(200, True), (503, False)])
def test_a_server_answers_when_its_health_check_succeeds(
    place: Home, monkeypatch: pytest.MonkeyPatch, status: int, *, expected: bool
) -> None:
    monkeypatch.setattr(Server, "status", status)
    with http.server.HTTPServer(("127.0.0.1", 0), Server) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        entry = Entry("proxy", [], "", port=server.server_port)
        assert programs.answers(place, entry) is expected
        thread.join()
    assert not programs.answers(place, entry), "the server has ended"


@pytest.mark.parametrize("name", ["memcached", SANDBOXD])
def test_a_process_without_http_answers_when_it_accepts_connections(
    place: Home, tmp_path: Path, name: str
) -> None:
    kind = socket.SOCK_STREAM if name == "memcached" else socket.SOCK_SEQPACKET
    family = socket.AF_INET if name == "memcached" else socket.AF_UNIX
    with socket.socket(family, kind) as listener:
        listener.bind(("127.0.0.1", 0) if name == "memcached" else str(tmp_path / "s"))
        listener.listen()
        port = listener.getsockname()[1] if name == "memcached" else None
        entry = Entry(name, [], "", port=port, socket=None if port else str(tmp_path / "s"))
        assert programs.answers(place, entry)
    assert not programs.answers(place, entry)
