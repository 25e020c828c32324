"""Reading ``storlet.conf``: every fault at once, and no silent default."""

from __future__ import annotations

from pathlib import Path

import pytest

from storlet_middleware.config import ConfigError, load, parse


def test_defaults_make_a_config() -> None:
    config = parse("")
    assert config.limits.memory_bytes == 1 << 30
    assert config.storlet.languages == {
        "python": ("3.11",),
        "java": ("17",),
        "native": ("1",),
    }
    assert config.sandbox.node_id


def test_all_faults_are_reported_at_once_with_the_nearest_name() -> None:
    options = "[limit]\nx = 1\n[limits]\nmemorybytes = 1\npids = many\ncpus = -1\n"
    options += "[invocation]\nidle_seconds = 0\n"
    with pytest.raises(ConfigError) as caught:
        parse(options, "f")
    text = str(caught.value)
    for part in (
        "did you mean limits?",
        "did you mean memory_bytes?",
        "pids = many",
        "cpus = -1",
        "idle_seconds = 0",
    ):
        assert part in text
    assert all(line.startswith("f: ") for line in text.splitlines())


@pytest.mark.parametrize(
    "text",
    [
        "[storlet]\ndependency_container = storlet",
        "[storlet]\nlog_container = a/b",
        "[limits]\npids = 0",
        "[limits]\ninputs = 31",
        "[placement]\nrun_on = everywhere",
        "[storlet]\nlanguages = perl:5",
        "[limits]\nmemory_bytes = 5 X",
        "no section",
        "[limits]\npids = 1\npids = 2",
    ],
)
def test_invalid_values_are_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parse(text)


def test_a_missing_file_is_a_fault(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load(str(tmp_path / "none"))


def test_a_sandbox_fits_into_the_node() -> None:
    with pytest.raises(ConfigError, match=r"\[limits\] memory_bytes is more than \[node\] memory"):
        parse("[node]\nmemory = 512M\n")
    assert parse("[node]\nmemory = 512M\n[limits]\nmemory_bytes = 512M\n").node.memory == 512 << 20
