"""The installed parts of a cluster: system packages, Python environment, engine, image."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from . import engine, image, java, native, packages, processes, venv
from .engine import Engine
from .home import Home
from .progress import AioError, Progress, complain

LACKING: Final = (
    "std:sql, std:sql-part, std:sql-parquet, std:sql-merge, std:s3-select, std:s3-select-parquet,"
    " std:convert, std:convert-parquet, std:image, std:image-region and std:deidentify-dicom, and"
    " zstd, lz4, BLAKE3 and CRC-32C, will answer with an error: pip could not fetch the packages of"
    " their sandbox image (sandbox_images/data/requirements.txt), see {log}"
)


@dataclass(frozen=True)
class Parts:
    """The parts of one cluster; ``java`` and ``native`` are ``None`` without their sources."""

    venv: Path
    engine: Engine
    java: Path | None
    native: Path | None
    image: str


def set_up(home: Home, progress: Progress, *extra: packages.Need) -> Parts:
    """Install and build the parts that are missing, in six steps."""
    log = home.logs / "setup.log"
    if os.environ.get("STORLETS_BOX"):
        engine.need_hosts()
    with progress.step("system packages"):
        needs = [packages.PYTHON, packages.MEMCACHED, packages.CURL, *extra]
        needs += [packages.MOUNT] if home.mounts else []
        needs += [packages.JDK, packages.MAVEN, packages.GCC] if java.needs_tools() else []
        needs += [packages.GCC, packages.JANSSON] if native.needs_tools() else []
        needs += [packages.DOCKERD] if not engine.find() else []
        packages.install(needs, log)
        need_root()
        processes.need_ptrace()
        packages.make_user(log)
    with progress.step("Python environment"):
        environment = venv.code(log)
    with progress.step("Docker engine"):
        docker = engine.ensure(log)
    with progress.step("Java parts"):
        java_parts = java.parts(log)
    with progress.step("native parts"):
        native_parts = native.parts(log)
    with progress.step("sandbox image"):
        if image.wants_debootstrap(docker.api):
            packages.install([packages.DEBOOTSTRAP], log)
        image.build_base(docker.api, log)
        built = {"java": java_parts, "native": native_parts}
        name = image.build(docker.api, {name: place for name, place in built.items() if place})
        data = venv.data(log)
        if data is not None:
            name = image.build_data(docker.api, name, data)
    if data is None:
        complain(LACKING.format(log=log))
    return Parts(environment, docker, java_parts, native_parts, name)


def need_root() -> None:
    """Raise an error for other users than root."""
    if os.geteuid():
        raise AioError(
            "run this with sudo or as root: the cluster has a user for Swift, a user for each "
            "sandbox, and possibly a bind mount for a short path."
        )
