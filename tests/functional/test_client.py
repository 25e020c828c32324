"""The command ``storlet`` against a cluster: the life of a storlet.

It runs as its wheel installs it, with the oldest Python of this machine; the life of a storlet with
the newest, too.  ``make matrix`` runs the unit tests of each command with each Python.
"""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from storlet_client.cli.main import cli, main
from tests.support.accounts import unique
from tests.support.bundles import tool
from tests.support.client_package import interpreters, layered
from tests.support.cluster import CHECKOUT, Cluster
from tests.support.forking import Commands, Ended, commands_of
from tests.support.http import Client
from tests.support.local_node import one_node
from tests.support.waiting import retry_until

SAMPLE = CHECKOUT / "storlets/csv_filter"


class Shell:
    """The command, in a process of its own, as the owner of a new account.

    :param place: the environment that it is installed in.
    :param commands: runs commands of this environment.
    """

    def __init__(self, place: Path, commands: Commands, client: Client) -> None:
        self.client = client
        self._place = place
        self._commands = commands
        self._command = place / "bin/storlet"
        self._environment = {
            "PATH": os.environ["PATH"],
            "OS_STORAGE_URL": client.storage_url,
            "OS_AUTH_TOKEN": client.token,
        }

    def of(self, client: Client) -> Shell:
        """The command as another user."""
        return Shell(self._place, self._commands, client)

    def run(self, *words: str, code: int = 0) -> str:
        """Standard output; standard error for other exit codes than 0."""
        return self._commands.run(words, self._environment, code)

    def ended(self, *words: str) -> Ended:
        """Exit code, standard output and standard error."""
        return self._commands.ended(words, self._environment)

    def start(self, *words: str, before: Sequence[str] = ()) -> subprocess.Popen[str]:
        """The script, which is not waited for.

        :param before: a program that executes it.
        """
        return subprocess.Popen(
            [*before, self._command, *words],
            env=self._environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip


@pytest.fixture(scope="module", params=interpreters())
def installed(request: pytest.FixtureRequest) -> Iterator[tuple[Path, Commands]]:
    """The command in an environment of its own."""
    place = layered(interpreters()[request.param])
    with commands_of(place, "storlet", "storlet_client.cli.main") as commands:
        yield place, commands


#: For tests of outcomes that depend on the cluster.
WITH_OLDEST = pytest.mark.parametrize("installed", [next(iter(interpreters()))], indirect=True)


@pytest.fixture
def shell(installed: tuple[Path, Commands], users: dict[str, Client]) -> Shell:
    return Shell(*installed, users["admin:admin"].on(f"AUTH_{unique('client')}"))


def test_the_life_of_a_storlet(shell: Shell, tmp_path: Path) -> None:
    file = str(SAMPLE / "csv_filter.py")
    assert shell.client.put("").status in {201, 202}
    assert "storlet enable" in shell.run("deploy", file, code=4)
    assert "created container storlet" in shell.run("enable")
    assert "FAIL" not in shell.run("doctor")
    assert "new: " in shell.run("deploy", file)
    assert "memory: unset -> 128M" in shell.run("deploy", file, "--limit", "memory=128M")
    assert "unchanged" in shell.run("deploy", file, "--limit", "memory=128M")
    (row,) = json.loads(shell.run("list", "-f", "json"))
    assert (row["name"], row["declared"]) == ("csv_filter.py", {"memory": "128M"})
    for container in ("samples", "stored"):
        assert shell.client.put(container).status == 201
    content = (SAMPLE / "input.csv").read_bytes()
    assert shell.client.put("samples/input.csv", content).status == 201
    run = ("invoke", "csv_filter.py", "samples/input.csv", "-p", "columns=station")
    expected = shell.run(*run)
    assert expected.splitlines()[0] == "station"
    assert len(expected.splitlines()) == len(content.splitlines())
    place = tmp_path / "out.csv"
    shell.run(*run, "-o", str(place))
    assert place.read_text() == expected
    shell.run(*run, "--to", "stored/copied.csv")
    uploaded = ("--put", str(SAMPLE / "input.csv"), "-p", "columns=station", "--keep-log")
    shell.run("invoke", "csv_filter.py", "stored/put.csv", *uploaded)
    for name in ("copied.csv", "put.csv"):
        assert shell.client.get(f"stored/{name}").text == expected
    (log,) = json.loads(shell.run("logs", "csv_filter.py", "-f", "json"))
    assert "outcome: ok" in shell.run("logs", "csv_filter.py", log["invocation"])
    assert (
        shell.run("download", "csv_filter.py").encode() == (SAMPLE / "csv_filter.py").read_bytes()
    )
    failed = shell.run(*run[:3], "-p", "columns=none", code=4)
    assert "no column 'none'" in failed
    assert shell.run("delete", "csv_filter.py") == "deleted csv_filter.py\n"
    assert "no storlet csv_filter.py" in shell.run("show", "csv_filter.py", code=4)


@WITH_OLDEST
def test_the_doctor_finds_what_is_wrong_and_how_to_repair_it(shell: Shell, tmp_path: Path) -> None:
    for name, text in (("tool.py", GOOD), ("bad.py", "import no_such_module\n" + GOOD)):
        (tmp_path / name).write_text(text)
    (tmp_path / "lib one.py").write_text("")
    shell.run("enable")
    shell.run("deploy", str(tmp_path / "tool.py"), "--dependency", str(tmp_path / "lib one.py"))
    shell.run("deploy", str(tmp_path / "bad.py"), "--main", "bad.Tool", "--no-check")
    shell.run("upload", str(tmp_path / "tool.py"), "samples/in put")
    shell.run("grant", "samples", "test2:tester2", "tol.py")
    shell.run("invoke", "bad.py", "samples/in put", code=4)
    assert shell.client.delete("dependency/lib one.py").status == 204

    def problems() -> dict[str, tuple[str, str]]:
        done = shell.ended("doctor", "-f", "json", "samples/in put", "samples/inptu")
        assert done.code == 1, done.err
        rows = json.loads(done.out)
        return {row["text"]: (row["subject"], row["remedy"]) for row in rows if not row["is_well"]}

    # The record of the run is written some seconds later.
    assert retry_until(lambda: any("does not load" in text for text in problems()), 30)
    found = problems()
    assert found.pop("dependency lib one.py is missing") == (
        "storlet tool.py",
        "storlet deploy tool.py --main tool.Tool --dependency 'lib one.py'",
    )
    assert found.pop("missing (did you mean in put?)") == (
        "object samples/inptu",
        "storlet upload FILE samples/inptu",
    )
    assert found.pop("test2:tester2 may not read container storlet, which has the storlets") == (
        "grant on samples",
        "swift post --read-acl test2:tester2 storlet",
    )
    through = "test2:tester2 through tol.py, which does not exist (did you mean tool.py?)"
    assert found.pop(through)[1] == "storlet grant samples test2:tester2 tool.py"
    ((text, (subject, remedy)),) = found.items()
    assert (subject, "No module named 'no_such_module'" in text) == ("storlet bad.py", True)
    assert remedy == "storlet deploy bad.py --main bad.Tool"


@WITH_OLDEST
def test_the_doctor_shows_another_user_what_it_may_do(
    shell: Shell, users: dict[str, Client]
) -> None:
    shell.run("enable")
    assert shell.client.put("samples").status == 201
    other = shell.of(users["test2:tester2"].on(shell.client.account))
    table = other.ended("doctor", "samples").out
    assert "FAIL  account: its metadata cannot be read: you do not own it" in table
    assert "FAIL  container storlet: you may not run its storlets" in table
    assert "or: storlet grant samples USER STORLET" in table
    for container in ("storlet", "samples"):
        headers = {"X-Container-Read": "test2:tester2"}
        assert shell.client.post(container, headers).status == 204
    table = other.ended("doctor", "samples").out
    assert "ok    container storlet: you may run its storlets" in table
    assert "ok    container samples: you may read it" in table


@WITH_OLDEST
def test_of_two_deployments_at_once_one_is_whole(shell: Shell, tmp_path: Path) -> None:
    shell.run("enable")
    texts = [GOOD.replace("ANSWER", word * 1000) for word in ("one", "two")]
    started = []
    for number, text in enumerate(texts):
        file = tmp_path / str(number) / "tool.py"
        file.parent.mkdir()
        file.write_text(text)
        started.append(shell.start("deploy", str(file)))
    ends = [(each.communicate(timeout=120), each.returncode) for each in started]
    for (out, err), code in ends:
        assert code == 0 or (code == 5 and "at the same time: deploy again" in err), out + err
    assert 0 in {code for _, code in ends}
    assert shell.client.get("storlet/tool.py").text in texts
    assert "FAIL" not in shell.run("doctor")


@WITH_OLDEST
def test_two_deployments_of_a_bundle_at_once_are_two_versions(shell: Shell, tmp_path: Path) -> None:
    shell.run("enable")
    files = [tmp_path / f"{version}.storlet" for version in ("one", "two")]
    for file in files:
        file.write_bytes(tool("tool", file.stem))
    started = [shell.start("deploy", str(file)) for file in files]
    ends = [(each.communicate(timeout=120), each.returncode) for each in started]
    rows = json.loads(shell.run("versions", "tool", "-f", "json"))
    done = [end for end, code in ends if code == 0]
    assert len(rows) == len(done) >= 1, ends
    assert [row["number"] for row in rows] == list(range(len(rows), 0, -1))
    assert shell.client.put("samples").status == 201
    assert shell.client.put("samples/a", b"abc").status == 201
    assert shell.run("invoke", "tool", "samples/a") == f"{rows[0]['version']} 3 "
    assert "FAIL" not in shell.run("doctor")


@WITH_OLDEST
def test_a_full_disk_leaves_no_file(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "tool.py").write_text(GOOD + "#" * 100_000)
    shell.run("enable")
    shell.run("deploy", str(tmp_path / "tool.py"), "--no-check")
    limited = ("bash", "-c", 'ulimit -f 16; exec "$@"', "limited")
    command = shell.start("download", "tool.py", "-o", str(tmp_path / "copy"), before=limited)
    _, err = command.communicate(timeout=120)
    assert (command.returncode, "copy: File too large" in err) == (5, True), err
    assert [each.name for each in tmp_path.iterdir()] == ["tool.py"]


#: Commands with a bad input, their exit code and a part of what they say.
BAD = (
    ("doctor sampless", 1, "container sampless: missing (did you mean samples?)"),
    ("--os-auth-token nonsense enable", 4, "401"),
    ("info -f xml", 2, "'xml'"),
    ("init {folder}/fruit", 3, "it exists already"),
    ("init {folder}/new --template filte", 2, "is not one of 'filter', 'csv', 'image'"),
    ("build {folder}", 3, "storlet.toml: No such file"),
    ("versions nosuch", 4, "no bundle nosuch"),
    ("rollback fruit 7", 4, "7"),
    (
        "run --no-sandbox {folder}/fruit {folder}/fruit/sample.txt -p txt=a",
        3,
        "the storlet has text",
    ),
    ("test {folder}/fruit -k nothing", 3, "no name contains 'nothing'"),
    ("check {folder}", 1, "storlet.toml: No such file"),
    ("--os-auth-token nonsense list", 4, "401"),
    ("show nosuch", 4, "no storlet nosuch"),
    ("deploy {folder}/fruit/sample.txt", 3, "the language of sample.txt is unknown"),
    ("deploy {folder}/fruit/sample.txt --language pythonn --main a.A", 4, "cluster has python"),
    ("delete nosuch", 4, "no storlet nosuch"),
    ("download nosuch -o {folder}/none", 4, "no storlet nosuch"),
    ("upload {folder}/none samples/a", 2, "No such file"),
    ("upload {folder}/fruit/sample.txt samples", 3, "write container/object"),
    ("invoke friut samples/input", 4, "no storlet friut: did you mean fruit?"),
    ("invoke fruit samples/none -p text=a", 4, "404"),
    ("invoke fruit samples/input -p text", 3, "write -p KEY=VALUE"),
    ("logs fruit nosuch", 4, "no log nosuch"),
    ("library -f xml", 2, "'xml'"),
    ("distribute std:grep", 3, "give a container"),
    ("query SELECT samples/input --glob *.csv", 3, "leave out the object"),
    ("runs --outcome nosuch", 4, "outcome"),
    ("show-run nosuch", 4, "no record of nosuch"),
    ("replay nosuch", 4, "no record of nosuch"),
    ("grants nosuch", 4, "404"),
    ("grant storlet test2:tester2 fruit", 4, "has no grants"),
    ("revoke nosuch test2:tester2 fruit", 4, "404"),
    ("rules show more", 2, "unexpected extra argument"),
    ("rules put {folder}/none", 2, "No such file"),
    ("--os-auth-token nonsense rules delete", 4, "401"),
    ("rules decide GET samples", 3, "write container/object"),
    ("secret set Api_Token --generate", 3, "secret 'Api_Token': want a lower-case letter"),
    ("secret list -f xml", 2, "'xml'"),
    ("secret delete nosuch", 4, "there is no secret nosuch"),
    ("completion tcsh", 2, "'tcsh'"),
    ("dotcor", 2, "Did you mean 'doctor'?"),
)


def test_bad_inputs_of_each_command_are_refused_by_name(
    users: dict[str, Client], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """In one process, because there are many."""
    client = users["admin:admin"].on(f"AUTH_{unique('bad')}")
    monkeypatch.setenv("OS_STORAGE_URL", client.storage_url)
    monkeypatch.setenv("OS_AUTH_TOKEN", client.token)
    folder = tmp_path / "fruit"
    for words in (
        ("enable",), ("init", str(folder)), ("build", str(folder)),
        ("deploy", str(folder / "dist/fruit-0.1.0.storlet")),
        ("upload", str(folder / "sample.txt"), "samples/input"),
        ("info",), ("rules", "show"), ("completion", "bash"),
    ):  # fmt: skip
        assert main(words) == 0, capfd.readouterr()
    capfd.readouterr()
    wrong = {}
    for line, code, text in BAD:
        found = main(line.format(folder=tmp_path).split())
        out, err = capfd.readouterr()
        if found != code or text not in out + err:
            wrong[line] = (found, out, err)
    assert not wrong, "\n".join(f"{line}: {found}" for line, found in wrong.items())
    named = {word for line, *_ in BAD for word in line.split()}
    assert set(cli.commands) - named == {"sandboxes"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fruit"]


#: Characters that a URL, a header, a query, a list or a shell could take for something else.
ODD = "s p/\u00fc\u4e16%41, 50% ?a=b#c;'\"\n../..&+é"
ECHO = """\
import json


class Echo:
    def __init__(self, logger):
        self.logger = logger

    def __call__(self, in_files, out_files, params):
        own = {key: value for key, value in params.items() if not key.startswith("storlet_")}
        self.logger.info("said")
        out_files[0].set_metadata({})
        out_files[0].write(json.dumps([own, [each.read().decode() for each in in_files]]).encode())
        out_files[0].close()
"""
#: Names of objects that a client, a proxy or a shell could take for something else.
NAMES = [
    ODD, ".", "..", "../../up", "a/../b", "//", "/first", "last/", "two//slashes", "-n", "--", "-",
    "%2e%2e", "%", "?query=1", "#part", "line\nfeed", "return\r", "separator\u2028", " ", "\u4e16",
]  # fmt: skip
FEW_NAMES = [ODD, "..", "-n", "--", "-", "%2e%2e", "%", "line\nfeed"]
#: Containers with the names of their objects.  How one name is sent does not depend on the other,
#: so one container has all names.
CONTAINERS = {"-c": FEW_NAMES, "..": FEW_NAMES, "c %41?#\n;,\u00e9": NAMES}


class Here:
    """The command in this process, as the owner of an account."""

    def __init__(self, client: Client, captured: pytest.CaptureFixture[str]) -> None:
        self.client = client
        self._captured = captured

    def run(self, *words: str) -> str:
        """Standard output of a command that has to succeed."""
        self._captured.readouterr()
        code = main(words)
        shown = self._captured.readouterr()
        assert code == 0, shown
        return shown.out


@pytest.fixture
def odd(
    users: dict[str, Client], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Here:
    client = users["admin:admin"].on(f"AUTH_{unique('odd')}")
    monkeypatch.setenv("OS_STORAGE_URL", client.storage_url)
    monkeypatch.setenv("OS_AUTH_TOKEN", client.token)
    return Here(client, capfd)


def test_odd_names_and_parameters_arrive_as_they_are(odd: Here, tmp_path: Path) -> None:
    client, run = odd.client, odd.run
    code, data = tmp_path / "\u00e9cho\u4e16.py", tmp_path / ODD.replace("/", ":")
    code.write_text(ECHO)
    data.write_text("data")
    run("enable")
    assert client.post("", {"X-Account-Meta-Storlet-Records": "all"}).status == 204
    run("deploy", str(code))
    (row,) = json.loads(run("list", "-f", "json"))
    assert row["name"] == code.name
    assert json.loads(run("show", code.name, "-f", "json"))["name"] == code.name
    assert run("download", code.name) == ECHO
    run("upload", str(data), f"samples/{ODD}")
    assert [each["name"] for each in client.listing("samples")] == [ODD]
    assert f"object samples/{ODD}" in [
        each["subject"] for each in json.loads(run("doctor", f"samples/{ODD}", "-f", "json"))
    ]
    words = ["invoke", code.name, f"samples/{ODD}", "--resource", f"samples/{ODD}", "--keep-log"]
    words += ["-p", f"k {ODD}={ODD}", "-p", "empty=", "-p", "b= x ", "-p", "percent=100%"]
    given = {f"k {ODD}".partition("=")[0]: f"k {ODD}={ODD}".partition("=")[2]}
    given |= {"empty": "", "b": " x ", "percent": "100%"}
    expected = [given, ["data", "data"]]
    assert json.loads(run(*words)) == expected
    run(*words, "-o", str(tmp_path / "out put"))
    assert json.loads((tmp_path / "out put").read_text()) == expected
    run(*words, "--to", f"samples/copy {ODD}")
    run("invoke", code.name, f"samples/put {ODD}", "--put", str(data), "-p", f"a={ODD}")
    stored = {each["name"] for each in client.listing("samples")}
    assert stored == {ODD, f"copy {ODD}", f"put {ODD}"}
    logs = json.loads(run("logs", code.name, "-f", "json"))
    assert "said" in run("logs", code.name, logs[0]["invocation"])

    def recorded() -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = json.loads(run("runs", code.name, "-f", "json"))
        return rows if len(rows) == 4 else []

    records = retry_until(recorded, 30)
    assert {row["object"] for row in records} == {f"samples/{ODD}", f"samples/put {ODD}"}
    first = next(row for row in records if row["method"] == "GET")
    assert (first["parameters"], first["resources"]) == (given, [f"samples/{ODD}"])
    # A line for each row, also if its names have line feeds.
    assert len(run("runs", code.name).splitlines()) == 4
    assert "sha256" in run("replay", first["id"])
    run("grant", "samples", "test2:t\u00e9ster%41", code.name)
    (grant,) = json.loads(run("grants", "samples", "-f", "json"))
    assert grant == {"user": "test2:t\u00e9ster%41", "storlet": code.name}
    run("revoke", "samples", "test2:t\u00e9ster%41", code.name)
    run("delete", code.name)


@pytest.mark.parametrize(("container", "all_names"), CONTAINERS.items(), ids=[*CONTAINERS])
def test_odd_names_are_distributed_as_they_are(
    odd: Here, tmp_path: Path, container: str, all_names: list[str]
) -> None:
    code = tmp_path / "\u00e9cho\u4e16.py"
    code.write_text(ECHO)
    odd.run("enable")
    odd.run("deploy", str(code))
    for name in all_names:
        file = tmp_path / "file"
        file.write_text(f"data of {name}")
        odd.run("upload", "--", str(file), f"{container}/{name}")
    assert sorted(each["name"] for each in odd.client.listing(container)) == sorted(all_names)

    def distributed(*words: str) -> dict[str, Any]:
        """The parameters and the inputs of each run, by the object."""
        lines = odd.run("distribute", *words).splitlines()
        rows = [json.loads(line) for line in lines]
        found = {row["path"]: json.loads(row["output"]) for row in rows}
        assert len(found) == len(rows)
        return found

    def outputs(names: Sequence[str]) -> dict[str, Any]:
        return {f"/{container}/{name}": [given, [f"data of {name}"]] for name in names}

    given = {f"k {ODD}".partition("=")[0]: f"k {ODD}={ODD}".partition("=")[2]}
    options = ["-p", f"k {ODD}={ODD}"]
    assert distributed(*options, "--", code.name, container) == outputs(all_names)
    for option, value, names in (
        ("--prefix", ODD[:-2], [ODD]),
        ("--prefix", "-", ["-n", "--", "-"]),
        ("--suffix", "\n../..&+\u00e9", [ODD]),
        ("--glob", "l*\nf*", ["line\nfeed"]),
        ("--glob", "%*", ["%2e%2e", "%"]),
    ):
        found = distributed(*options, f"{option}={value}", "--", code.name, container)
        assert found == outputs(names), (option, value)
    listed = tmp_path / "paths"
    listed.write_bytes("".join(f"{container}/{name}\0" for name in all_names).encode())
    assert distributed(*options, f"--objects={listed}", "--", code.name) == outputs(all_names)
    if "\n" not in container:
        names = [name for name in all_names if "\n" not in name]
        listed.write_bytes("".join(f"{container}/{name}\n" for name in names).encode())
        assert distributed(*options, f"--objects={listed}", "--", code.name) == outputs(names)
    merged = ["--merge", "concat", "--prefix", "line", *options, "--", code.name, container]
    expected = json.dumps(outputs(["line\nfeed"])[f"/{container}/line\nfeed"])
    assert odd.run("distribute", *merged) == expected
    place = tmp_path / f"-o {ODD}".replace("/", ":")
    odd.run("distribute", "-o", str(place), *merged)
    assert place.read_text() == expected
    for name in (f"to {ODD}", "../..", "-t", "/t//"):
        odd.run("distribute", f"--to={container}/{name}", *merged)
        assert odd.run("invoke", "--", code.name, f"{container}/{name}") == json.dumps(
            [{}, [expected]]
        )


#: Names of files and folders of an author.
FILES = [ODD.replace("/", ":"), "-n", "--", "..x", "%2F", "?", "#", "a\nb", os.fsdecode(b"r\xe4w")]


@pytest.fixture(scope="module")
def node(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with one_node(cluster, tmp_path_factory.mktemp("node") / "output"):
        yield


@pytest.mark.usefixtures("node")
@pytest.mark.parametrize("where", ["--sandbox", "--no-sandbox"])
def test_odd_names_of_files_and_projects_run_as_they_are(
    odd: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    monkeypatch.chdir(tmp_path)
    odd.run("init", "fruit")
    for name in FILES:
        Path("fruit").rename(name)
        Path(f"-i {name}").write_text("an apple\na pear\n")
        odd.run("build", "--", name)
        for subject in (name, f"{name}/dist/fruit-0.1.0.storlet"):
            # After the end of the options, a dash begins a name.
            words = [where, "-o", f"-o{name}", "-p", "text=apple", "-m", f"k={ODD[:20]}", "--"]
            odd.run("run", *words, subject, f"-i {name}")
            assert Path(f"-o{name}").read_text() == "an apple\n"
        Path(name).rename("fruit")


def test_commands_of_the_server_are_named_as_such(shell: Shell) -> None:
    for words in (("sandboxes",), ("rules", "check", "rules.yaml")):
        assert "install swift-storlets here" in shell.run(*words, code=3)


@WITH_OLDEST
def test_grants_and_rules(shell: Shell, tmp_path: Path) -> None:
    assert shell.client.put("").status in {201, 202}
    shell.run("enable")
    shell.run("deploy", str(SAMPLE / "csv_filter.py"))
    assert shell.client.put("samples").status == 201
    shell.run("grant", "samples", "test2:tester2", "csv_filter.py")
    (grant,) = json.loads(shell.run("grants", "samples", "-f", "json"))
    assert grant == {"user": "test2:tester2", "storlet": "csv_filter.py"}
    shell.run("revoke", "samples", "test2:tester2", "csv_filter.py")
    assert json.loads(shell.run("grants", "samples", "-f", "json")) == []
    file = tmp_path / "mine.yaml"
    file.write_text("version: 1\nrules:\n- {name: shut, when: {object: a}, deny: closed}\n")
    assert shell.run("rules", "put", str(file)).endswith("rules in force\n")
    assert shell.run("rules", "show") == file.read_text()
    assert "deny: closed" in shell.run("rules", "decide", "GET", "samples/a")
    file.write_text("version: 1\nrules:\n- {name: shut, dny: closed}\n")
    assert f"\n{file}:3:" in shell.run("rules", "put", str(file), code=4)
    assert "no rules" in shell.run("rules", "delete")


@WITH_OLDEST
def test_a_project_becomes_versions_and_failures_leave_records(
    shell: Shell, tmp_path: Path
) -> None:
    assert shell.client.put("").status in {201, 202}
    shell.run("enable")
    project = tmp_path / "fruit"
    shell.run("init", str(project))
    bundle = shell.run("build", str(project)).strip()
    assert shell.run("deploy", bundle).startswith("deployed fruit 0.1.0 as version 1\n  new: ")
    assert shell.run("deploy", bundle) == "deployed fruit 0.1.0 as version 1\n  unchanged\n"
    shell.run("rollback", "fruit", "1")
    assert shell.client.put("samples").status == 201
    assert shell.client.put("samples/list", (project / "sample.txt").read_bytes()).status == 201
    run = ("invoke", "fruit", "samples/list", "-p", "text=apple")
    assert shell.run(*run) == "one apple\nthree apples\n"
    source = project / "src/fruit.py"
    source.write_text(source.read_text().replace("wanted in line", "wanted not in line"))
    toml = (project / "storlet.toml").read_text()
    (project / "storlet.toml").write_text(f'{toml}[limits]\nmemory = "128M"\n')
    bundle = shell.run("build", str(project)).strip()
    refused = shell.run("deploy", bundle, code=4)
    assert "test case 'lines with apples' failed: the output differs" in refused
    assert shell.run(*run) == "one apple\nthree apples\n"
    changed = shell.run("deploy", bundle, "--no-check")
    lines = [line.partition(":")[0] for line in changed.splitlines()]
    assert lines == ["deployed fruit 0.1.0 as version 2", "  code", "  memory"]
    assert shell.run(*run) == "two pears\n"
    assert shell.run("invoke", "fruit@1", *run[2:]) == "one apple\nthree apples\n"
    rows = json.loads(shell.run("versions", "fruit", "-f", "json"))
    assert [(row["number"], row["current"]) for row in rows] == [
        (2, True), (1, False)
    ]  # fmt: skip
    assert "version 1 (0.1.0) is current, and no longer" in shell.run("rollback", "fruit")
    assert (shell.run(*run), "FAIL" in shell.run("doctor")) == ("one apple\nthree apples\n", False)
    (row,) = json.loads(shell.run("list", "-f", "json"))
    assert (row["name"], row["language"]) == ("fruit.storlet", "python")
    assert "txt" in shell.run("invoke", "fruit", "samples/list", "-p", "txt=apple", code=4)
    source.write_text(
        source.read_text().replace("kept = 0", "raise ValueError('broken on purpose')")
    )
    shell.run("deploy", shell.run("build", str(project)).strip(), "--no-check")
    assert "broken on purpose" in shell.run(*run, code=4)
    assert shell.ended("grant", "samples", "test2:tester2", "fruit") == Ended(
        0, "test2:tester2 may read samples through fruit\n", ""
    )

    def described() -> dict[str, object]:
        values: dict[str, object] = json.loads(shell.run("show", "fruit", "-f", "json"))
        return values

    assert retry_until(lambda: described()["failures"] == 1, 20)
    assert (described()["version"], described()["number"]) == ("0.1.0", 3)
    assert described()["grants"] == [{"container": "samples", "user": "test2:tester2"}]
    assert "0.1.0 @3" in shell.run("list")
    records = retry_until(
        lambda: json.loads(shell.run("runs", "fruit", "--failed", "-f", "json")), 20
    )
    assert records[0]["code"] == "storlet.failed"
    assert "broken on purpose" in shell.run("show-run", records[0]["id"])
    files = [tmp_path / name for name in ("fruit.zip", "fruit@1.zip")]
    told = [shell.run("download", each.stem, "-o", str(each)) for each in files]
    assert (told, len({each.read_bytes() for each in files})) == (["", ""], 2)
    assert shell.run("delete", "fruit") == "deleted fruit\n"
    assert "no bundle fruit" in shell.run("versions", "fruit", code=4)


GOOD = """\
class Tool:
    def __init__(self, logger):
        pass

    def __call__(self, in_files, out_files, params):
        out_files[0].set_metadata({})
        out_files[0].write(b"ANSWER")
        out_files[0].close()
"""


@WITH_OLDEST
def test_code_that_does_not_load_is_not_deployed(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "tool.py"
    shell.client.put("")
    shell.run("enable")
    file.write_text(GOOD)
    shell.run("deploy", str(file))
    file.write_text("import no_such_module\n" + GOOD)
    told = shell.run("deploy", str(file), code=4)
    assert "registration.check" in told
    assert "No module named 'no_such_module'" in told
    assert shell.client.get("storlet/tool.py").text == GOOD
    assert "deployed tool.py" in shell.run("deploy", str(file), "--no-check")


@WITH_OLDEST
def test_each_save_is_deployed_until_interrupted(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "tool.py"
    shell.client.put("")
    shell.run("enable")
    file.write_text(GOOD)
    with shell.start("deploy", str(file), "--watch") as watching:
        assert retry_until(lambda: shell.client.get("storlet/tool.py").status == 200, 30)
        file.write_text("import no_such_module\n" + GOOD)
        assert watching.stderr is not None
        lines = iter(watching.stderr.readline, "")
        assert any("no_such_module" in line for line in lines)
        changed = GOOD.replace("ANSWER", "changed")
        file.write_text(changed)
        assert retry_until(lambda: shell.client.get("storlet/tool.py").text == changed, 30)
        watching.send_signal(signal.SIGINT)
        assert watching.wait(10) == 0


@WITH_OLDEST
def test_each_save_of_a_project_is_deployed_until_interrupted(shell: Shell, tmp_path: Path) -> None:
    folder = tmp_path / "fruit"
    shell.client.put("")
    shell.run("enable")
    shell.run("init", str(folder))
    assert (folder / "README.md").read_text().startswith("# fruit\n")
    assert "deployed fruit 0.1.0 as version 1" in shell.run("deploy", str(folder))
    source = folder / "src/fruit.py"
    text = source.read_text()
    with shell.start("deploy", str(folder), "--watch") as watching:
        assert watching.stderr is not None
        lines = iter(watching.stderr.readline, "")
        assert any("watching 4 files" in line for line in lines)
        source.write_text("import no_such_module\n" + text)
        assert any("no_such_module" in line for line in lines)
        manifest = folder / "storlet.toml"
        valid = manifest.read_text()
        manifest.write_text(valid.replace("summary", "digest", 1))
        assert any("digest: unknown key" in line for line in lines)
        manifest.write_text(valid.replace("0.1.0", "0.2.0"))
        source.write_text("# A comment\n" + text)
        assert retry_until(lambda: "0.2.0" in shell.run("versions", "fruit"), 60)
        watching.send_signal(signal.SIGINT)
        assert watching.wait(10) == 0
    assert (folder / "dist/fruit-0.2.0.storlet").is_file()


@WITH_OLDEST
def test_logs_of_failures_are_printed(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "tool.py"
    shell.client.put("")
    shell.run("enable")
    file.write_text(
        GOOD.replace("    out_files", "    raise ValueError('no input')\n        out_files", 1)
    )
    shell.run("deploy", str(file))
    assert shell.client.put("samples").status == 201
    assert shell.client.put("samples/a", b"a").status == 201
    shell.run("invoke", "tool.py", "samples/a", code=4)

    def told() -> bool:
        return "no input" in shell.run("logs", "tool.py", "--failed", "--since", "1h")

    assert retry_until(told, 20)
    assert "write a time such as" in shell.run("logs", "tool.py", "--since", "soon", code=3)


@WITH_OLDEST
def test_a_storlet_of_the_library_runs_on_many_objects(shell: Shell, tmp_path: Path) -> None:
    shell.run("enable")
    for number in range(3):
        file = tmp_path / f"{number}.txt"
        file.write_text(f"a word\nnumber {number}\n")
        shell.run("upload", str(file), f"texts/{number}.txt")
    assert "std:wordcount" in shell.run("library")
    assert "word\t3\n" in shell.run("distribute", "std:wordcount", "texts", "--merge", "std:sum")
    lines = shell.run("distribute", "std:grep", "texts", "-p", "pattern=word").splitlines()
    assert {json.loads(line)["output"] for line in lines} == {"a word\n"}
    steps = '[{"storlet": "std:grep", "parameters": {"pattern": "number"}}, "std:wordcount"]'
    found = shell.run("invoke", "std:sequence", "texts/2.txt", "-p", f"steps={steps}")
    assert found == "2\t1\nnumber\t1\n"
    assert "missing" in shell.run("distribute", "std:grep", "texts", code=4)


@WITH_OLDEST
def test_a_query_runs_on_one_object_or_many(shell: Shell, tmp_path: Path) -> None:
    shell.run("enable")
    rows = [(number % 3, number) for number in range(3000)]
    text = "".join(f"{key},{number}\n" for key, number in rows)
    (tmp_path / "a.csv").write_text(f"key,number\n{text}")
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(b"number,key\n7,1\n"))
    (tmp_path / "c.jsonl").write_text('{"key": 1, "number": 2}\n')
    for file in tmp_path.iterdir():
        shell.run("upload", str(file), f"tables/2026/{file.name}")
    query = "SELECT key, count(*) AS n, sum(number) AS s FROM input GROUP BY key ORDER BY key"
    sums = [sum(number for key, number in rows if key == each) for each in range(3)]
    assert shell.run("query", query, "tables/2026/a.csv").splitlines() == [
        "key,n,s", *(f"{key},1000,{total}" for key, total in enumerate(sums))
    ]  # fmt: skip
    assert shell.run("query", query, "tables/2026/c.jsonl", "-f", "jsonl") == (
        '{"key":1,"n":1,"s":2}\n'
    )
    assert "several formats" in shell.run("query", query, "tables/2026/", code=3)
    found = shell.run("query", query, "tables/2026/", "--glob", "*.csv*", "-f", "table")
    assert [line.split() for line in found.splitlines()] == [
        ["KEY", "N", "S"],
        ["0", "1000", str(sums[0])],
        ["1", "1001", str(sums[1] + 7)],
        ["2", "1000", str(sums[2])],
    ]
    target = tmp_path / "result.parquet"
    shell.run("query", query, "tables/2026/a.csv", "-f", "parquet", "-o", str(target))
    shell.run("upload", str(target), "tables/result.parquet")
    assert shell.run("query", "SELECT max(s) AS s FROM input", "tables/result.parquet") == (
        f"s\n{max(sums)}\n"
    )
    refused = shell.run("query", "SELECT nothing FROM input", "tables/2026/a.csv", code=4)
    assert 'Candidate bindings: "number"' in refused
    assert "Traceback" not in refused
