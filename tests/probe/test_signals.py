"""A storlet cannot end its tenant's sandbox by a signal that looks as if it came from outside."""

from __future__ import annotations

from pathlib import Path

from tests.support.tenant import Tenant

SOURCE = Path(__file__).parent / "storlets" / "pretender.py"


def test_no_signal_of_a_storlet_ends_the_sandbox(fresh: Tenant) -> None:
    tool = fresh.tool(storlet=fresh.upload("pretender.py", SOURCE.read_bytes(), "Pretender"))
    for what in ("pretend", "look"):
        answer = tool.get(fresh.path, what)
        assert (answer.status, answer.body, answer.is_broken) == (200, b"the same sandbox", False)
