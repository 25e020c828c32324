"""The command ``storlet`` against a cluster: the life of a storlet.

It runs as its wheel installs it, with the oldest and the newest Python of this machine.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.accounts import unique
from tests.support.client_package import installed, interpreters
from tests.support.cluster import CHECKOUT
from tests.support.http import Client
from tests.support.waiting import retry_until

SAMPLE = CHECKOUT / "storlets/csv_filter"


class Shell:
    """The command, in a process of its own, as the owner of a new account.

    :param place: the environment that it is installed in.
    """

    def __init__(self, place: Path, client: Client) -> None:
        self.client = client
        self._command = place / "bin/storlet"
        self._environment = {
            "PATH": os.environ["PATH"],
            "OS_STORAGE_URL": client.storage_url,
            "OS_AUTH_TOKEN": client.token,
        }

    def run(self, *words: str, code: int = 0) -> str:
        """Standard output; standard error for other exit codes than 0."""
        done = subprocess.run(
            [self._command, *words],
            env=self._environment, capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip
        assert done.returncode == code, done.stdout + done.stderr
        return done.stderr if code else done.stdout

    def start(self, *words: str) -> subprocess.Popen[str]:
        """A command that runs until it is interrupted."""
        return subprocess.Popen(
            [self._command, *words],
            env=self._environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip


@pytest.fixture(params=interpreters())
def shell(request: pytest.FixtureRequest, users: dict[str, Client]) -> Shell:
    place = installed(interpreters()[request.param])
    return Shell(place, users["admin:admin"].on(f"AUTH_{unique('client')}"))


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
    file = tmp_path / "rules.yaml"
    file.write_text("version: 1\nrules:\n- {name: shut, when: {object: a}, deny: closed}\n")
    assert shell.run("rules", "put", str(file)).endswith("rules in force\n")
    assert shell.run("rules", "show") == file.read_text()
    assert "deny: closed" in shell.run("rules", "decide", "GET", "samples/a")
    file.write_text("version: 1\nrules:\n- {name: shut, dny: closed}\n")
    assert "rules.yaml:3:" in shell.run("rules", "put", str(file), code=4)
    assert "no rules" in shell.run("rules", "delete")


def test_a_project_becomes_versions_and_failures_leave_records(
    shell: Shell, tmp_path: Path
) -> None:
    assert shell.client.put("").status in {201, 202}
    shell.run("enable")
    project = tmp_path / "fruit"
    shell.run("init", str(project))
    bundle = shell.run("build", str(project)).strip()
    assert shell.run("deploy", bundle) == "deployed fruit 0.1.0 as version 1\n"
    assert shell.client.put("samples").status == 201
    assert shell.client.put("samples/list", (project / "sample.txt").read_bytes()).status == 201
    run = ("invoke", "fruit", "samples/list", "-p", "text=apple")
    assert shell.run(*run) == "one apple\nthree apples\n"
    source = project / "src/fruit.py"
    source.write_text(source.read_text().replace("wanted in line", "wanted not in line"))
    bundle = shell.run("build", str(project)).strip()
    refused = shell.run("deploy", bundle, code=4)
    assert "test case 'lines with apples' failed: the output differs" in refused
    assert shell.run(*run) == "one apple\nthree apples\n"
    assert "version 2" in shell.run("deploy", bundle, "--no-check")
    assert shell.run(*run) == "two pears\n"
    assert shell.run("invoke", "fruit@1", *run[2:]) == "one apple\nthree apples\n"
    rows = json.loads(shell.run("versions", "fruit", "-f", "json"))
    assert [(row["number"], row["current"]) for row in rows] == [(2, True), (1, False)]
    shell.run("rollback", "fruit", "1")
    assert shell.run(*run) == "one apple\nthree apples\n"
    assert "FAIL" not in shell.run("doctor")
    (row,) = json.loads(shell.run("list", "-f", "json"))
    assert (row["name"], row["language"]) == ("fruit.storlet", "python")
    assert "txt" in shell.run("invoke", "fruit", "samples/list", "-p", "txt=apple", code=4)
    source.write_text(
        source.read_text().replace("kept = 0", "raise ValueError('broken on purpose')")
    )
    shell.run("deploy", shell.run("build", str(project)).strip(), "--no-check")
    assert "broken on purpose" in shell.run(*run, code=4)
    shell.run("grant", "samples", "test2:tester2", "fruit")

    def described() -> dict[str, object]:
        values: dict[str, object] = json.loads(shell.run("show", "fruit.storlet", "-f", "json"))
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


GOOD = """\
class Tool:
    def __init__(self, logger):
        pass

    def __call__(self, in_files, out_files, params):
        out_files[0].set_metadata({})
        out_files[0].write(b"ANSWER")
        out_files[0].close()
"""


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
