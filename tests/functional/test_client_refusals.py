"""A bad input of each command of ``storlet``: one error that says what and where, and no traceback;
and the four forms of each command that lists.

``test_rules_bad_files`` has those of the offline commands of ``storlet rules``.
"""

from __future__ import annotations

import csv
import io
import json
import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from storlet_client.cli.main import cli, main
from storlet_client.cli.output import FORMATS
from tests.support.accounts import unique
from tests.support.bundles import tool
from tests.support.cluster import CHECKOUT, Cluster
from tests.support.http import Client
from tests.support.waiting import retry_until

PLAIN = """\
class Tool:
    def __init__(self, logger):
        pass

    def __call__(self, in_files, out_files, params):
        out_files[0].write(in_files[0].read())
        out_files[0].close()
"""

#: Command, exit code, and a part of the error.
BAD = [
    ("doctor samples/none", 1, "FAIL  object samples/none: missing"),
    ("enable extra", 2, "unexpected extra argument"),
    ("info -f xml", 2, "'xml' is not one of 'table', 'json', 'yaml', 'csv'"),
    ("init Fruit", 3, "'Fruit': want a lower-case letter"),
    ("init there", 3, "there/src: it exists already"),
    ("build none", 3, "none/storlet.toml: No such file or directory"),
    ("build broken", 3, "broken/storlet.toml:1:1: name: missing"),
    ("versions none", 4, "there is no bundle none"),
    ("versions tool.py", 4, "tool.py is a plain file: only bundles"),
    ("rollback fruit 9", 4, "bundle fruit has no version 9; there are 1"),
    ("rollback fruit", 4, "no kept version of bundle fruit was current before 1"),
    ("rollback fruits", 4, "there is no bundle fruits: did you mean fruit?"),
    ("rollback fruits 1", 4, "there is no bundle fruits: did you mean fruit?"),
    ("rollback fruit zero", 2, "'zero' is not a valid integer"),
    ("run none file", 2, "Path 'none' does not exist"),
    ("run file", 2, "'file' has no project: there is no storlet.toml here"),
    ("run", 2, "there is no project: there is no storlet.toml here"),
    ("run bad.storlet", 3, "bad.storlet: "),
    ("run --language java there file", 3, "the manifest of there has the language python"),
    ("run --language python file file", 3, "file: it has no class: add --main MODULE.CLASS"),
    ("run --no-sandbox there none", 2, "Path 'none' does not exist"),
    ("run --no-sandbox broken file", 3, "broken/storlet.toml:1:1: name: missing"),
    ("run --no-sandbox there file -p txt=a", 3, "'txt': unknown: the storlet has text"),
    ("run --no-sandbox there file -p text=a -o none/out", 3, "none/out: No such file"),
    ("test none", 2, "Path 'none' does not exist"),
    ("test --no-sandbox broken", 3, "broken/storlet.toml:1:1: name: missing"),
    ("check file", 1, "file: neither the folder of a project nor a bundle (.storlet)"),
    ("check bad.storlet", 1, "bad.storlet: not a zip file: make it with storlet build"),
    ("list extra", 2, "unexpected extra argument"),
    ("show none.py", 4, "there is no storlet none.py"),
    ("deploy none.py", 2, "Path 'none.py' does not exist"),
    ("deploy broken", 3, "broken/storlet.toml:1:1: name: missing"),
    ("deploy there --main a.B", 3, "--main: a bundle has this in its manifest"),
    ("deploy file", 3, "the language of file is unknown: add --language"),
    ("deploy file --language cobol", 3, "--language cobol: want python, java, native; of another"),
    ("deploy bad.storlet", 3, "bad.storlet: "),
    ("deploy tool.py --limit memory=lots", 4, "registration.invalid"),
    ("delete none.py", 4, "there is no storlet none.py"),
    ("download none.py", 4, "there is no storlet none.py"),
    ("download tool.py -o none/out", 3, "none/out: No such file or directory"),
    ("upload none samples/b", 2, "'none': No such file or directory"),
    ("upload file samples", 3, "'samples' is not an object: write container/object"),
    ("invoke none.py samples/a", 4, "there is no storlet none.py"),
    ("invoke tool.py samples/none", 4, "404"),
    ("invoke tool.py samples", 3, "'samples' is not an object: write container/object"),
    ("invoke tool.py samples/a -p text", 3, "-p 'text': write -p KEY=VALUE"),
    ("invoke tool.py samples/a --limit memory=lots", 4, "lots"),
    ("logs tool.py --since soon", 3, "write a time such as"),
    ("logs tool.py tx-none", 4, "tool.py has no log tx-none"),
    ("logs tol.py", 4, "there is no storlet tol.py: did you mean tool.py?"),
    ("logs tol.py --follow", 4, "there is no storlet tol.py: did you mean tool.py?"),
    ("library std:gerp", 4, "no std:gerp in the library of the cluster; did you mean std:grep?"),
    ("distribute std:nop none", 4, "none"),
    ("distribute std:nop", 3, "give a container with its options, or --objects FILE"),
    ("distribute std:nop --objects file", 4, "want /container/object"),
    ("runs --since soon", 3, "write a time such as"),
    ("runs tol.py", 4, "there is no storlet tol.py: did you mean tool.py?"),
    ("show-run tx-none", 4, "tx-none"),
    ("replay tx-none", 4, "tx-none"),
    ("grants none", 4, "404"),
    ("grant none a:b tool.py", 4, "404"),
    ("grant samples a:b", 2, "Missing argument 'NAME'"),
    ("revoke none a:b tool.py", 4, "404"),
    ("rules put none.yaml", 2, "'none.yaml': No such file or directory"),
    ("rules put broken/storlet.toml", 4, "rules.invalid"),
    ("rules show extra", 2, "unexpected extra argument"),
    ("rules decide TAKE samples/a", 2, "'TAKE' is not one of"),
    ("rules decide GET samples", 3, "'samples' is not an object: write container/object"),
    ("rules delete extra", 2, "unexpected extra argument"),
    ("secret set Api_Token --generate", 3, "secret 'Api_Token': want a lower-case letter"),
    ("secret set token file", 3, "the value has 4 bytes: want 8 to 4096"),
    ("secret set token none", 2, "'none': No such file or directory"),
    ("secret list extra", 2, "unexpected extra argument"),
    ("secret delete none", 4, "there is no secret none"),
    ("sandboxes extra", 2, "unrecognized arguments: extra"),
    ("completion tcsh", 2, "'tcsh' is not one of 'bash', 'zsh', 'fish'"),
    ("query SELEC samples/a", 4, "SqlError: query: line 1, column 1: syntax error"),
    ("query SELEC samples/a --suffix x", 3, "leave out the object"),
    ("deployx tool.py", 2, "deploy"),
]
#: Commands that print a list or one thing; ``ID`` is the id of a recorded run.
LISTS = [
    "doctor", "info", "versions fruit", "test --no-sandbox there", "list", "show tool.py",
    "logs tool.py", "logs tool.py --since 1h", "library", "runs", "show-run ID", "replay ID",
    "grants samples", "secret list",
]  # fmt: skip
OFFLINE = {("rules", verb) for verb in ("check", "test", "explain", "who-can", "diff")}


@pytest.fixture(scope="module")
def place(
    users: dict[str, Client], cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """A working directory, as the owner of an account with a storlet, a bundle and an object."""
    client = users["admin:admin"].on(f"AUTH_{unique('refusals')}")
    folder = tmp_path_factory.mktemp("refusals")
    (folder / "tool.py").write_text(PLAIN)
    (folder / "file").write_text("data\n")
    (folder / "bad.storlet").write_text("no bundle")
    (folder / "fruit.storlet").write_bytes(tool("fruit", "one"))
    (folder / "broken").mkdir()
    (folder / "broken/storlet.toml").write_text("version = '1'\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("OS_STORAGE_URL", client.storage_url)
        patch.setenv("OS_AUTH_TOKEN", client.token)
        patch.setenv("STORLET_LOCAL_CONF", str(cluster.storlet_conf))
        patch.setenv("PYTHONPATH", str(CHECKOUT))  # of the processes of cases
        for words in (
            "enable", "init there", "deploy tool.py", "deploy fruit.storlet",
            "upload file samples/a", "secret set token --generate",
            "grant samples test:tester3 std:grep",
        ):  # fmt: skip
            assert main(words.split()) == 0, words
        yield folder


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(("line", "code", "text"), BAD, ids=[line for line, _, _ in BAD])
def test_a_bad_input_is_one_error(
    line: str, code: int, text: str, capfd: pytest.CaptureFixture[str]
) -> None:
    try:
        result = main(shlex.split(line))
    except SystemExit as ended:  # argparse, of the server's package
        result = int(str(ended.code))
    shown = capfd.readouterr()
    # The findings of doctor are its result.
    told = shown.err or shown.out
    assert (result, text in told) == (code, True), shown
    assert "Traceback" not in shown.err
    assert code == 1 or not shown.out


@pytest.fixture(scope="module")
def recorded(place: Path) -> str:
    """The id of a recorded run, whose log is stored."""
    client = Client(os.environ["OS_STORAGE_URL"], os.environ["OS_AUTH_TOKEN"])
    assert client.post("", {"X-Account-Meta-Storlet-Records": "all"}).status == 204
    headers = {"X-Run-Storlet": "tool.py", "X-Storlet-Generate-Log": "true"}
    answer = client.get("samples/a", headers)
    assert answer.status == 200, answer
    run = str(answer.headers["X-Storlet-Invocation"])
    query = f"storlet-runs&id={run}"
    assert retry_until(lambda: client.get("", query=query).status == 200, 20)
    return run


def parsed(form: str, text: str) -> Any:
    """A document of one of the forms; a table is its lines."""
    if form == "csv":
        return list(csv.reader(io.StringIO(text)))
    readers = {"json": json.loads, "yaml": yaml.safe_load, "table": str.splitlines}
    return readers[form](text)


@pytest.mark.parametrize("line", LISTS)
def test_each_list_has_four_forms(
    line: str, recorded: str, capfd: pytest.CaptureFixture[str]
) -> None:
    found = {}
    for form in FORMATS:
        words = [recorded if word == "ID" else word for word in [*line.split(), "-f", form]]
        assert main(words) == 0, capfd.readouterr()
        found[form] = parsed(form, capfd.readouterr().out)
    assert all(found.values()), found
    times = {"seconds"}  # of the cases of a test, which differ between runs
    without = [
        [{key: value for key, value in row.items() if key not in times} for row in document]
        if isinstance(document, list) else document
        for document in (found["json"], found["yaml"])
    ]  # fmt: skip
    assert without[0] == without[1]
    assert len({len(row) for row in found["csv"]}) == 1


def _is_for_all(option: click.Parameter) -> bool:
    """Whether a form is one of lists; a query has those of tables."""
    return isinstance(option.type, click.Choice) and "yaml" in option.type.choices


def test_each_command_with_forms_is_listed() -> None:
    groups = {(): cli, **{
        (name,): each for name, each in cli.commands.items() if isinstance(each, click.Group)
    }}  # fmt: skip
    with_forms = {
        (*outer, name)
        for outer, group in groups.items()
        for name, each in group.commands.items()
        if any(option.name == "form" and _is_for_all(option) for option in each.params)
    }
    listed = {tuple(line.split())[:count] for line in LISTS for count in (1, 2)}
    assert with_forms <= listed


def test_each_command_has_a_bad_input() -> None:
    commands: set[tuple[str, ...]] = set()
    for name, each in cli.commands.items():
        inner = each.commands if isinstance(each, click.Group) else {"": None}
        commands |= {(name, verb) if verb else (name,) for verb in inner}
    lines = [tuple(line.split()) for line, _, _ in BAD]
    without = {words for words in commands - OFFLINE if not any(
        line[: len(words)] == words for line in lines
    )}  # fmt: skip
    assert without == set()
