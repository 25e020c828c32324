"""sandboxd of test clusters: its start repeats no self-test that an earlier start has passed.

A session starts sandboxd some sixty times, and each self-test takes a second of processor time.
Here the test of the class ``user`` at the start takes its result from a file of the session, if
there is one of the same image, code, host, limits and options.  All other tests are made: those of
other classes, those that ``storlet sandboxes --check`` requests, and those after a fault.

Only the tests have this code: an installed sandboxd tests each class.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from storlet_middleware.config import USER_CLASS, TrustClass
from storlet_middleware.sandboxd import __main__ as sandboxd
from storlet_middleware.sandboxd.node import Node
from storlet_middleware.sandboxd.plan import Planner
from storlet_middleware.sandboxd.self_test import gate
from storlet_middleware.sandboxd.self_test.self_tests import SelfTests

#: Facts of a host that change while Docker works.
_VARYING: Final = (
    *("Containers", "ContainersRunning", "ContainersPaused", "ContainersStopped", "Images"),
    *("NEventsListener", "NFd", "NGoroutines", "SystemTime"),
)


class KnownSelfTests(SelfTests):
    """Tests with a folder of results, which has those of one boot of the machine."""

    def __init__(self, node: Node, planner: Planner, folder: Path) -> None:
        super().__init__(node, planner)
        self._folder = folder
        self._is_at_start = True

    async def run(self, trust_class: TrustClass) -> dict[str, str]:
        """The known result, or that of a test."""
        is_at_start, self._is_at_start = self._is_at_start, False
        # The content of a mount can change.
        if not is_at_start or trust_class.name != USER_CLASS or trust_class.mounts:
            return await super().run(trust_class)
        known = self._folder / await self._node.threads.call(self._name, trust_class)
        if known.exists():
            return dict(json.loads(known.read_text(encoding="utf-8")))
        faults = await super().run(trust_class)
        failed = {name for name, text in faults.items() if text}
        if failed <= {*self._node.config.sandbox.accept_failures}:
            new = known.with_suffix(f".{os.getpid()}")
            new.write_text(json.dumps(faults), encoding="utf-8")
            new.replace(known)
        return faults

    def _name(self, trust_class: TrustClass) -> str:
        """The name of a result, from all that it depends on."""
        node = self._node
        node.paths.code.make(self._plans.demand(trust_class.name).account)
        facts = self._plans.plan(trust_class.name).facts
        # These differ between clusters.
        facts = dataclasses.replace(
            facts, uid=0, gid=0, control_dir="", code_dir="", cgroup_parent=""
        )
        host = {key: value for key, value in node.engine.host().items() if key not in _VARYING}
        device = node.paths.state_dir.stat().st_dev
        # The environment has the hash of the code in its name.
        what = (facts, trust_class, node.config.sandbox.prewarmed, host, device, sys.prefix)
        return f"self-test-{hashlib.sha256(repr(what).encode()).hexdigest()}"


def main(words: Sequence[str], folder: Path) -> int:
    """sandboxd, with the results in ``folder``."""
    gate.SelfTests = functools.partial(KnownSelfTests, folder=folder)  # type: ignore[assignment, misc]
    return sandboxd.main(words)
