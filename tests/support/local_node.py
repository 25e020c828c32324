"""One ``storlet-local`` for all commands of a test: its start takes a hundred times as long as a
run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from storlet_client.local.run import Outcome
from storlet_client.local.sandbox import LocalNode
from tests.support.cluster import CHECKOUT, Cluster


class _Shared:
    """The node, with an output of its own."""

    def __init__(self, node: LocalNode, written: Path, output: int) -> None:
        self._node = node
        self._written = written
        self._output = output
        self.load = node.load

    def run(self, *words: Any, **more: Any) -> Outcome:
        begin = self._written.stat().st_size
        outcome = self._node.run(*words, **more)
        os.write(self._output, self._written.read_bytes()[begin:])
        return outcome


@contextmanager
def one_node(cluster: Cluster, place: Path) -> Iterator[LocalNode]:
    """Commands of this process use one node during the block, which gets it.

    :param place: a file for the output of all runs.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STORLET_LOCAL_CONF", str(cluster.storlet_conf))
        patch.setenv("PYTHONPATH", str(CHECKOUT))
        with place.open("wb") as file, LocalNode(file.fileno()) as node:

            @contextmanager
            def opened(output: int, _otherwise: str = "") -> Iterator[_Shared]:
                yield _Shared(node, place, output)

            for module in ("cli.local", "local.check", "local.repeat"):
                patch.setattr(f"storlet_client.{module}.LocalNode", opened)
            yield node
