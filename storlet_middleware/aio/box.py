"""The one-box image: built with or without a registry; its container's main process."""

from __future__ import annotations

import io
import signal
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Final, NoReturn

from . import cache, cluster, engine, image, packages, processes
from .docker_api import DockerApi
from .home import CHECKOUT
from .parts import need_root
from .progress import Progress, run, say

NAME: Final = "storlets/box"
BASE: Final = "storlets/debian"
LOCAL_CERTIFICATES: Final = Path("/usr/local/share/ca-certificates")
CONTENTS: Final = (
    "storlet_middleware",
    "storlet_daemon",
    "rules",
    "sandbox_images",
    "storlets",
    "etc",
    "setup.py",
    "MANIFEST.in",
    "README.rst",
    "LICENSE",
    "Makefile",
    "Dockerfile",
    "requirements.txt",
    "requirements-test.txt",
)
STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


def build_image() -> str:
    """Build the image from the checkout and return its name.

    The base is bootstrapped when no registry can be reached.
    """
    need_root()
    log = cache.cache_root() / "box.log"
    progress = Progress(3)
    with engine.in_use():
        with progress.step("Docker engine"):
            packages.install([] if engine.find() else [packages.DOCKERD], log)
            api = engine.ensure(log).api
        with progress.step("Debian"):
            base = _debian(api, log)
        with progress.step(NAME):
            api.build(_context(), NAME, {"BASE": base}, network="host")
    say(f"{NAME} is built; the head of Dockerfile shows how to run it")
    engine.stop_unused()
    return NAME


def live() -> None:
    """Bring the cluster up, wait for the stop signal, take it down.

    Process 1 of a container has no default actions for signals.
    """
    for signum in STOP_SIGNALS:
        signal.signal(signum, _raise_stop)
    try:
        cluster.up()
        while True:
            processes.reap()
            time.sleep(1)
    except _Stop:
        say("stopping")
    finally:
        for signum in STOP_SIGNALS:
            signal.signal(signum, signal.SIG_IGN)
        cluster.down()


class _Stop(BaseException):
    """The stop signal arrived.  Not an ``Exception``, so that no handler catches it."""


def _raise_stop(_signum: int, _frame: FrameType | None) -> NoReturn:
    raise _Stop


def _debian(api: DockerApi, log: Path) -> str:
    """A plain Debian 12, with its package manager."""
    name = ":".join(image.DEBIAN)
    if api.image_id(name) or api.pull(*image.DEBIAN, seconds=image.PULL_SECONDS):
        return name
    packages.install([packages.DEBOOTSTRAP], log)
    tag = cache.digest([name])
    if api.image_id(f"{BASE}:{tag}") is None:
        image.remove_scratch()
        scratch = image.scratch()
        try:
            run(["debootstrap", "--variant=minbase", "bookworm", scratch, *image.mirror()], log)
            _keep_sources_of_security(scratch)
            api.import_image(
                image.output(["tar", "-C", str(scratch), "--one-file-system", "-c", "."], log),
                BASE,
                tag,
                [],
            )
        finally:
            image.remove_scratch()
    return f"{BASE}:{tag}"


def _keep_sources_of_security(tree: Path) -> None:
    """Copy the host's package sources: debootstrap configures one suite, without security fixes."""
    for path in (
        Path("/etc/apt/sources.list"),
        *Path("/etc/apt/sources.list.d").glob("debian.sources"),
    ):
        if path.exists() and "bookworm" in path.read_text(encoding="utf-8"):
            target = tree / path.relative_to("/")
            target.write_text(path.read_text(encoding="utf-8"), encoding="utf-8")


def _context() -> Iterator[bytes]:
    """The checkout's files, and this machine's additional certificates for a TLS proxy."""
    files = {
        path.relative_to(CHECKOUT): path for name in CONTENTS for path in _files(CHECKOUT / name)
    }
    files |= {Path(".box") / path.name: path for path in LOCAL_CERTIFICATES.glob("*.crt")}
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, path in sorted(files.items()):
            tar.add(path, str(name), filter=image.anonymous)
    out.seek(0)
    return iter(lambda: out.read(image.CHUNK), b"")


def _files(top: Path) -> list[Path]:
    if top.is_dir():
        return list(cache.tree_files(top))
    return [top] if top.exists() else []
