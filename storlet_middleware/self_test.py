"""The public result of a node's self-test: a small file, written by sandboxd, read for ``/info``.

It contains the state of each trust class only.  Operators see the failed tests with ``storlet
sandboxes`` and in sandboxd's log.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from storlet_middleware.config import CLASSES

FILE_NAME: Final = "self-test.json"
#: No result: sandboxd has not run here, or could make no sandbox yet.
UNTESTED: Final = "untested"
PASS: Final = "pass"  # noqa: S105  a state, not a password
FAIL: Final = "fail"
_STATES: Final = (UNTESTED, PASS, FAIL)


def states(run_dir: str | Path) -> dict[str, str]:
    """The state of each trust class on this node, as last published."""
    try:
        told = json.loads((Path(run_dir) / FILE_NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        told = {}
    known = told if isinstance(told, dict) else {}
    return {name: known[name] if known.get(name) in _STATES else UNTESTED for name in CLASSES}
