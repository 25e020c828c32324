"""The total memory of a node's sandboxes: the option, and the host's memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from storlet_middleware.config import parse
from storlet_middleware.node_memory import host_memory, memory_total

GIB = 1 << 30


@pytest.mark.parametrize(
    ("option", "total"),
    [("2G", 2 * GIB), ("50%", 4 * GIB), ("100%", 8 * GIB), ("", 6 * GIB)],
)
def test_the_option_is_a_size_or_a_share_of_the_host(option: str, total: int) -> None:
    node = parse(f"[node]\nmemory = {option}" if option else "").node
    assert memory_total(node, 8 * GIB) == total


def test_the_hosts_memory_is_in_bytes(tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text("MemFree:  7 kB\nMemTotal:       16384 kB\nSwapTotal: 1 kB\n")
    assert host_memory(tmp_path) == 16 << 20
    # This host, whose memory the kernel reports in pages too.
    assert host_memory() > 64 << 20


@pytest.mark.parametrize("text", ["", "MemFree: 7 kB\n", "NotMemTotal: 7 kB\n"])
def test_a_host_without_a_total_is_an_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "meminfo").write_text(text)
    with pytest.raises(OSError, match="MemTotal"):
        host_memory(tmp_path)
