"""The tables of options agree with each other, the sample file and the code."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
from pathlib import Path

import pytest

from storlet_middleware.config import OPTIONS, Config, ConfigError, Level, load, parse, sample
from storlet_middleware.config.readers import read_mounts
from storlet_middleware.engine import limits

ROOT = Path(__file__).parents[3]
#: The least value of each limit that a trust class may lower.
LEAST = {
    row.name: row.least
    for row in OPTIONS
    if row.section == "limits" and row.level >= Level.CLASS and row.least
}
SOURCES = [path for path in (ROOT / "storlet_middleware").rglob("*.py") if "/aio/" not in str(path)]


def test_defaults_make_a_config() -> None:
    config = parse("")
    assert config.limits.memory_bytes == 1 << 30
    assert config.storlet.languages == {"python": ("3.11",), "java": ("17",)}
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
def test_nonsensical_values_are_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parse(text)


@pytest.mark.parametrize("section", ["limits", "class:user", "class:admin"])
@pytest.mark.parametrize("name", [name for name in LEAST if name != "storlet_cpus"])
def test_a_limit_too_small_for_any_storlet_is_refused_in_every_section(
    section: str, name: str
) -> None:
    """Also 0 in a class: Docker and control groups take 0 for no limit."""
    parse(f"[{section}]\n{name} = {LEAST[name]}")
    for value in (0, LEAST[name] - 1):
        with pytest.raises(ConfigError, match=rf"\[{section}\] {name}: want at least "):
            parse(f"[{section}]\n{name} = {value}")


def test_zero_cpus_is_no_limit_and_almost_none_is_refused() -> None:
    parse("[limits]\nstorlet_cpus = 0")
    with pytest.raises(ConfigError, match=r"want at least 0\.01 or 0 for no limit"):
        parse("[limits]\nstorlet_cpus = 0.001")


@pytest.mark.parametrize(
    ("text", "value"), [("1024", 1024), ("64K", 65536), ("1 MiB", 1 << 20), ("2g", 2 << 30)]
)
def test_sizes_take_units(text: str, value: int) -> None:
    assert parse(f"[limits]\ncode_bytes = {text}").limits.code_bytes == value


def test_a_file_that_is_missing_is_a_fault(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load(str(tmp_path / "none"))


def test_the_sample_file_agrees_with_the_table_and_parses() -> None:
    assert (ROOT / "etc/storlet.conf-sample").read_text() == sample()
    printed = subprocess.run(
        [sys.executable, "-m", "storlet_middleware.config"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert printed.stdout == sample()
    uncommented = re.sub(r"(?m)^# (\w+ = |\[image:)", r"\1", sample())
    config = parse(uncommented)
    assert config.images == {"AUTH_example": "example/storlets:1"}
    assert dataclasses.replace(config, images={}) == parse("")


def test_every_option_is_read_somewhere() -> None:
    code = "\n".join(path.read_text() for path in SOURCES if path.parent.name != "config")
    read = {row.option for row in limits.TABLE}
    unread = [
        f"[{option.section}] {option.name}"
        for option in OPTIONS
        if option.name not in read and not re.search(rf"\.{option.name}\b", code)
    ]
    assert unread == []


def test_the_table_and_the_classes_have_the_same_options() -> None:
    fields = [
        (section.name, option.name)
        for section in dataclasses.fields(Config)
        if section.name not in ("path", "classes", "images")
        for option in dataclasses.fields(type(getattr(parse(""), section.name)))
    ]
    assert fields == [(option.section, option.name) for option in OPTIONS]


@pytest.mark.parametrize(
    "target",
    [
        "/",
        "/run",
        "/var/lib/storlets",
        "/var/lib/storlets/x",
        "//run/storlets/",
        "/tmp/x",
        "/proc",
        "/usr/local",
    ],
)
def test_no_mount_covers_a_path_of_the_sandbox(target: str) -> None:
    with pytest.raises(ValueError, match=r"is its own|want host directories"):
        read_mounts(f"/srv/x:{target}:rw")


def test_a_mount_is_spelt_as_the_kernel_spells_it() -> None:
    (mount,) = read_mounts("/srv/out:/out//deep/:rw")
    assert mount.target == "/out/deep"


def test_a_sandbox_fits_into_the_node() -> None:
    with pytest.raises(ConfigError, match=r"\[limits\] memory_bytes is more than \[node\] memory"):
        parse("[node]\nmemory = 512M\n")
    assert parse("[node]\nmemory = 512M\n[limits]\nmemory_bytes = 512M\n").node.memory == 512 << 20
