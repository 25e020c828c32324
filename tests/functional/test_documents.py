"""The shell commands of the documentation give the output that the documentation promises."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.http import Client

ROOT = Path(__file__).resolve().parents[2]


def shell_lines(page: str) -> list[str]:
    """Every ``code-block:: bash`` of a page, without its indentation."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^\.\. code-block:: bash\n\n((?:   .*\n|\n)+)", text, re.MULTILINE)
    assert blocks
    return [re.sub(r"^   ", "", block, flags=re.MULTILINE) for block in blocks]


class Shell:
    """A folder like a fresh checkout, with the tests' cluster instead of the one in the
    documents."""

    def __init__(self, folder: Path, description: dict[str, Any], home: Path) -> None:
        self._folder = folder
        self._url = description["auth_url"]
        self._home = home
        (folder / "storlets").symlink_to(ROOT / "storlets")

    def run(self, lines: list[str]) -> str:
        text = "\n".join(["set -eu", *lines]).replace("http://127.0.0.1:8080/auth/v1.0", self._url)
        text = text.replace(".aio/cluster.json", str(self._home / "cluster.json")).replace(
            "curl ", "curl -sS "
        )
        done = subprocess.run(
            ["bash", "-c", text],
            cwd=self._folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture
def shell(tmp_path: Path, cluster: Any, description: dict[str, Any], owner: Client) -> Shell:
    for tool in ("curl", "bash"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is missing")
    return Shell(tmp_path, description, cluster.home)


def test_hello_world_in_python_gives_its_documented_output(shell: Shell, tmp_path: Path) -> None:
    shutil.copy(ROOT / "docs/examples/hello.py", tmp_path)
    said = shell.run(shell_lines("author/tutorial-python.rst"))
    assert "Welcome, Ada!\nWelcome, Grace!\n" in said
    assert "greeted each name with Hello" in said


def test_hello_world_in_java_gives_its_documented_output(shell: Shell, tmp_path: Path) -> None:
    if shutil.which("javac") is None:
        pytest.skip("no JDK: javac is missing")
    (tmp_path / "hello").mkdir()
    shutil.copy(ROOT / "docs/examples/Hello.java", tmp_path / "hello")
    said = shell.run(
        [shell_lines("author/tutorial-python.rst")[0], *shell_lines("author/tutorial-java.rst")]
    )
    assert "Welcome, Ada!\nWelcome, Grace!\n" in said


def test_the_native_tutorial_gives_its_documented_output(shell: Shell, tmp_path: Path) -> None:
    if shutil.which("gcc") is None:
        pytest.skip("gcc is missing")
    for name in ("hello.sh", "count.c"):
        shutil.copy(ROOT / "docs/examples" / name, tmp_path)
    said = shell.run(
        [shell_lines("author/tutorial-python.rst")[0], *shell_lines("author/tutorial-native.rst")]
    )
    assert "Welcome, Ada!\nWelcome, Grace!\nAda\nGrace\n2\n" in said


def test_the_users_commands_give_their_documented_output(shell: Shell) -> None:
    said = shell.run([*shell_lines("user/tutorial-http.rst"), *shell_lines("user/how-to.rst")])
    assert "X-Storlet-Ran-On: object" in said
    assert "station\nBasel\n" in said
