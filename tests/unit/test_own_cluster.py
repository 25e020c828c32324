"""A home of a cluster has one cleaner, also while other sessions look for homes without one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import own_cluster
from tests.support.cluster import CHECKOUT

#: Removes the home, and nothing else: there is no cluster in it.  The import of shutil would take
#: longer than the rest.
SCRIPT = (
    "import os, sys; sys.stdin.read(); [os.remove(file) for file in os.scandir(sys.argv[1])];"
    " os.rmdir(sys.argv[1])"
)
#: Another session: removes orphans until its standard input ends.
OTHER_SESSION = """
import select, sys
from pathlib import Path
from tests.support import own_cluster
own_cluster.PARENT = own_cluster.MEMORY = Path(sys.argv[1])
own_cluster._SCRIPT = sys.argv[2]
print("ready", flush=True)
while not select.select([sys.stdin], [], [], 0)[0]:
    own_cluster.remove_orphans()
"""
HOMES = 20


@pytest.fixture
def parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("PARENT", "MEMORY"):
        monkeypatch.setattr(own_cluster, name, tmp_path)
    monkeypatch.setattr(own_cluster, "_SCRIPT", SCRIPT)
    return tmp_path


def new_home(parent: Path, name: str) -> Path:
    home = parent / f"{own_cluster.PREFIX}{name}"
    home.mkdir()
    return home


def test_another_session_never_takes_a_home_whose_cleaner_just_starts(parent: Path) -> None:
    command = [sys.executable, "-c", OTHER_SESSION, str(parent), SCRIPT]
    with subprocess.Popen(
        command, cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout
        assert other.stdout.readline() == "ready\n"
        for number in range(HOMES):
            home = new_home(parent, str(number))
            with own_cluster.start_cleaner(home) as cleaner:
                assert (home / own_cluster.CLEANER).exists()
                cleaner.communicate()
            assert cleaner.returncode == 0, "another cleaner deleted the home first"
            assert not home.exists()
        other.communicate("end\n")
    assert other.returncode == 0


def test_a_home_without_cleaner_is_removed_once_and_others_stay(parent: Path) -> None:
    orphan, used = new_home(parent, "orphan"), new_home(parent, "used")
    with own_cluster.start_cleaner(orphan) as killed:
        killed.kill()
    with own_cluster.start_cleaner(used) as cleaner:
        own_cluster.remove_orphans()
        assert not orphan.exists()
        assert (used / own_cluster.CLEANER).read_text() == str(cleaner.pid)
        own_cluster.remove_orphans()
        assert used.exists()
