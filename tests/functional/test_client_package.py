"""The client's wheel, installed where nothing else of the project is."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import pytest

from storlet_middleware.aio import cache
from tests.support.client_package import (
    PACKAGE,
    installed,
    interpreters,
    layered,
    run,
    server_wheel,
    wheel,
)
from tests.support.cluster import CHECKOUT
from tests.support.forking import commands_of

#: The limit of everything that an installation adds, without byte code.
MOST_BYTES = 15_000_000
#: Prints the names of all installed packages.
INSTALLED = (
    "import importlib.metadata as m; print(*(d.metadata['Name'] for d in m.distributions()))"
)
#: Packages of a new environment.
TOOLS = {"pip", "setuptools"}


@pytest.fixture(scope="module", params=interpreters())
def place(request: pytest.FixtureRequest) -> Path:
    return installed(interpreters()[request.param])


@pytest.fixture(scope="module")
def wheels() -> dict[str, Path]:
    """The wheels of users and of servers, by the names of their distributions."""
    return {"storlet-client": wheel(), "swift-storlets": server_wheel()}


def test_the_wheel_has_every_module_and_all_data_of_the_client(wheels: dict[str, Path]) -> None:
    with zipfile.ZipFile(wheels["storlet-client"]) as archive:
        names = {name for name in archive.namelist() if name.startswith(f"{PACKAGE}/")}
    files = {str(path.relative_to(CHECKOUT)) for path in cache.tree_files(CHECKOUT / PACKAGE)}
    assert names == files - {f"{PACKAGE}/pyproject.toml", f"{PACKAGE}/README.rst"}


def test_an_installation_is_smaller_than_15_mb(place: Path) -> None:
    site = next(place.glob("lib/python3*/site-packages"))
    sizes = {
        path: path.stat().st_size
        for path in site.rglob("*")
        if path.is_file()
        and path.suffix != ".pyc"
        and path.relative_to(site).parts[0].partition("-")[0] not in TOOLS
    }
    assert 1_000_000 < sum(sizes.values()) < MOST_BYTES


def test_no_server_package_is_installed_with_the_client(place: Path) -> None:
    names = {name.lower() for name in run([str(place / "bin/python"), "-c", INSTALLED]).split()}
    assert "storlet-client" in names
    assert names.isdisjoint({"swift", "eventlet", "docker", "swift-storlets"})


def test_a_new_project_becomes_a_bundle_that_the_command_accepts(
    place: Path, tmp_path: Path
) -> None:
    storlet = str(place / "bin/storlet")
    run([storlet, "init", "fruit"], cwd=tmp_path)
    (first,) = run([storlet, "build", "fruit"], cwd=tmp_path).split()
    content = (tmp_path / first).read_bytes()
    run([storlet, "build", "fruit"], cwd=tmp_path)
    assert (tmp_path / first).read_bytes() == content


#: The id of a user and of a group that no machine has.
SUDO_ID = 54321


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give up root")
def test_files_of_commands_under_sudo_belong_to_the_user() -> None:
    # Other users may look neither into the folders of pytest nor into those of root, where a
    # version manager can have the other interpreters.
    place = layered(Path(sys.executable))
    home = Path(tempfile.mkdtemp())
    os.chown(home, SUDO_ID, SUDO_ID)
    environment = {
        "PATH": os.environ["PATH"], "SUDO_UID": str(SUDO_ID), "SUDO_GID": str(SUDO_ID),
    }  # fmt: skip
    storlet = str(place / "bin/storlet")
    try:
        for words in (
            "init fruit",
            "build fruit",
            "test --no-sandbox fruit --junit report.xml",
            "run --no-sandbox fruit fruit/sample.txt -p text=apple -o out.txt",
        ):
            run([storlet, *words.split()], cwd=home, env=environment)
        assert (home / "out.txt").read_text() == "one apple\nthree apples\n"
        files = [path for path in home.rglob("*") if path.is_file()]
        assert {path.name for path in files} >= {
            "storlet.toml", "fruit-0.1.0.storlet", "report.xml", "out.txt",
        }  # fmt: skip
        assert {(path.stat().st_uid, path.stat().st_gid) for path in home.rglob("*")} == {
            (SUDO_ID, SUDO_ID)
        }
    finally:
        shutil.rmtree(home)


@pytest.mark.parametrize("last", ["storlet-client", "swift-storlets"])
def test_both_packages_have_one_command(wheels: dict[str, Path], last: str, tmp_path: Path) -> None:
    """In either order of installation; and each without the other."""
    place = tmp_path / "venv"
    shutil.copytree(layered(list(interpreters().values())[-1]), place, symlinks=True)
    python, storlet = str(place / "bin/python"), [str(place / "bin/python"), f"{place}/bin/storlet"]
    # The libraries bring their byte code with them: a place for it elsewhere has none of this copy.
    environment = {"PATH": os.environ["PATH"]}
    first = next(name for name in wheels if name != last)
    # Each import of pip takes a third of a second.
    with commands_of(place, "pip", "pip._internal.cli.main") as commands:

        def pip(*words: str) -> None:
            commands.run(["--quiet", "--no-input", *words], {})

        # The byte code of all modules would take most of the time, and the commands import few.
        install = ("install", "--no-compile", "--no-deps", "--no-index", "--force-reinstall")
        for name in (first, last):
            pip(*install, str(wheels[name]))
            # The script is that of the package which was installed last.
        assert "deploy" in run([*storlet, "--help"], env=environment)
        assert "--check" in run([*storlet, "sandboxes", "--help"], env=environment)
        file = tmp_path / "rules.yaml"
        file.write_text("version: 1\nrules: []\n")
        assert "0 rules" in run([*storlet, "rules", "check", str(file)], env=environment)
        pip("uninstall", "--yes", last)
        # pip has removed the script of both; each package runs as a module.
        modules = {"storlet-client": "storlet_client", "swift-storlets": "storlet_middleware.cli"}
        said = run([python, "-m", modules[first], "--help"], env=environment)
        assert "Usage" in said.replace("usage", "Usage")
        pip(*install, str(wheels[first]))
    done = subprocess.run(
        [*storlet, "show"], env=environment, capture_output=True, text=True, check=False
    )
    known = "Missing argument" if first == "storlet-client" else "package storlet-client"
    assert (done.returncode, known in done.stderr) == (2, True), done.stderr


def test_a_command_without_credentials_names_the_variables_to_set(place: Path) -> None:
    done = subprocess.run(
        [place / "bin/storlet", "list"],
        env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3
    assert "OS_CLOUD" in done.stderr
