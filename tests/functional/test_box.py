"""The one-box image of ``Dockerfile``: build it, run the demo in it, stop it, and leave nothing
behind."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cluster import CHECKOUT, Cluster
from tests.support.waiting import wait_for

RUN_ROOT = "/run/storlets-aio"
#: The demo may have to build the sandbox image on a busy machine.
UP_SECONDS = 300


class Docker:
    """The Docker command line, for the Docker engine of the session's cluster."""

    def __init__(self, host: str) -> None:
        self._env = {**os.environ, "DOCKER_HOST": host}

    def __call__(self, *words: str, seconds: float = 120, check: bool = True) -> str:
        done = subprocess.run(
            ["docker", *words],
            env=self._env,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        if check:
            assert done.returncode == 0, f"docker {' '.join(words)}:\n{done.stdout}{done.stderr}"
        return done.stdout + done.stderr


@pytest.fixture(scope="module")
def docker(cluster: Cluster) -> Docker:
    return Docker(cluster.docker_host)


@pytest.fixture(scope="module")
def image(docker: Docker) -> str:
    done = subprocess.run(
        ["make", "box"], cwd=CHECKOUT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return "storlets/box"


@pytest.fixture
def home() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="storlets-box-", dir="/var/tmp"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.mark.timeout(1200)
def test_the_box_shows_the_demo_and_leaves_nothing(docker: Docker, image: str, home: Path) -> None:
    name = f"box-{uuid.uuid4().hex[:8]}"
    mounts = [f"{place}:{place}" for place in (home, RUN_ROOT)] + [
        "/var/run/docker.sock:/var/run/docker.sock"
    ]
    options = [word for mount in mounts for word in ("-v", mount)]
    options += ["-e", f"STORLETS_HOME={home}", "-e", "STORLETS_PORT=0"]
    docker(
        "run", "-d", "--name", name, "--network", "host", "--cap-add", "SYS_PTRACE", *options, image
    )
    try:
        _wait_until_up(docker, name)
        node_id = json.loads((home / "cluster.json").read_text())["node_id"]
        shown = docker("exec", name, "python3", "-m", "storlet_middleware.aio", "demo", seconds=300)
        assert "NOT AS EXPECTED" not in shown
        assert shown.count(" python ") > 5
        assert shown.count(" java ") > 5
        assert "bytes of SVG in demo/histogram.svg" in shown
        assert docker("ps", "-q", "--filter", f"label=org.storlets={node_id}")
        docker("stop", "-t", "60", name)
        assert "\ndown" in docker("logs", name)
        assert docker("inspect", "-f", "{{.State.ExitCode}}", name).strip() == "0"
        assert docker("ps", "-aq", "--filter", f"label=org.storlets={node_id}") == ""
        assert not Path(RUN_ROOT, node_id).exists()
    finally:
        docker("rm", "-f", name, check=False)


def _wait_until_up(docker: Docker, name: str) -> None:
    """Wait for the cluster in the box; a failure shows the output of the box."""
    try:
        wait_for(
            lambda: "up after" in docker("logs", name) or not _is_running(docker, name),
            UP_SECONDS,
            "the box",
        )
    except AssertionError as error:
        raise AssertionError(
            f"{error}\n{docker('logs', name)}\n{docker('top', name, check=False)}"
        ) from error
    said = docker("logs", name)
    assert "up after" in said, said


def _is_running(docker: Docker, name: str) -> bool:
    return docker("inspect", "-f", "{{.State.Running}}", name).strip() == "true"


def test_the_box_without_an_engine_names_what_it_needs(docker: Docker, image: str) -> None:
    said = docker("run", "--rm", "--network", "none", "--cap-add", "SYS_PTRACE", image, check=False)
    assert "-v /var/run/docker.sock:/var/run/docker.sock" in said
    assert "Traceback" not in said


def test_the_box_without_the_capability_names_what_it_needs(docker: Docker, image: str) -> None:
    socket = "/var/run/docker.sock:/var/run/docker.sock"
    said = docker("run", "--rm", "--network", "none", "-v", socket, image, check=False)
    assert "--cap-add SYS_PTRACE" in said
    assert "Traceback" not in said
