"""Commands whose processes begin with their modules imported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.cluster import CHECKOUT
from tests.support.waiting import retry_until

#: Runs a command, prints the folder of its files, and waits to be killed, which the test does as
#: soon as it has read the folder.
SESSION = """
import sys, time
from pathlib import Path
from tests.support.forking import commands_of
with commands_of(Path(sys.prefix), "code", "tests.support.code", {"PYTHONPATH": "."}) as commands:
    assert commands.run(["print(3)"], {}) == "3\\n"
    print(commands._files[0].parent, flush=True)
    time.sleep(60)
"""


def test_a_session_that_is_killed_leaves_no_files() -> None:
    command = [sys.executable, "-c", SESSION]
    with subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.PIPE, text=True) as session:
        assert session.stdout is not None
        folder = Path(session.stdout.readline().strip())
        assert folder.is_dir()
        session.kill()
    assert retry_until(lambda: not folder.exists())
