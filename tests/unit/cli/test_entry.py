"""The console script, with and without the package of users."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import pytest

from storlet_client import __main__ as users
from storlet_middleware.cli import __main__ as own
from storlet_middleware.cli import entry
from tests.support.cluster import CHECKOUT


@pytest.mark.parametrize("is_installed", [True, False])
def test_the_package_of_users_has_the_whole_command(
    monkeypatch: pytest.MonkeyPatch, is_installed: bool
) -> None:
    def find(name: str) -> Any:
        if not is_installed:
            raise PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", find)
    monkeypatch.setattr(own, "main", lambda: 1)
    monkeypatch.setattr(users, "main", lambda: 2)
    assert entry.main() == (2 if is_installed else 1)


#: A library that interrupts the process that imports it, as Ctrl-C does.  The signal ends the
#: sleep at once: without it, the exit code would be that of an import that continues.
INTERRUPT = "import os, signal, time; os.kill(os.getpid(), signal.SIGINT); time.sleep(10)"


@pytest.mark.parametrize(
    ("module", "library"),
    [
        ("storlet_client.__main__", "click"),
        ("storlet_client.__main__", "httpx"),
        ("storlet_middleware.cli.entry", "argparse"),
    ],
)
def test_an_interrupt_of_the_first_imports_is_no_traceback(
    tmp_path: Path, module: str, library: str
) -> None:
    (tmp_path / f"{library}.py").write_text(INTERRUPT)
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from {module} import main; sys.exit(main())"
    # Without site-packages, there is no package of users.
    options = ["-S"] if module.startswith("storlet_middleware") else []
    words = [sys.executable, *options, "-c", code]
    ended = subprocess.run(
        [*words, "--help"], cwd=CHECKOUT, capture_output=True, text=True, timeout=30, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "storlet: interrupted\n")


@pytest.mark.parametrize("words", [["deploy", "x"], ["rules", "put", "x"]])
def test_a_command_of_users_is_said_to_be_elsewhere(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        own.main(words)
    assert ended.value.code == 2
    assert "in the package storlet-client" in capsys.readouterr().err
