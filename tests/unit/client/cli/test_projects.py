"""``init``, ``build``, ``versions`` and ``rollback``, and ``deploy`` of a bundle."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from storlet_client import NotThere, Storlets
from storlet_client.cli.main import main
from storlet_client.login import Token
from tests.unit.client.conftest import Command
from tests.unit.client.server import ACCOUNT, Reply, Server
from tests.unit.client.test_operations import META

VERSIONS: dict[str, Any] = {
    "name": "thumb",
    "versions": [
        {"number": 2, "version": "1.1", "sha256": "b", "bytes": 9, "time": "t", "current": True},
        {"number": 1, "version": "1.0", "sha256": "a", "bytes": 8, "time": "s", "current": False},
    ],
}


@pytest.fixture
def bundle(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    assert command("init", "thumb").out == "made thumb/\n"
    result = command("build", "thumb")
    assert result.code == 0, result.err
    return Path(result.out.strip())


def test_a_new_project_is_built_and_deployed(
    server: Server, command: Command, bundle: Path
) -> None:
    assert str(bundle) == "thumb/dist/thumb-0.1.0.storlet"
    server.on("PUT", "/storlet/thumb.storlet", Reply(201, {"X-Storlet-Version": "3"}))
    result = command("deploy", str(bundle))
    size = f"{bundle.stat().st_size:,}"
    expected = f"deployed thumb 0.1.0 as version 3\n  new: {size} bytes of python\n"
    assert (result.code, result.out) == (0, expected), result.err
    assert server.received[-1].body == bundle.read_bytes()


def test_a_folder_is_built_and_deployed(
    server: Server, command: Command, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle.unlink()
    server.on("PUT", "/storlet/thumb.storlet", Reply(201, {"X-Storlet-Version": "3"}))
    result = command("deploy", "thumb")
    assert (result.code, "deployed thumb 0.1.0 as version 3" in result.out) == (0, True)
    assert f"built {bundle}" in result.err
    assert server.received[-1].body == bundle.read_bytes()
    result = command("deploy", "thumb", "--main", "a.B")
    assert (result.code, "--main: a bundle has this" in result.err) == (3, True)
    monkeypatch.chdir("thumb")
    result = command("deploy")
    assert (result.code, "deployed thumb 0.1.0 as version 3" in result.out) == (0, True)
    monkeypatch.chdir("src")
    result = command("deploy")
    assert (result.code, "storlet.toml: No such file" in result.err) == (3, True)
    assert "'storlet init NAME' makes a project" in result.err


def test_a_bundle_gives_its_project_back(
    server: Server, command: Command, bundle: Path, tmp_path: Path
) -> None:
    server.on("GET", "/storlet/thumb", Reply(404))
    server.on("GET", "/storlet/thumb.storlet", Reply(body=bundle.read_bytes()))
    server.on("GET", "/storlet/a.py", Reply(body=b"class A: pass"))
    place = tmp_path / "copies/thumb"
    result = command("download", "thumb", "--source", str(place))
    assert (result.code, result.out) == (0, f"made {place}/\n"), result.err
    assert f"build it: storlet build {place}" in result.err
    built = command("build", str(place)).out.strip()
    assert Path(built).read_bytes() == bundle.read_bytes()
    Path("dangling").symlink_to("nowhere")
    requests = len(server.received)
    for each in (str(place), "dangling", "."):
        assert command("download", "thumb", "--source", each).code == 3
    assert len(server.received) == requests
    for words, code, text in (
        (["thumb", "--source", str(place)], 3, "it exists already: name a new folder"),
        (["thumb", "--source", "x", "-o", "y"], 3, "give -o FILE or --source FOLDER, not both"),
        (["a.py", "--source", "x"], 3, "a.py is no bundle: only a bundle has source"),
        (["nothing", "--source", "x"], 4, "there is no storlet nothing"),
        (["std:sql"], 4, "std:sql is of the library: 'storlet library std:sql' shows it"),
    ):
        result = command("download", *words)
        assert (result.code, text in result.err) == (code, True), result.err
    assert not Path("x").exists()


def test_each_save_of_a_project_is_deployed_also_after_faults(
    server: Server, command: Command, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toml, source = Path("thumb/storlet.toml"), Path("thumb/src/thumb.py")
    text = toml.read_text()
    actions = iter([
        lambda: toml.write_text("broken"),
        lambda: toml.write_text(text),
        lambda: source.write_text("refused"),
        lambda: Path("thumb/dist/other.storlet").write_text("no source"),
        lambda: source.write_text("class Thumb: pass"),
    ])  # fmt: skip

    def sleep(_seconds: float) -> None:
        action = next(actions, None)
        if action is None:
            raise KeyboardInterrupt
        action()

    monkeypatch.setattr("storlet_client.cli.watch.time.sleep", sleep)
    number = {"X-Storlet-Version": "3"}
    refusal = Reply(422, {"X-Storlet-Error": "registration.check"}, b"no class\n")
    replies = (Reply(201, number), Reply(201, number), refusal, Reply(201, number))
    server.on("PUT", "/storlet/thumb.storlet", *replies)
    result = command("deploy", "thumb", "--watch")
    assert (result.code, result.out.count("deployed thumb 0.1.0")) == (0, 3), result
    assert "storlet: thumb/storlet.toml:1:1: not TOML: " in result.err
    assert "no class" in result.err
    assert result.err.count("watching 4 files") == 5
    assert result.err.endswith("no longer watching\n")
    assert bundle.is_file()


def test_the_changes_of_a_bundle_are_printed(
    server: Server, command: Command, bundle: Path
) -> None:
    server.on("PUT", "/storlet/thumb.storlet", Reply(201, {"X-Storlet-Version": "3"}))
    row = {**VERSIONS["versions"][0], "sha256": hashlib.sha256(bundle.read_bytes()).hexdigest()}
    size = f"{bundle.stat().st_size:,}"
    older = Reply(200, {**META, "ETag": "of the version before"})
    for changes, expected in (
        ({"version": "0.1.0"}, "  unchanged\n"),
        ({"version": "0.1.0", "sha256": "b"}, f"  code: 9 -> {size} bytes\n"),
        ({"sha256": "b"}, f"  code: 9 -> {size} bytes\n  version: 1.1 -> 0.1.0\n"),
    ):
        document = json.dumps({"versions": [{**row, **changes}]}).encode()
        server.on("GET", "/storlet/thumb.storlet", Reply(body=document))
        server.on("HEAD", "/storlet/thumb.storlet", older, Reply(200, META))
        assert command("deploy", str(bundle)).out.partition("\n")[2] == expected
    more = {
        **META,
        "X-Object-Meta-Storlet-Memory": "128M",
        "X-Object-Meta-Storlet-Services": "read",
    }
    server.on("HEAD", "/storlet/thumb.storlet", older, Reply(200, more))
    shown = command("deploy", str(bundle)).out
    assert shown.endswith("-> 0.1.0\n  memory: 64M -> 128M\n  services: unset -> read\n")
    # A cluster of release 0.2 stores it without its source.
    short = {**META, "Content-Length": "7", "ETag": "e"}
    server.on("HEAD", "/storlet/thumb.storlet", Reply(200, META), Reply(200, short))
    assert "  code: 9 -> 7 bytes\n" in command("deploy", str(bundle)).out
    server.on("HEAD", "/storlet/thumb.storlet", Reply(200, short))
    assert command("deploy", str(bundle)).out.endswith("as version 3\n  unchanged\n")
    # The right to write the container does not include that to read it.
    server.on("GET", "/storlet/thumb.storlet", Reply(403))
    assert f"new: {size} bytes" in command("deploy", str(bundle)).out


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--main", "a.B"], "--main: a bundle has this in its manifest"),
        (["--limit", "memory=1M"], "--limit: a bundle has this"),
    ],
)
def test_options_of_plain_files_are_refused(
    server: Server, command: Command, bundle: Path, words: list[str], expected: str
) -> None:
    result = command("deploy", str(bundle), *words)
    assert (result.code, expected in result.err) == (3, True), result.err
    assert server.calls() == []


def test_a_damaged_bundle_is_not_uploaded(server: Server, command: Command, bundle: Path) -> None:
    data = bytearray(bundle.read_bytes())
    data[60] ^= 0xFF
    bundle.write_bytes(data)
    result = command("deploy", str(bundle))
    assert (result.code, str(bundle) in result.err) == (3, True)
    assert server.calls() == []


def test_all_faults_of_a_project_have_their_place(command: Command, tmp_path: Path) -> None:
    (tmp_path / "storlet.toml").write_text('name = "X"\nversion = "1"\nlangage = "python"\n')
    result = command("build", str(tmp_path))
    assert result.code == 3
    assert "storlet.toml:1:1: " in result.err
    assert "language" in result.err


def test_versions_are_listed_and_changed(server: Server, command: Command) -> None:
    path = "/storlet/thumb.storlet"
    server.on("GET", path, Reply(body=json.dumps(VERSIONS).encode()))
    server.on("POST", path, Reply(202))
    rows = [{**row, "previous": None} for row in VERSIONS["versions"]]
    assert json.loads(command("versions", "thumb", "-f", "json").out) == rows
    assert command("rollback", "thumb", "1").out == "thumb: version 1 is current\n"
    assert server.received[-1].path.endswith("?storlet-version=1")
    assert command("rollback", "thumb", "0").code == 2


@pytest.mark.parametrize(
    ("numbers", "current", "expected"),
    [
        ((1, 2, 3), 3, 2),
        ((5, 1, 3), 3, 1),  # version 2 was removed, and 5 was rolled back
        ((2, 3), 2, "no kept version of bundle thumb was current before 2; there are 2, 3"),
        ((1,), 1, "no kept version of bundle thumb was current before 1; there are 1"),
    ],
)
def test_a_rollback_on_an_older_cluster_goes_to_the_lower_number(
    server: Server, command: Command, numbers: tuple[int, ...], current: int, expected: int | str
) -> None:
    row = VERSIONS["versions"][0]
    rows = [{**row, "number": each, "current": each == current} for each in numbers]
    path = "/storlet/thumb.storlet"
    server.on("GET", path, Reply(body=json.dumps({"versions": rows}).encode()))
    server.on("POST", path, Reply(202))
    result = command("rollback", "thumb")
    with Storlets(Token(server.url + ACCOUNT, "secret-token")) as storlets:
        if isinstance(expected, str):
            assert (result.code, expected in result.err) == (4, True)
            with pytest.raises(NotThere):
                storlets.roll_back("thumb")
        else:
            said = f"thumb: version {expected} (1.1) is current, and no longer version 3 (1.1)\n"
            assert result.out == said
            assert server.received[-1].path.endswith(f"?storlet-version={expected}")
            assert storlets.roll_back("thumb") == expected


def test_a_rollback_goes_to_the_version_that_was_current_before(
    server: Server, command: Command
) -> None:
    row = VERSIONS["versions"][0]
    rows = [
        {**row, "number": number, "current": number == 4, "previous": number == 2}
        for number in (4, 3, 2, 1)
    ]
    path = "/storlet/thumb.storlet"
    server.on("GET", path, Reply(body=json.dumps({"versions": rows}).encode()))
    server.on("POST", path, Reply(202))
    assert command("rollback", "thumb").out.startswith("thumb: version 2 (1.1) is current")
    assert server.received[-1].path.endswith("?storlet-version=2")
    assert json.loads(command("versions", "thumb", "-f", "json").out) == rows
    rows[2]["previous"] = False
    server.on("GET", path, Reply(body=json.dumps({"versions": rows}).encode()))
    assert "was current before 4; there are 1, 2, 3, 4" in command("rollback", "thumb").err


@pytest.mark.parametrize(
    ("name", "quoted"),
    [("a b", "'a b/dist/fruit-0.1.0.storlet'"), ("-n", "-- -n/dist/fruit-0.1.0.storlet")],
)
def test_the_next_command_can_be_pasted_into_a_shell(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, quoted: str
) -> None:
    monkeypatch.chdir(tmp_path)
    made = command("init", "fruit")
    assert made.err == "build it: storlet build fruit\n"
    (tmp_path / "fruit").rename(tmp_path / name)
    result = command("build", "--", name)
    assert result.out == f"{name}/dist/fruit-0.1.0.storlet\n"
    assert result.err == f"deploy it: storlet deploy {quoted}\n"


@pytest.mark.parametrize(
    ("count", "end"), [(18, ", z17, z18"), (19, ", z17, z18, and 1 more (unzip -l lists them)")]
)
def test_a_build_lists_the_source_of_a_native_project(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int, end: str
) -> None:
    """Its author sees a key that is in no ``.gitignore``; no build file names the source."""
    monkeypatch.chdir(tmp_path)
    write = {
        "storlet.toml": 'name = "a"\nversion = "1"\nlanguage = "native"\nmain = "a.sh"\n'
        'build = ["true"]\nfiles = ["a.sh"]\n',
        "a.sh": "#!/bin/sh\ncat\n",
        "a.pem": "key",
        **{f"z{number:02}": "" for number in range(1, count + 1)},
    }
    for name, text in write.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "a.sh").chmod(0o755)
    result = command("build", ".")
    source, advice = result.err.splitlines()
    assert source.startswith("source in it: a.pem, storlet.toml, z01, ")
    assert source.endswith(end)
    assert advice == "deploy it: storlet deploy dist/a-1.storlet"


def test_a_script_gets_the_path_of_a_bundle_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["init", "fruit"]) == 0
    name = b"r\xe4w\x1b\n"
    Path("fruit").rename(os.fsdecode(name))
    capfdbinary.readouterr()
    assert main(["build", os.fsdecode(name)]) == 0
    assert capfdbinary.readouterr().out == name + b"/dist/fruit-0.1.0.storlet\n"
