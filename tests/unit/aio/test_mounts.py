"""Bind mounts, on a made-up table of mounts: no mount is made."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from storlet_middleware.aio import home as homes
from storlet_middleware.aio import mounts
from storlet_middleware.aio.home import Home
from storlet_middleware.aio.progress import AioError


class Kernel:
    """A table of mounts, changed by ``mount`` and ``umount``."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.table: list[tuple[Path, str]] = []
        self.refused: set[str] = set()
        self.calls: list[str] = []
        monkeypatch.setattr(mounts, "_mounts", lambda: iter(self.table))
        monkeypatch.setattr(mounts.subprocess, "run", self._run)

    def _run(self, command: Sequence[str], **_: object) -> SimpleNamespace:
        *words, point = command
        self.calls.append(" ".join(word for word in words if not word.startswith("/")))
        code = 32 if self.calls[-1] in self.refused else 0
        if not code and words[0] == "mount":
            self.table.append((Path(point), words[-1]))
        elif not code:
            index = max(i for i, (at, _) in enumerate(self.table) if at == Path(point))
            del self.table[index]
        return SimpleNamespace(returncode=code, stderr="permission denied\n")


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    return Kernel(monkeypatch)


@pytest.fixture
def mounted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A home with a space in its path, which therefore needs a mount."""
    monkeypatch.setattr(homes, "RUN_ROOT", tmp_path / "run")
    monkeypatch.setattr(mounts, "RUN_ROOT", tmp_path / "run")
    return homes.open_home({"STORLETS_HOME": str(tmp_path / "a b"), "STORLETS_PORT": "0"})


def test_mounting_twice_mounts_once(
    kernel: Kernel, mounted: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "samefile", lambda _point, _real: True)
    mounts.mount_all(mounted)
    mounts.mount_all(mounted)
    assert kernel.table == [(mounted.root, str(mounted.real))]


def test_a_mount_of_another_directory_is_replaced(kernel: Kernel, mounted: Home) -> None:
    kernel.table = [(mounted.root, "/somewhere/else")]
    mounts.mount_all(mounted)
    assert kernel.table == [(mounted.root, str(mounted.real))]


def test_a_refused_mount_names_the_remedy(kernel: Kernel, mounted: Home) -> None:
    kernel.refused = {"mount --bind"}
    with pytest.raises(AioError, match=r"(?s)permission denied.*Set STORLETS_HOME"):
        mounts.mount_all(mounted)


def test_a_busy_mount_is_removed_lazily_and_a_stuck_one_is_an_error(
    kernel: Kernel, tmp_path: Path
) -> None:
    kernel.table = [(tmp_path, "/x")]
    kernel.refused = {"umount"}
    mounts.unmount(tmp_path)
    assert (kernel.table, kernel.calls) == ([], ["umount", "umount -l"])
    kernel.refused.add("umount -l")
    with pytest.raises(AioError, match="cannot unmount"):
        mounts.unmount(tmp_path)


def test_everything_is_unmounted_from_the_deepest_before_the_directory_is_deleted(
    kernel: Kernel, mounted: Home
) -> None:
    mounted.root.mkdir(parents=True)
    kernel.table = [(mounted.short / name, "/x") for name in ("home", "home/etc", "home")]
    mounts.unmount_all(mounted)
    assert kernel.table == []
    assert not mounted.short.exists()
    assert not mounted.short.parent.exists()


def test_a_directory_with_a_mount_left_is_not_deleted(
    kernel: Kernel, mounted: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the files of the mounted home would be deleted."""
    mounted.root.mkdir(parents=True)
    kernel.table = [(mounted.root, str(mounted.real))]
    monkeypatch.setattr(mounts, "unmount", lambda _point: None)
    mounts.unmount_all(mounted)
    assert mounted.root.exists()


def test_only_a_directory_mounted_on_itself_is_a_self_mount(kernel: Kernel) -> None:
    docker = Path("/var/lib/docker")
    kernel.table = [(docker, "/lib/docker"), (docker, "/"), (docker / "x", "/lib/docker/x")]
    assert mounts.self_mounts(docker) == [docker]
    assert mounts.mounted_below(docker) == [docker, docker, docker / "x"]


@pytest.mark.parametrize(
    ("escaped", "plain"),
    [
        (r"/a\040b", "/a b"),
        (r"/a\011b\012", "/a\tb\n"),
        (r"/a\134040", r"/a\040"),
        (r"/a\134134b", r"/a\134b"),
        ("/plain", "/plain"),
    ],
)
def test_names_in_the_table_of_the_kernel_are_unescaped(escaped: str, plain: str) -> None:
    assert mounts._unescape(escaped) == plain


def test_the_table_of_the_kernel_has_the_mount_of_proc() -> None:
    assert mounts.mounted_below(Path("/proc"))[0] == Path("/proc")
