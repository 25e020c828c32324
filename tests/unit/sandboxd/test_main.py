"""The command line: what it prints, what it refuses."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from storlet_middleware.sandboxd.__main__ import main
from tests.unit.sandboxd.doubles import collect_connections

needs_root = pytest.mark.skipif(os.getuid() != 0, reason="sandboxd runs as root only")


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """``main`` sets the process's logging up, and pytest's process is not its own."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level
    collect_connections()


@pytest.fixture
def home() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="sd-", dir="/tmp"))
    yield path
    shutil.rmtree(path)


def write_conf(home: Path, **options: object) -> Path:
    values = {
        "run_dir": home / "run", "state_dir": home / "state", "identity_dir": home / "ids", "node_id": "unit", "group": "root",
        "docker_url": f"unix://{home}/docker.sock", **options,
    }  # fmt: skip
    path = home / "storlet.conf"
    path.write_text(
        "[sandbox]\n" + "".join(f"{name} = {value}\n" for name, value in values.items())
    )
    return path


def start(conf: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "storlet_middleware.sandboxd", "--conf", str(conf)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_help_and_version(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main([option])
    assert end.value.code == 0
    assert "storlet-sandboxd" in capsys.readouterr().out


def test_a_missing_options_file_is_reported(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--conf", str(home / "none.conf")]) == 1
    assert "none.conf" in capsys.readouterr().err


@needs_root
@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"node_id": "-x y"}, "node_id"),
        ({"group": "no-such-group"}, "no such group"),
        ({"run_dir": "/" + "x" * 80}, "too long"),
        ({"uid_first": 0}, "uid_first"),
    ],
)
def test_invalid_options_are_reported(
    home: Path, capsys: pytest.CaptureFixture[str], options: dict[str, object], reason: str
) -> None:
    assert main(["--conf", str(write_conf(home, **options))]) == 1
    assert reason in capsys.readouterr().err


@needs_root
def test_sandboxd_serves_without_docker_refuses_a_second_instance_and_ends_at_sigterm(
    home: Path,
) -> None:
    conf = write_conf(home)
    with start(conf) as process:
        deadline = time.monotonic() + 10
        while not (home / "run" / "sandboxd.sock").exists():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        with start(conf) as second:
            _, text = second.communicate(timeout=10)
        assert second.returncode == 1
        assert f"pid {process.pid} holds" in text
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=10)
    assert process.returncode == 0
    assert not (home / "run" / "sandboxd.sock").exists()
    assert "sandboxd serves" in log
    assert "Traceback" not in log


@needs_root
def test_remove_all_without_docker_reports_it_and_still_clears_the_run_dir(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--conf", str(write_conf(home)), "--remove-all"]) == 1
    assert "not removed" in capsys.readouterr().err
    assert not (home / "run").exists()
