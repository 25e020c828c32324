"""Exit codes, help and errors."""

from __future__ import annotations

import json
import os
import re
import ssl
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from storlet_client.cli.main import cli
from tests.support.cluster import CHECKOUT
from tests.support.forking import Commands
from tests.unit.client.cli.conftest import Terminal
from tests.unit.client.conftest import Command
from tests.unit.client.server import Reply, Server


def all_commands() -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    for name, each in cli.commands.items():
        found.append((name,))
        found += [(name, inner) for inner in getattr(each, "commands", {})]
    return found


#: Commands of the server's package, which has their help.
OPERATORS = {
    ("sandboxes",),
    *(("rules", verb) for verb in ("check", "test", "explain", "who-can", "diff")),
}


@pytest.mark.parametrize("words", sorted({(), *all_commands()} - OPERATORS), ids=" ".join)
def test_each_command_has_help_with_examples(command: Command, words: tuple[str, ...]) -> None:
    result = command(*words, "--help")
    assert result.code == 0
    assert len(result.out.splitlines()) > 4
    examples = result.out.partition("Examples:\n")[2]
    assert f"storlet {' '.join(words)}".rstrip() in examples


@pytest.mark.parametrize("words", [(), ("rules",), ("secret",)])
def test_a_narrow_terminal_has_whole_sentences(
    command: Command, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    text = command(*words, "--help").out
    assert max(map(len, text.partition("Log in")[0].splitlines())) <= 60
    listed = text.partition("Commands:")[2].partition("Examples:")[0]
    assert "..." not in listed.replace("(std:...)", "")
    monkeypatch.setenv("COLUMNS", "80")
    assert max(map(len, command(*words, "--help").out.splitlines())) <= 80


def test_each_option_has_a_help_and_each_line_of_the_list_its_whole_sentence() -> None:
    for words in all_commands():
        found: click.Command = cli
        for word in words:
            assert isinstance(found, click.Group)
            found = found.commands[word]
        options = [each for each in found.params if isinstance(each, click.Option)]
        assert [each.name for each in options if not each.help] == [], words
        assert not found.get_short_help_str(86).endswith("..."), words


FAILED = {"X-Storlet-Error": "storlet.failed", "X-Storlet-Invocation": "tx1-1"}


@pytest.mark.parametrize(
    ("status", "headers", "code", "step"),
    [
        (401, {}, 4, "log in again, or check the account: storlet doctor"),
        (403, {}, 4, "storlet doctor c/o"),
        (404, {}, 4, "storlet doctor c/o"),
        (404, {"X-Storlet-Error": "target.not_found"}, 4, "storlet doctor CONTAINER"),
        (422, FAILED, 4, "storlet show-run tx1-1"),
        (500, {"X-Trans-Id": "tx9"}, 5, "contact the operator of the cluster: transaction tx9"),
        (503, {}, 5, "repeat the command later"),
    ],
)
def test_an_error_has_a_code_and_a_next_step(
    server: Server, command: Command, status: int, headers: dict[str, str], code: int, step: str
) -> None:
    server.on("GET", "/c/o", Reply(status, headers, b"the reason"))
    result = command("invoke", "s.py", "c/o")
    assert (result.code, result.out) == (code, "")
    assert "the reason" in result.err
    assert result.err.splitlines()[-1].endswith(step)


def test_a_failed_login_and_a_missing_server_have_a_next_step(
    server: Server, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.replies["GET", "/auth/v1.0"] = Reply(401)
    result = command("list")
    assert (result.code, result.err.endswith("storlet --help has the ways to log in\n")) == (
        3,
        True,
    )
    monkeypatch.setenv("ST_AUTH", "http://127.0.0.1:1/auth/v1.0")
    result = command("list")
    assert (result.code, "check the URL of the login" in result.err) == (5, True)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with a key and its self-signed certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    begin = datetime.now(UTC) - timedelta(days=1)
    made = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    made = made.not_valid_before(begin).not_valid_after(begin + timedelta(days=2))
    place = tmp_path_factory.mktemp("tls") / "both.pem"
    kind, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    place.write_bytes(
        key.private_bytes(kind, form, serialization.NoEncryption())
        + made.sign(key, hashes.SHA256()).public_bytes(kind)
    )
    return place


def test_a_certificate_that_is_not_trusted_and_a_server_without_tls_have_a_next_step(
    server: Server, command: Command, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ST_AUTH", server.auth_url.replace("http:", "https:"))
    result = command("list")
    said = f"storlet: {server.url.replace('http:', 'https:')}: the server does not speak TLS: is"
    assert (result.code, result.err.startswith(said)) == (5, True), result.err
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    result = command("list")
    assert ": certificate verify failed: self-signed certificate\n" in result.err
    assert "trust the certificate with --os-cacert FILE or OS_CACERT" in result.err


def test_a_password_in_a_url_is_not_shown(
    server: Server, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    for url in (server.auth_url, server.url + "/none", "http://127.0.0.1:1/auth", "ftp://h/auth"):
        monkeypatch.setenv("ST_AUTH", url.replace("://", "://ada:hush@"))
        server.replies["GET", "/auth/v1.0"] = Reply(401)
        result = command("list")
        assert (result.code in {3, 5}, "hush" in result.err) == (True, False), result.err
    result = command("--os-storage-url", "http://ada:hush@h/v1/A", "--os-auth-token", "t", "list")
    assert (result.code, "hush" in result.err) == (3, False)


def test_a_run_that_fails_late_names_its_record(server: Server, command: Command) -> None:
    headers = {"X-Storlet-Invocation": "tx1-1"}
    server.on("GET", "/c/o", Reply(200, headers, b"x" * 100, sent=40))
    result = command("invoke", "s.py", "c/o")
    assert (result.code, result.out) == (5, "x" * 40)
    advice = "  the output so far is not complete; see its record, some seconds after the run: "
    last = ["  invocation tx1-1", f"{advice}storlet show-run tx1-1"]
    assert result.err.splitlines()[-2:] == last


def test_a_broken_output_fails_and_leaves_no_file(
    server: Server, command: Command, tmp_path: Path
) -> None:
    server.on("GET", "/c/o", Reply(200, {}, b"x" * 100, sent=40))
    for words in ((), ("-o", str(tmp_path / "out"))):
        result = command("invoke", "s.py", "c/o", *words)
        assert (result.code, "incomplete" in result.err) == (5, True)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_a_failure(server: Server, command: Command) -> None:
    server.on("GET", "/c/o", Reply(200, {}, b"x" * 100_000))
    result = command("invoke", "s.py", "c/o", "-o", "/dev/full")
    assert (result.code, result.out) == (5, "")
    assert "storlet: /dev/full: No space left on device" in result.err
    assert "make room" in result.err


#: The entry point of the command, with a standard output on which no write succeeds.
MODULE = "import runpy; runpy.run_module('storlet_client', run_name='__main__', alter_sys=True)"
FULL = f"import os; os.dup2(os.open('/dev/full', os.O_WRONLY), 1)\n{MODULE}"
WITHOUT_READER = f"""
import os
reader, writer = os.pipe()
os.close(reader)
os.dup2(writer, 1)
{MODULE}
"""


def test_standard_output_that_is_full_is_a_failure(
    server: Server, commands: Commands, login: dict[str, str]
) -> None:
    server.on("GET", "/c/o", Reply(200, {}, b"x" * 100_000))
    done = commands.ended([FULL, "invoke", "s.py", "c/o"], login)
    assert done.code == 5, done.err
    assert "storlet: standard output: No space left on device" in done.err
    assert "Exception ignored" not in done.err


def test_without_credentials_all_ways_are_named(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ST_AUTH", "ST_USER", "ST_KEY"):
        monkeypatch.delenv(name)
    result = command("list")
    assert result.code == 3
    assert all(word in result.err for word in ("OS_CLOUD", "OS_AUTH_URL", "ST_AUTH"))


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_script_is_printed(command: Command, shell: str) -> None:
    result = command("completion", shell)
    assert (result.code, "_STORLET_COMPLETE" in result.out) == (0, True)


#: Standard error is the terminal of :func:`.conftest.on_terminal`, and here also standard output.
ON_TERMINAL = f"import os; os.dup2(2, 1)\n{MODULE}"


@pytest.mark.parametrize(("no_color", "is_coloured"), [("", True), ("1", False)])
def test_colours_are_for_terminals_that_want_them(
    server: Server, on_terminal: Terminal, login: dict[str, str], no_color: str, is_coloured: bool
) -> None:
    server.on("HEAD", "", Reply(204))
    said = on_terminal(ON_TERMINAL, "doctor", NO_COLOR=no_color, **login).err
    assert "storlet enable" in said
    # The display of progress moves the cursor in any case.
    assert bool(re.search(r"\x1b\[[0-9;]*3[0-7]m", said)) is is_coloured


def test_long_work_shows_progress_on_a_terminal(
    server: Server, on_terminal: Terminal, login: dict[str, str], tmp_path: Path
) -> None:
    server.on("GET", "/c/o", Reply(200, {}, bytes(1 << 20)))
    words = ("invoke", "s.py", "c/o", "-o", str(tmp_path / "out"))
    assert "MB" in on_terminal(ON_TERMINAL, *words, **login).err
    assert (tmp_path / "out").stat().st_size == 1 << 20


#: Python has a byte of a command line that is not UTF-8 as a lone surrogate.
BAD = os.fsdecode(b"c/\xff")


@pytest.mark.parametrize(
    "words",
    [
        ["show", BAD],
        ["invoke", "a.py", BAD],
        ["invoke", BAD, "c/a"],
        ["invoke", "a.py", "c/a", "--resource", BAD],
        ["invoke", "a.py", "c/a", "--to", BAD],
        ["invoke", "a.py", "c/a", "-p", f"k={BAD}"],
        ["distribute", "a.py", BAD],
        ["distribute", "a.py", "c", "--prefix", BAD],
        ["grant", "c", f"a:{BAD}", "a.py"],
        ["runs", BAD],
        ["rules", "decide", "GET", BAD],
    ],
    ids=str,
)
def test_an_argument_that_is_not_utf_8_is_one_error(
    server: Server, command: Command, words: list[str]
) -> None:
    server.on("HEAD", "", Reply(204))
    result = command(*words)
    assert (result.code, result.out) == (3, "")
    (line,) = result.err.splitlines()
    assert line.startswith("storlet: ")
    assert "\\udcff" in line
    assert "not UTF-8" in line
    assert line.endswith(": correct it")


@pytest.mark.usefixtures("command")  # which has the credentials in the environment
def test_an_output_without_the_characters_is_one_error(server: Server) -> None:
    row = {"name": "\u00e9", "version": "1", "summary": "", "parameters": {}}
    server.on("GET", "", Reply(body=json.dumps([row]).encode()))
    words = [sys.executable, "-W", "ignore", "-m", "storlet_client", "library", "-f", "csv"]
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT), "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        words, env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    assert "Traceback" not in done.stderr
    assert done.returncode == 3, done.stderr
    assert done.stderr.endswith("cannot be written in ascii: set PYTHONIOENCODING=utf-8\n")


def have_large_library(server: Server) -> None:
    """The output of ``library`` is larger than the buffer of a pipe."""
    row = {"name": "a" * 300, "version": "1", "summary": "", "parameters": {}}
    server.on("GET", "", Reply(body=json.dumps([row] * 400).encode()))


@pytest.mark.parametrize("words", ["library", "library -f json", "library -f csv", "--help"])
def test_a_closed_pipe_is_no_failure(
    server: Server, commands: Commands, login: dict[str, str], words: str
) -> None:
    have_large_library(server)
    done = commands.ended([WITHOUT_READER, *words.split()], login)
    assert (done.code, done.err) == (0, "")


CLOSED = "storlet: standard output is closed\n    help: send it to a file or a pipe\n"


@pytest.mark.usefixtures("command")
@pytest.mark.parametrize(
    ("script", "code", "said"),
    [
        ("$storlet library >&-", 3, CLOSED),
        ("$storlet library -f csv >&-", 3, CLOSED),
        ("$storlet library 2>&- | tail -n 1 | cut -c 1-3 >&2", 0, "aaa\n"),
        ("$storlet nosuch 2>&-", 2, ""),
        ("$storlet secret set abc <&-", 3, "storlet: standard input is closed: name a file\n"),
        ("$storlet library <&- >&- 2>&-", 3, ""),
    ],
    ids=str,
)
def test_a_closed_standard_stream_is_no_traceback(
    server: Server, script: str, code: int, said: str
) -> None:
    """In a script of bash, where ``$storlet`` is the command."""
    have_large_library(server)
    environment = {
        **os.environ,
        "PYTHONPATH": str(CHECKOUT),
        "storlet": f"{sys.executable} -W ignore -m storlet_client",
    }
    words = ["bash", "-o", "pipefail", "-c", script]
    done = subprocess.run(
        words, env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (code, said)
