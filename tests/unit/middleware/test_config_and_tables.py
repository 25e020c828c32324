"""config.py, metrics.py, errors.py, names.py: tables, and that what is written elsewhere agrees with them."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
from pathlib import Path

import pytest
from swift.common.swob import Response

from storlet_middleware import errors, metrics, names
from storlet_middleware.config import LEAST, OPTIONS, Config, ConfigError, load, parse, read_mounts, sample
from storlet_middleware.engine import limits
from tests.unit.middleware.support import Logger

ROOT = Path(__file__).parents[3]
SOURCES = [path for path in (ROOT / "storlet_middleware").rglob("*.py") if "/aio/" not in str(path)]


def test_defaults_make_a_config() -> None:
    config = parse("")
    assert config.limits.memory_bytes == 1 << 30
    assert config.storlet.languages == {"python": ("3.11",), "java": ("17",)}
    assert config.sandbox.node_id


def test_every_fault_is_told_at_once_with_the_nearest_name() -> None:
    text = "[limit]\nx = 1\n[limits]\nmemorybytes = 1\npids = many\ncpus = -1\n[invocation]\nidle_seconds = 0\n"
    with pytest.raises(ConfigError) as caught:
        parse(text, "f")
    said = str(caught.value)
    for part in ("did you mean limits?", "did you mean memory_bytes?", "pids = many", "cpus = -1", "idle_seconds = 0"):
        assert part in said
    assert all(line.startswith("f: ") for line in said.splitlines())


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
def test_values_that_cannot_be_meant_are_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parse(text)


@pytest.mark.parametrize("section", ["limits", "class:user", "class:admin"])
@pytest.mark.parametrize("name", [name for name in LEAST if name != "storlet_cpus"])
def test_a_limit_with_which_nothing_could_run_is_refused_wherever_it_stands(section: str, name: str) -> None:
    """In a class, 0 was taken: to Docker and to a control group it means that there is no limit."""
    parse(f"[{section}]\n{name} = {LEAST[name]}")
    for value in (0, LEAST[name] - 1):
        with pytest.raises(ConfigError, match=rf"\[{section}\] {name}: want at least "):
            parse(f"[{section}]\n{name} = {value}")


def test_no_limit_of_cpus_may_be_meant_but_hardly_any() -> None:
    parse("[limits]\nstorlet_cpus = 0")
    with pytest.raises(ConfigError, match=r"want at least 0\.01 or 0 for no limit"):
        parse("[limits]\nstorlet_cpus = 0.001")


@pytest.mark.parametrize(("text", "value"), [("1024", 1024), ("64K", 65536), ("1 MiB", 1 << 20), ("2g", 2 << 30)])
def test_sizes_take_units(text: str, value: int) -> None:
    assert parse(f"[limits]\ncode_bytes = {text}").limits.code_bytes == value


def test_a_file_that_is_missing_is_a_fault(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load(str(tmp_path / "none"))


def test_the_sample_file_is_what_the_table_says_and_parses() -> None:
    assert (ROOT / "etc/storlet.conf-sample").read_text() == sample()
    printed = subprocess.run(
        [sys.executable, "-m", "storlet_middleware.config"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert printed.stdout == sample()
    uncommented = re.sub(r"(?m)^# (\w+ = |\[image:)", r"\1", sample())
    config = parse(uncommented)
    assert config.images == {"AUTH_example": "example/storlets:1"}
    assert dataclasses.replace(config, images={}) == parse("")


def test_every_option_is_read_somewhere() -> None:
    code = "\n".join(path.read_text() for path in SOURCES if path.name != "config.py")
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


def test_the_table_of_metrics_has_the_names_that_are_sent() -> None:
    logger = Logger()
    metrics.invocation(logger, "GET", "storlet.timeout.idle", 1.0, 0.5, 10)
    metrics.admission(logger, "waited")
    metrics.admission(logger, "refused")
    table = re.findall(r"``(storlet\.[^`]+)``", metrics.__doc__ or "")
    assert len(table) == len(logger.stats)
    patterns = [re.escape(name).replace("<verb>", r"[A-Z]+").replace("<code>", r"[a-z_-]+") for name in table]
    for sent in logger.stats:
        assert any(re.fullmatch(pattern, sent) for pattern in patterns), sent


def test_every_error_has_a_reason_phrase_and_comes_back_from_its_code() -> None:
    classes = [errors.StorletError]
    for cls in classes:
        classes += cls.__subclasses__()
        assert cls.status in errors.REASONS, cls
        Response(status=f"{cls.status} {errors.REASONS[cls.status]}")
    for cls in (errors.BadRequest, errors.TenantBusy, errors.NodeBusy, errors.SandboxUnavailable, errors.InternalError):
        again = errors.from_message(cls("why", detail="d").to_message())
        assert (type(again), str(again), again.detail) == (cls, "why", "d")
        assert again.retry_after == cls("why").retry_after


def test_an_unknown_code_is_our_defect_and_never_a_header_of_its_own() -> None:
    assert errors.from_code("storlet.limit.processes", "x").status == 422
    for code in ("", "nonsense", "storlet.x\r\nSet-Cookie: a", "storlet."):
        error = errors.from_code(code, "x")
        assert (error.status, error.code) == (500, "internal")


def test_names_are_written_once_each() -> None:
    values = [value for name, value in vars(names).items() if name.isupper() and isinstance(value, str)]
    # The one header that is both asked with and answered with.
    assert sorted({value for value in values if values.count(value) > 1}) == [names.GRANTS]


@pytest.mark.parametrize(
    "target",
    ["/", "/run", "/var/lib/storlets", "/var/lib/storlets/x", "//run/storlets/", "/tmp/x", "/proc", "/usr/local"],
)
def test_no_mount_covers_what_a_sandbox_is_made_of(target: str) -> None:
    with pytest.raises(ValueError, match=r"is its own|want host directories"):
        read_mounts(f"/srv/x:{target}:rw")


def test_a_mount_is_named_as_the_kernel_names_it() -> None:
    (mount,) = read_mounts("/srv/out:/out//deep/:rw")
    assert mount.target == "/out/deep"


def test_a_sandbox_fits_into_the_node() -> None:
    with pytest.raises(ConfigError, match=r"\[limits\] memory_bytes is more than \[node\] memory"):
        parse("[node]\nmemory = 512M\n")
    assert parse("[node]\nmemory = 512M\n[limits]\nmemory_bytes = 512M\n").node.memory == 512 << 20
