"""The sandbox images: a Debian base with the languages, and on top our daemon and their parts.
The larger one has also Python packages, which storlets of the system library need.

The base is built from ``sandbox_images/base``: by its Dockerfile when the engine has or can pull
``debian:bookworm-slim``, else by ``debootstrap.sh`` and an import.  Both tags contain the hash of
their sources, so nothing is built twice and checkouts do not affect each other.
``STORLETS_BASE=debootstrap`` or ``=registry`` overrides the choice.
"""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from . import cache, java
from .docker_api import DockerApi
from .home import CHECKOUT
from .mounts import mounted_below, unmount
from .progress import AioError, tail

RECIPES: Final = CHECKOUT / "sandbox_images"
NAME: Final = "storlets/sandbox"
DATA: Final = "storlets/sandbox-data"
BASE: Final = "storlets/sandbox-base"
DEBIAN: Final = ("debian", "bookworm-slim")
CHUNK: Final = 256 * 1024
PARTS: Final = "lib"
"""Folder of the context that becomes ``/usr/local/lib/storlets``."""

LEFT_OUT: Final = frozenset({java.SAMPLE_JARS})
"""Folders of a language's parts that are not part of the image."""

KEEP_IMAGES: Final = 8
PULL_SECONDS: Final = 90.0


def base_tag() -> str:
    return f"{BASE}:{cache.tree_digest(RECIPES, ['base'])}"


def has_base(api: DockerApi) -> bool:
    return api.image_id(base_tag()) is not None


def wants_debootstrap(api: DockerApi) -> bool:
    """Whether the base must be made without a registry."""
    choice = os.environ.get("STORLETS_BASE", "")
    if choice not in {"", "debootstrap", "registry", "rootfs"}:
        raise AioError(f"STORLETS_BASE={choice!r}: want debootstrap, registry or rootfs")
    if has_base(api) or choice in {"registry", "rootfs"}:
        return False
    if choice == "debootstrap":
        return True
    return api.image_id(":".join(DEBIAN)) is None and not api.pull(*DEBIAN, seconds=PULL_SECONDS)


def build_base(api: DockerApi, log: Path) -> None:
    """Make the base image; the caller has installed debootstrap if :func:`wants_debootstrap`."""
    if has_base(api):
        return
    name, tag = base_tag().split(":")
    rootfs = os.environ.get("STORLETS_ROOTFS", "")
    if os.environ.get("STORLETS_BASE") == "rootfs":
        api.import_image(
            output(["tar", "-C", rootfs, "--one-file-system", "-c", "."], log), name, tag, []
        )
    elif wants_debootstrap(api):
        remove_scratch()
        try:
            api.import_image(
                output(["bash", str(RECIPES / "base/debootstrap.sh"), str(scratch())], log),
                name,
                tag,
                [],
            )
        finally:
            remove_scratch()
    else:
        # Needs the network.  Our engine has no bridge, so the build uses the host's network.
        api.build(_context({RECIPES / "base": ""}), base_tag(), {}, network="host")


def build(api: DockerApi, parts: Mapping[str, Path]) -> str:
    """Make the sandbox image if its parts have changed; return its full name.

    ``parts`` are the folders of built files by language.
    """
    daemon = CHECKOUT / "storlet_daemon"
    key = cache.digest(
        [
            base_tag(),
            cache.tree_digest(RECIPES, ["sandbox"]),
            cache.tree_digest(daemon.parent, ["storlet_daemon"]) if daemon.is_dir() else "",
            f"with {', '.join(sorted(parts))}",
        ]
    )
    image = f"{NAME}:{key}"
    if api.image_id(image) is None:
        folders = {RECIPES / "sandbox": "", daemon: f"{PARTS}/python/storlet_daemon"}
        folders |= {folder: f"{PARTS}/{language}" for language, folder in parts.items()}
        api.build(_context(folders), image, {"BASE": base_tag(), "KEY": key})
        _remove_old(api, image)
    api.tag(image, NAME, "latest")
    return image


def build_data(api: DockerApi, below: str, packages: Path) -> str:
    """Make the larger image if its parts have changed; return its full name.

    :param below: the full name of the sandbox image.
    :param packages: the folder of its Python packages (:func:`~.venv.data`).
    """
    key = cache.digest([below, cache.tree_digest(RECIPES, ["data"]), packages.name])
    image = f"{DATA}:{key}"
    if api.image_id(image) is None:
        folders = {RECIPES / "data": "", packages: "python"}
        api.build(_context(folders), image, {"BASE": below, "KEY": key})
        _remove_old(api, image)
    api.tag(image, DATA, "latest")
    return image


def _remove_old(api: DockerApi, current: str) -> None:
    """Remove old images, one of which is made per change of the code; keep the newest ones.

    The larger images are removed first, because they are made from the others.
    """
    kept = {current, base_tag(), f"{NAME}:latest", f"{DATA}:latest"}
    for repository in (DATA, NAME, BASE):
        old = [name for name in api.tags(repository) if name not in kept]
        for name in old[KEEP_IMAGES:]:
            api.untag(name)


def scratch() -> Path:
    """A directory for this process's debootstrap."""
    return cache.cache_root() / f"scratch-{os.getpid()}"


def mirror() -> list[str]:
    """``STORLETS_MIRROR``, as the last words of a debootstrap command."""
    return [os.environ["STORLETS_MIRROR"]] if os.environ.get("STORLETS_MIRROR") else []


def remove_scratch() -> None:
    """Remove the directories of ended debootstraps: mounts first, else their content is deleted."""
    for place in cache.cache_root().glob("scratch-*"):
        pid = place.name.partition("-")[2]
        if pid != str(os.getpid()) and Path(f"/proc/{pid}").exists():
            continue
        for point in sorted(mounted_below(place), reverse=True):
            unmount(point)
        if not mounted_below(place):
            subprocess.run(["rm", "-rf", "--one-file-system", str(place)], check=False)


def _context(folders: dict[Path, str]) -> Iterator[bytes]:
    """A build context in memory: the source files of ``folders``, renamed to the image's layout."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for folder, prefix in folders.items():
            # Sources that are built are not part of the image; their built files are.
            left_out = LEFT_OUT | {script.parent.name for script in folder.glob("*/build.sh")}
            for path in sorted(cache.tree_files(folder)):
                if path.relative_to(folder).parts[0] in left_out:
                    continue
                tar.add(path, str(Path(prefix) / path.relative_to(folder)), filter=anonymous)
    out.seek(0)
    return iter(lambda: out.read(CHUNK), b"")


def anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """An entry owned by root and readable for all users, independent of the checkout's umask."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = "root"
    entry.mode = 0o755 if entry.mode & 0o100 else 0o644
    return entry


def output(command: list[str], log: Path) -> Iterator[bytes]:
    """The standard output of ``command`` in chunks; raises an error when it fails."""
    with (
        log.open("ab") as err,
        subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=err
        ) as child,
    ):
        out = child.stdout
        if out is None:
            raise AssertionError
        while chunk := out.read(CHUNK):
            yield chunk
        if child.wait():
            raise AioError(
                f"`{' '.join(command)}` ended with {child.returncode}. The end of "
                f"{log}:\n{tail(log)}"
            )
