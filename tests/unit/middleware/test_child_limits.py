"""Limits that a process for hostile input sets itself; ``test_child`` runs such processes."""

from __future__ import annotations

import subprocess
import sys


def test_processes_import_no_event_loop() -> None:
    """A node unpacks bundles in such a process while a request waits: 0.3 s of imports."""
    modules = (
        "storlet_middleware.child_limits",
        "storlet_middleware.engine.unpack_process",
        "storlet_middleware.catalog.bundle_process",
    )
    code = f"import sys, {', '.join(modules)}; print('eventlet' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
