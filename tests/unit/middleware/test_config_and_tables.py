"""The tables of options, errors, headers and metrics agree with each other and the code."""

from __future__ import annotations

import dataclasses
import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from swift.common.swob import Response

from storlet_daemon.protocol import messages
from storlet_middleware import errors, metrics, names
from storlet_middleware.config import (
    OPTIONS,
    Config,
    ConfigError,
    Level,
    Option,
    load,
    parse,
    sample,
)
from storlet_middleware.config.readers import read_mounts
from storlet_middleware.engine import limits
from tests.unit.middleware.support import Logger

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
        if option.name not in read and not re.search(_use_of(option), code)
    ]
    assert unread == []


def _use_of(option: Option) -> str:
    """A pattern of the code that reads the option."""
    prefix = rf"\b{option.section}" if option.language else ""
    return rf"{prefix}\.{option.field}\b"


def test_the_table_and_the_classes_have_the_same_options() -> None:
    fields = [
        (section.name, option.name)
        for section in dataclasses.fields(Config)
        if section.name not in ("path", "classes", "images")
        for option in dataclasses.fields(type(getattr(parse(""), section.name)))
    ]
    assert fields == list(dict.fromkeys((option.section, option.field) for option in OPTIONS))
    names = [
        f"{option.field}_{option.language}" if option.language else option.field
        for option in OPTIONS
    ]
    assert names == [option.name for option in OPTIONS]


METRIC_CALLS: list[tuple[str, tuple[Any, ...], set[str]]] = [
    (
        "invocation",
        ("GET", "storlet.timeout.idle", 1.0, 0.5, 10),
        {"storlet.<verb>.<code>.timing", "storlet.<verb>.first-byte", "storlet.<verb>.xfer"},
    ),
    ("admission_admitted", (), {"storlet.admission.admitted"}),
    ("admission_queued", (), {"storlet.admission.queued"}),
    ("admission_waited", (0.5,), {"storlet.admission.waited", "storlet.admission.queue.timing"}),
    (
        "admission_refused",
        ("node.busy",),
        {"storlet.admission.refused", "storlet.admission.refused.<code>"},
    ),
    ("cache_hit", (), {"storlet.cache.hits"}),
    ("cache_miss", (), {"storlet.cache.misses"}),
    ("cache_fetched", (0.5,), {"storlet.cache.fetch.timing"}),
    ("rules_allowed", (), {"storlet.rules.allow"}),
    ("rules_denied", (), {"storlet.rules.deny"}),
    ("rules_failed", (), {"storlet.rules.errors"}),
    ("rules_loaded", (0.5,), {"storlet.rules.load.timing"}),
    ("sandbox_started", (0.5,), {"storlet.sandbox.starts", "storlet.sandbox.start.timing"}),
    ("sandbox_restarted", (), {"storlet.sandbox.restarts"}),
    ("sandbox_failed", (), {"storlet.sandbox.failures"}),
    ("sandbox_idle_stopped", (), {"storlet.sandbox.idle_stops"}),
    ("sandbox_lost", (), {"storlet.sandbox.lost"}),
    ("sandbox_evicted", (), {"storlet.sandbox.evictions"}),
    ("self_test_failed", (), {"storlet.sandbox.self_test_failures"}),
]
#: Metrics that no module emits yet.
NOT_YET_EMITTED = {"rules_allowed", "rules_denied", "rules_failed", "rules_loaded"}


def test_the_table_of_metrics_has_the_names_that_are_sent() -> None:
    functions = {
        name
        for name, value in vars(metrics).items()
        if inspect.isfunction(value) and value.__module__ == metrics.__name__ and name[0] != "_"
    }
    assert functions == {function for function, _, _ in METRIC_CALLS}
    documented = set()
    for function, arguments, rows in METRIC_CALLS:
        logger = Logger()
        getattr(metrics, function)(logger, *arguments)
        patterns = {
            row: re.escape(row).replace("<verb>", r"[A-Z]+").replace("<code>", r"[a-z_-]+")
            for row in rows
        }
        assert len(logger.stats) == len(rows)
        for row, pattern in patterns.items():
            assert any(re.fullmatch(pattern, sent) for sent in logger.stats), row
        documented |= rows
    assert documented == set(metrics.TABLE)


@pytest.mark.parametrize(
    ("function", "rows"), [(function, rows) for function, _, rows in METRIC_CALLS]
)
def test_every_metric_is_emitted_by_the_module_that_its_row_names(
    function: str, rows: set[str]
) -> None:
    (emitter,) = {metrics.TABLE[row].emitter for row in rows}
    code = "\n".join(
        path.read_text() for path in SOURCES if f"/storlet_middleware/{emitter}/" in str(path)
    )
    is_emitted = re.search(rf"\bmetrics\.{function}\(", code) is not None
    assert is_emitted == (function not in NOT_YET_EMITTED), (
        f"metrics.{function}: emit it, or update NOT_YET_EMITTED"
    )


def test_every_error_has_a_reason_phrase_and_comes_back_from_its_code() -> None:
    classes = [errors.StorletError]
    for cls in classes:
        classes += cls.__subclasses__()
        assert cls.status in errors.REASONS, cls
        Response(status=f"{cls.status} {errors.REASONS[cls.status]}")
    for cls in (
        errors.BadRequest,
        errors.TenantBusy,
        errors.NodeBusy,
        errors.SandboxUnavailable,
        errors.InternalError,
    ):
        again = errors.from_message(cls("why", detail="d").to_message())
        assert (type(again), str(again), again.detail) == (cls, "why", "d")
        assert again.retry_after == cls("why").retry_after


def test_every_row_of_errors_is_consistent_and_comes_back_from_its_code() -> None:
    for code, row in errors.TABLE.items():
        assert (row.retry_after is not None) == (row.retry is errors.Retry.LATER), code
        assert (row.status < 500) == (
            row.blame not in (errors.Blame.OPERATOR, errors.Blame.US)
        ) or row.status == 503
        assert row.help
        again = errors.from_message(errors.StorletError("why", code=code).to_message())
        assert (again.code, again.status, again.retry_after) == (code, row.status, row.retry_after)
        assert (again.legacy_get, again.legacy_put) == (row.legacy_get, row.legacy_put)


def test_fields_of_errors_replace_lists_of_codes_elsewhere() -> None:
    """The fields select the codes that prefixes and tuples of codes selected."""
    prefixes = ("storlet.", "tenant.", "node.", "sandbox.", "code.")
    for code, row in errors.TABLE.items():
        assert row.is_of_step == code.startswith(prefixes), code
        assert row.has_source_text == (code in ("backend.failed", "input.incomplete")), code
        assert row.has_tenant_text == (code in ("storlet.failed", "storlet.load")), code


def test_codes_of_the_sandbox_and_of_its_java_worker_are_in_the_table() -> None:
    assert set(messages.SANDBOX_CODES) - {messages.PROTOCOL} <= set(errors.TABLE)
    assert set(messages.NODE_CODES) <= set(errors.TABLE)
    java = (ROOT / "storlet_daemon/java").rglob("Failure.java")
    (text,) = [path.read_text() for path in java]
    codes = re.findall(r'static final String [A-Z]+ = "([a-z._]+)"', text)
    assert codes
    assert set(codes) <= set(messages.SANDBOX_CODES)


def test_every_literal_error_code_is_in_the_table() -> None:
    code = "\n".join(path.read_text() for path in SOURCES if path.name != "errors.py")
    assert set(re.findall(r'\bcode="([a-z_.]+)"', code)) <= set(errors.TABLE)


def test_an_unknown_code_is_our_defect_and_never_a_header_of_its_own() -> None:
    assert errors.from_code("storlet.limit.processes", "x").status == 422
    for code in ("", "nonsense", "storlet.x\r\nSet-Cookie: a", "storlet."):
        error = errors.from_code(code, "x")
        assert (error.status, error.code) == (500, "internal")


def test_names_are_written_once_each() -> None:
    values = [
        value for name, value in vars(names).items() if name.isupper() and isinstance(value, str)
    ]
    # The one header of requests and answers alike.
    assert sorted({value for value in values if values.count(value) > 1}) == [names.GRANTS]


def test_every_header_is_a_row_and_has_a_constant() -> None:
    constants = {
        value for name, value in vars(names).items() if name.isupper() and isinstance(value, str)
    }
    rows = {row.name for row in names.TABLE}
    assert rows <= constants
    assert {value for value in constants - rows if value.startswith("X-")} == {
        names.STORLET_META,
        names.OBJECT_META,
    }


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
