"""Fixtures for the tests of runs at a proxy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import eventlet
import pytest

from tests.unit.middleware.rule_runs import RunHarness, Script
from tests.unit.middleware.support import FakeSwift, Node, make_config, open_descriptors, wait_until


@pytest.fixture
def nothing_is_left_open(swift: FakeSwift, node: Node) -> Iterator[None]:
    """Check that a test leaves neither bodies of Swift nor descriptors open."""
    eventlet.sleep()  # the hub has a descriptor of its own
    before = open_descriptors()
    yield
    node.workers.settle()
    assert swift.unclosed() == 0
    # Sockets of the fixtures were open before.
    assert wait_until(lambda: open_descriptors() <= before)


@pytest.fixture
def make(node: Node, swift: FakeSwift, short_dir: Any) -> Callable[..., RunHarness]:
    def make(script: Script | dict[str, Script] | None = None, **options: str) -> RunHarness:
        if callable(script):
            node.workers.script = script
        elif script:
            by_name = script
            node.workers.script = lambda worker: by_name[dict(worker.invoke.parameters)["script"]](
                worker
            )
        return RunHarness(swift, make_config(short_dir, **options))

    return make


@pytest.fixture
def harness(make: Any) -> RunHarness:
    made: RunHarness = make()
    return made


@pytest.fixture
def source_with_metadata(swift: FakeSwift) -> None:
    """A source with metadata, system metadata and other headers."""
    swift.put(
        "c", "o", b"hello", X_Object_Meta_Color="red", X_Object_Meta_Study="7",
        X_Object_Meta_Storlet_Main="x", X_Static_Large_Object="True",
        Content_Disposition="attachment", Access_Control_Expose_Headers="x-object-meta-color",
        X_Object_Sysmeta_Secret="s", Content_Type="text/csv",
    )  # fmt: skip
