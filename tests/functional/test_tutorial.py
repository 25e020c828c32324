"""The users' tutorial, typed in a terminal: each command gives its documented output.

``...`` in the document stands for any text.  The wheel tests install the package, so that command
is not typed; the login is that of a new account.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.accounts import unique
from tests.support.client_package import interpreters, layered
from tests.support.cluster import CHECKOUT
from tests.support.http import Client
from tests.support.waiting import wait_for

PAGE = CHECKOUT / "docs/user/tutorial.rst"
COLUMNS, LINES = 120, 60
PROMPT = "$ "
SECONDS = 60


@dataclass(frozen=True)
class Step:
    """A command of the page, and a pattern of its output."""

    command: str
    pattern: str


def steps() -> list[Step]:
    """The commands of all ``console`` blocks, in their order."""
    text = PAGE.read_text(encoding="utf-8")
    blocks = re.findall(r"^\.\. code-block:: console\n\n((?:   .*\n|\n)+)", text, re.MULTILINE)
    found = []
    for block in blocks:
        lines = [line.removeprefix("   ") for line in block.strip("\n").splitlines()]
        for part in "\n".join(lines).removeprefix(PROMPT).split(f"\n{PROMPT}"):
            command, _, output = part.partition("\n")
            found.append(Step(command, re.escape(output).replace(r"\.\.\.", r".*")))
    return found


class Terminal:
    """A shell in a terminal of its own."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self._tmux = ["tmux", "-S", str(folder / "tmux"), "-f", "/dev/null"]
        #: Gets a line before each prompt.
        self._prompts = folder / "prompts"
        command = f"echo >> {shlex.quote(str(self._prompts))}"
        variables = {**environment, "PS1": PROMPT, "PROMPT_COMMAND": command}
        shell = ["env", "-i", *(f"{name}={value}" for name, value in variables.items())]
        shell += ["bash", "--norc", "--noprofile"]
        size = ["-x", str(COLUMNS), "-y", str(LINES)]
        self._do("new-session", "-d", *size, "-c", str(folder), shlex.join(shell))
        wait_for(lambda: self._is_at_prompt(1), SECONDS, "the first prompt")

    def _do(self, *words: str) -> str:
        done = subprocess.run(
            [*self._tmux, *words], capture_output=True, text=True, check=False, timeout=SECONDS
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def screen(self) -> str:
        return self._do("capture-pane", "-p").rstrip()

    def type(self, command: str) -> str:
        """The screen below the command, once the next prompt is there."""
        number = self._count() + 1
        self._do("send-keys", "-l", "clear; " + command)
        self._do("send-keys", "Enter")
        wait_for(lambda: self._is_at_prompt(number), SECONDS, f"the end of {command}")
        return self.screen().removesuffix(PROMPT.strip()).strip("\n")

    def _count(self) -> int:
        return len(self._prompts.read_bytes()) if self._prompts.exists() else 0

    def _is_at_prompt(self, number: int) -> bool:
        return self._count() >= number and self.screen().endswith(PROMPT.strip())

    def close(self) -> None:
        self._do("kill-server")


@pytest.fixture
def terminal(tmp_path: Path, users: dict[str, Client]) -> Iterator[Terminal]:
    (tmp_path / "storlets").symlink_to(CHECKOUT / "storlets")
    newest = list(interpreters().values())[-1]
    client = users["admin:admin"].on(f"AUTH_{unique('tutorial')}")
    assert client.put("").status in {201, 202}
    opened = Terminal(
        tmp_path,
        {
            "PATH": f"{layered(newest) / 'bin'}:{os.environ['PATH']}",
            "HOME": str(tmp_path),
            "TERM": "screen-256color",
            "LANG": "C.UTF-8",
            "OS_STORAGE_URL": client.storage_url,
            "OS_AUTH_TOKEN": client.token,
        },
    )
    yield opened
    opened.close()


def test_each_command_of_the_tutorial_gives_its_documented_output(terminal: Terminal) -> None:
    typed = [step for step in steps() if not step.command.startswith(("pip ", "export ST_AUTH="))]
    assert len(typed) == len(steps()) - 2
    for step in typed:
        shown = terminal.type(step.command)
        assert re.fullmatch(step.pattern, shown, re.DOTALL), f"{step.command}\n{shown}"
