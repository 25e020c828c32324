"""The rights of builds under ``sudo``; a process that is not root's changes to no user."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from storlet_client.builder import bundler, rights, wheels
from storlet_client.builder.project import ProjectError
from storlet_client.builder.rights import User, user_of, with_rights_of
from storlet_client.local import subject

ID = 54321
needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can give up root")
TOML = """\
name = "fruit"
version = "1"
language = "native"
main = "made"
build = ["sh", "-c", "id -u > made; id -g >> made; echo $HOME >> made; chmod 755 made"]
files = ["made"]
"""


@pytest.fixture(autouse=True)
def sudo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUDO_UID", str(ID))
    monkeypatch.setenv("SUDO_GID", str(ID))


@pytest.fixture
def folder() -> Iterator[Path]:
    """A project of the user; other users may not look into the folders of pytest."""
    place = Path(tempfile.mkdtemp())
    (place / "storlet.toml").write_text(TOML)
    os.chown(place, ID, ID)
    yield place
    shutil.rmtree(place)


@needs_root
def test_a_build_under_sudo_has_the_rights_of_the_user(folder: Path) -> None:
    bundle = bundler.build(folder, folder / "dist", wheels.Sandbox())
    assert bundle == folder / "dist/fruit-1.storlet"
    uid, gid, home = (folder / "made").read_text().splitlines()
    assert (uid, gid) == (str(ID), str(ID))
    assert home != os.environ.get("HOME")
    owners = {path.stat().st_uid for path in folder.rglob("*") if path.name != "storlet.toml"}
    assert owners == {ID}
    assert os.getuid() == 0


@needs_root
def test_the_build_before_a_run_has_them_too(folder: Path) -> None:
    with subject.read(folder).as_bundle() as bundle:
        assert bundle.stat().st_uid == ID
    assert (folder / "made").read_text().startswith(str(ID))


@needs_root
def test_faults_of_such_a_build_are_those_of_any_other(folder: Path) -> None:
    (folder / "storlet.toml").write_text(TOML.replace('"made"]', '"made", "other"]'))
    with pytest.raises(ProjectError, match="files: other: there is no such file after the build"):
        bundler.build(folder, folder / "dist", wheels.Sandbox())
    (folder / "storlet.toml").write_text(TOML)
    with pytest.raises(PermissionError) as caught:
        bundler.build(folder, Path("/nobody-writes-here"), wheels.Sandbox())
    assert (caught.value.errno, caught.value.filename) == (errno.EACCES, "/nobody-writes-here")


@needs_root
def test_a_python_that_the_user_may_not_read_is_named() -> None:
    def work() -> str:
        raise ModuleNotFoundError("No module named 'pprint'")

    with pytest.raises(ProjectError, match=f"'pprint': user {ID} may not read the Python of"):
        with_rights_of(User(ID, ID), work)


@needs_root
def test_a_build_that_is_killed_gives_no_result() -> None:
    def work() -> str:
        os.kill(os.getpid(), 9)
        return ""

    with pytest.raises(ProjectError, match="the build ended without a result"):
        with_rights_of(User(ID, ID), work)


def test_other_processes_keep_their_rights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    theirs = tmp_path.stat().st_uid != 0
    assert user_of(tmp_path) == (User(ID, ID) if theirs else None)
    for name, value in (("SUDO_UID", "0"), ("SUDO_UID", "root"), ("SUDO_GID", "")):
        with monkeypatch.context() as changed:
            changed.setenv(name, value)
            assert user_of(tmp_path) is None
    monkeypatch.setattr(os, "geteuid", lambda: ID)
    assert user_of(tmp_path) is None
    rights.give(tmp_path, None)
    assert with_rights_of(None, lambda: "made") == "made"
