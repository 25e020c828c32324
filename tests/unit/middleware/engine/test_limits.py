"""Limits: four levels of which each can only lower, all faults at once, and the usage of a run."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Any

import pytest

from storlet_daemon.protocol import messages
from storlet_middleware import reference
from storlet_middleware.backend.invocation_header import BackendInvocation
from storlet_middleware.config import TrustClass, parse
from storlet_middleware.engine import limits
from storlet_middleware.engine.limits import TABLE, Row
from storlet_middleware.engine.storlet_version import CodeFile, StorletVersion
from storlet_middleware.proxy.execution.result import Usage
from tests.unit.middleware.support import (
    ACCOUNT,
    STORLET_HEADERS,
    FakeSwift,
    Node,
    Proxy,
    WorkerRun,
)

Make = Callable[..., Proxy]
RUN = {"X-Run-Storlet": "up.py"}
META = "X-Object-Meta-Storlet-"
ASK = "X-Storlet-Limit-"
ROWS = pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
BOUNDED = "[limits]\nstorlet_cpus = 4\noutput_bytes = 1G\nservice_bytes = 1G\n"
USER = parse(BOUNDED).classes["user"]
NAMES = {
    "Memory", "Cpu", "Processes", "Open-Files", "Scratch", "Output", "Metadata", "Log",
    "Timeout-First-Byte", "Timeout-Idle", "Timeout-Total", "Service-Operations", "Service-Rate",
    "Service-Concurrency", "Service-Files", "Service-Creations", "Service-Bytes",
}  # fmt: skip


def said(answer: Any) -> str:
    return str(answer.data.decode())


def flat(effective: limits.Effective, trust_class: TrustClass = USER) -> dict[str, float]:
    """The limits in force by the names of their rows; the sandbox's limit where a storlet has 0."""
    resources, times, bounds = effective.resources, effective.deadlines, effective.limits
    asked = bounds.services
    return {
        "Memory": resources.memory_bytes, "Cpu": resources.cpus, "Processes": resources.processes,
        "Open-Files": resources.open_files or trust_class.limits.open_files,
        "Scratch": resources.scratch_bytes or trust_class.limits.scratch_bytes,
        "Output": bounds.output, "Metadata": bounds.metadata, "Log": bounds.log,
        "Timeout-First-Byte": times.first_byte, "Timeout-Idle": times.idle, "Timeout-Total": times.total,
        "Service-Operations": asked.operations, "Service-Rate": asked.rate,
        "Service-Concurrency": asked.concurrency, "Service-Files": asked.files,
        "Service-Creations": asked.creations, "Service-Bytes": asked.bytes,
    }  # fmt: skip


# --- the table


def test_the_table_has_every_limit_and_the_reference_page_every_row() -> None:
    assert {row.name for row in TABLE} == NAMES
    for row in TABLE:
        assert f"* - ``{row.name}``\n     - ``{row.option}``\n" in reference.limits_page()


@ROWS
def test_a_value_is_read_as_it_is_shown(row: Row) -> None:
    for value in (row.floor("java"), row.most(USER), 3 * row.least):
        shown = row.form.show(value).removesuffix(" bytes")
        assert row.form.read(shown) == pytest.approx(
            int(value) if row.form in (limits.SIZE, limits.COUNT) else value
        )


@pytest.mark.parametrize(
    ("form", "text", "value"),
    [
        (limits.SIZE, "65536", 65536), (limits.SIZE, "64K", 65536), (limits.SIZE, "64 KiB", 65536),
        (limits.SIZE, "64kb", 65536), (limits.SIZE, "256M", 256 << 20), (limits.SIZE, "1.5 GiB", 3 << 29),
        (limits.SIZE, "1b", 1), (limits.SIZE, "2T", 2 << 40), (limits.COUNT, "12", 12),
        (limits.TIME, "30", 30), (limits.TIME, "30s", 30), (limits.TIME, "0.5", 0.5), (limits.TIME, "500ms", 0.5),
        (limits.TIME, "2m", 120), (limits.TIME, "1 h", 3600), (limits.TIME, "1.5H", 5400),
        (limits.CPUS, "0.5", 0.5), (limits.CPUS, "2", 2),
    ],
)  # fmt: skip
def test_units(form: limits.Form, text: str, value: float) -> None:
    assert form.read(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "-1",
        "1e3",
        "many",
        "1 2",
        "0x10",
        "1,5",
        ".5",
        "5.",
        "٣",
        "nan",
        "inf",
        "1Q",
        "10 MM",
        "9" * 40,
        "5\u017f",
    ],
)
def test_a_text_that_is_no_value_is_a_fault_that_names_the_expected_form(text: str) -> None:
    for row in TABLE:
        values, faults = limits.requested({ASK + row.name: text})
        assert (row.name in values, len(faults)) == (False, 1), row.name
        assert faults[0].startswith(ASK + row.name)
        assert "want a" in faults[0]
        assert len(faults[0]) < 140


@ROWS
def test_less_than_the_least_is_refused_with_the_least_named(row: Row) -> None:
    text = row.form.show(row.least).removesuffix(" bytes")
    assert limits.declared({META + row.name: text}, "python")[1] == []
    assert limits.requested({ASK + row.name: text})[1] == []
    _, faults = limits.requested({ASK + row.name: "0"})
    assert f"less than {row.form.show(row.least)}" in faults[0]
    if row.floor("java") > row.least:
        _, faults = limits.declared({META + row.name: text}, "java")
        least = row.form.show(row.floor("java"))
        assert f"less than {least}, the least for a java storlet" in faults[0]


@ROWS
def test_more_than_the_most_is_refused_with_the_most_named(row: Row) -> None:
    most = row.most(USER)
    assert limits.above_maximum({row.name: most}, META, USER) == []
    (fault,) = limits.above_maximum({row.name: most + 1}, META, USER)
    assert fault.startswith(META + row.name)
    assert f"more than {row.form.show(most)}" in fault
    (fault,) = limits.above_maximum({row.name: most}, ASK, USER, {row.name: most - 1})
    assert f"more than {row.form.show(most - 1)}, which the storlet declares" in fault


def test_where_the_operator_sets_no_maximum_anything_goes() -> None:
    free = parse("").classes["user"]
    assert limits.above_maximum({"Cpu": 1000, "Output": 1 << 50}, ASK, free) == []
    held = limits.effective(free, {}, {})
    assert (held.resources.cpus, held.limits.output) == (0, 0)
    held = limits.effective(free, {"Output": 100}, {"Cpu": 0.5})
    assert (held.resources.cpus, held.limits.output) == (0.5, 100)


# --- what holds


def level(factor: float) -> dict[str, float]:
    return {row.name: row.most(USER) * factor for row in TABLE}


def lowest(row: Row, factors: Sequence[float | None]) -> float:
    """The lowest of the class's value and these multiples of it."""
    found = row.most(USER) * min(1.0, *(factor for factor in factors if factor), 1.0)
    return int(found) if row.form in (limits.SIZE, limits.COUNT) else found


@pytest.mark.parametrize("factors", list(itertools.product((None, 0.25, 0.5, 1.0, 4.0), repeat=2)))
def test_the_lowest_of_all_levels_holds(factors: tuple[float | None, float | None]) -> None:
    declared, requested = (level(factor) if factor else {} for factor in factors)
    held = flat(limits.effective(USER, declared, requested))
    assert {row.name: held[row.name] for row in TABLE} == {
        row.name: lowest(row, factors) for row in TABLE
    }


@ROWS
def test_a_class_lowers_the_node(row: Row) -> None:
    lowered = row.most(USER) / 2
    config = parse(
        f"{BOUNDED}[class:user]\n{row.option} = "
        + (f"{lowered:g}" if row.form in (limits.CPUS, limits.TIME) else str(int(lowered)))
    )
    user = config.class_of("a", "s")
    assert flat(limits.effective(user, {}, {}), user)[row.name] == pytest.approx(lowered, abs=1)
    assert row.most(config.classes["admin"]) == row.most(USER)


def test_a_group_has_nothing_of_its_own_where_the_sandbox_holds_anyhow() -> None:
    resources = limits.effective(USER, {}, {}).resources
    assert (resources.open_files, resources.scratch_bytes) == (0, 0)
    resources = limits.effective(USER, {"Open-Files": 100}, {"Scratch": 1 << 20}).resources
    assert (resources.open_files, resources.scratch_bytes) == (100, 1 << 20)


def test_a_group_is_its_code_and_its_resources() -> None:
    base = limits.effective(USER, {}, {}).resources
    others = [replace(base, **{name: getattr(base, name) + 1}) for name in asdict(base)]
    groups = [limits.group_of("a" * 64, base), limits.group_of("b" * 64, base)]
    groups += [limits.group_of("a" * 64, other) for other in others]
    assert len(set(groups)) == len(groups)
    assert all(len(group) == 64 and int(group, 16) for group in groups)
    assert (
        limits.group_of("a" * 64, limits.effective(USER, {"Output": 5}, {"Log": 300}).resources)
        == groups[0]
    )


# --- what is said


def test_the_description_of_an_invocation_arrives_at_the_object_node() -> None:
    file = CodeFile("storlet", "up.py", "e", "1", 1, 0o444)
    version = StorletVersion(
        "AUTH_a", "up.py", "python", "", "up.Up", (file,), {"Memory": 1 << 24, "Cpu": 0.5}
    )
    wanted = BackendInvocation("tx-1", version, {}, (), False, 65536, {"Timeout-Idle": 0.5})
    headers = wanted.to_headers() or {}
    environ = {"HTTP_" + key.upper().replace("-", "_"): value for key, value in headers.items()}
    assert BackendInvocation.from_environ(environ) == wanted
    assert version.key == replace(version, limits={}).key
    count, text = headers["X-Backend-Storlet-Invocation"].split(" ", 1)
    odd = json.dumps({**json.loads(text), "limits": {"Memory": "x"}})
    with pytest.raises(ValueError, match="X-Backend-Storlet-Invocation"):
        BackendInvocation.from_environ(
            {**environ, "HTTP_X_BACKEND_STORLET_INVOCATION": f"{count} {odd}"}
        )


@pytest.mark.parametrize(
    ("header", "meant"),
    [
        ("Memry", "Memory"), ("Timeout", "Timeout-"), ("Timeout-Totl", "Timeout-Total"), ("Limit-Memory", "Memory"),
        ("Open-File", "Open-Files"), ("Outputs", "Output"), ("Limit-Nonsense", ""),
    ],
)  # fmt: skip
def test_a_header_that_was_probably_meant_to_be_a_limit_is_refused(
    proxy: Proxy, header: str, meant: str
) -> None:
    answer = proxy.call(
        "PUT", "storlet/up.py", {**STORLET_HEADERS, META + header: "256M"}, body=b"x"
    )
    assert (answer.status, answer.error) == (400, "registration.invalid")
    assert META + header in said(answer)
    assert META + meant in said(answer)


@pytest.mark.parametrize(
    "header", ["Author", "Bucket", "Library-Dependency", "Language-Version", "Description"]
)
def test_other_metadata_of_a_storlet_is_its_own_business(header: str) -> None:
    assert limits.misspelt([META + header]) == []


def test_limits_are_checked_at_upload_all_faults_at_once(proxy: Proxy, swift: FakeSwift) -> None:
    bad = {
        META + "Memory": "64G",
        META + "Timeout-Total": "soon",
        META + "Log": "1",
        META + "Cpuu": "1",
    }
    for method in ("PUT", "POST"):
        answer = proxy.call(method, "storlet/up.py", {**STORLET_HEADERS, **bad}, body=b"x")
        assert (answer.status, answer.error) == (400, "registration.invalid")
        for part in (
            "Memory: 64G is more than 512M",
            "Timeout-Total: 'soon'",
            "Log: 1 bytes is less than 256",
            "Cpuu",
        ):
            assert part in said(answer), part
        assert swift.requests(method, "storlet/up.py") == []
    java = {
        **STORLET_HEADERS,
        META + "Language": "java",
        META + "Main": "a.B",
        META + "Memory": "16M",
    }
    answer = proxy.call("PUT", "storlet/up-1.jar", java, body=b"x")
    assert "the least for a java storlet" in said(answer)


def test_the_maximum_at_upload_is_that_of_the_storlets_class(make_proxy: Make) -> None:
    proxy = make_proxy(
        **{
            "class:user__storlet_memory_bytes": "64M",
            "class:admin__storlets": f"{ACCOUNT}/trusted.py",
        }
    )
    for name, status in (("up", 400), ("trusted", 201)):
        headers = {**STORLET_HEADERS, META + "Main": f"{name}.Up", META + "Memory": "128M"}
        assert proxy.call("PUT", f"storlet/{name}.py", headers, body=b"x").status == status


def test_the_faults_of_a_requests_limits_come_with_all_others(proxy: Proxy, node: Node) -> None:
    headers = {
        **RUN,
        ASK + "Memory": "64G",
        ASK + "Timeout-Totl": "1s",
        ASK + "Cpu": "fast",
        "X-Storlet-Rnge": "x",
    }
    answer = proxy.call("GET", "c/o", headers)
    assert (answer.status, answer.error) == (400, "bad_request")
    for part in (
        "Memory: 64G is more than 512M",
        f"did you mean {ASK}Timeout-Total?",
        "Cpu: 'fast'",
        "X-Storlet-Range?",
    ):
        assert part in said(answer), part
    assert node.workers.runs == []


def test_a_request_lowers_what_the_storlet_declares_and_never_raises_it(
    proxy: Proxy, swift: FakeSwift
) -> None:
    swift.put_storlet(X_Object_Meta_Storlet_Memory="64M", X_Object_Meta_Storlet_Timeout_Idle="10s")
    answer = proxy.call("GET", "c/o", {**RUN, ASK + "Memory": "65M", ASK + "Timeout-Idle": "11s"})
    assert (answer.status, answer.error) == (400, "bad_request")
    for part in (
        "Memory: 65M is more than 64M, which the storlet declares",
        "Timeout-Idle: 11s is more than 10s",
    ):
        assert part in said(answer), part
    assert (
        proxy.call("GET", "c/o", {**RUN, ASK + "Memory": "32M", ASK + "Timeout-Idle": "1s"}).data
        == b"HELLO"
    )


def test_a_limit_header_without_a_storlet_is_refused(proxy: Proxy) -> None:
    assert "means nothing without" in said(proxy.call("GET", "c/o", {ASK + "Memory": "64M"}))


# --- at the node


def acquired(node: Node) -> list[messages.Storlet]:
    return [request.storlet for request in node.asked if isinstance(request, messages.Acquire)]


def test_other_limits_are_another_group_of_the_same_code_fetched_once(
    proxy: Proxy, swift: FakeSwift, node: Node
) -> None:
    proxy.call("GET", "c/o", RUN)
    storlet = swift.containers["storlet"].objects["up.py"]
    storlet.headers[META + "Memory"] = "64M"  # as by POST
    proxy.call("GET", "c/o", RUN)
    proxy.call("GET", "c/o", {**RUN, ASK + "Memory": "32M"})
    proxy.call("GET", "c/o", {**RUN, ASK + "Memory": "32M", ASK + "Output": "1M"})
    groups = acquired(node)
    assert [group.limits.memory_bytes >> 20 for group in groups] == [512, 64, 32]
    assert len({group.version for group in groups}) == 3
    assert len({group.code for group in groups}) == 1
    assert len(swift.requests("GET", "storlet/up.py")) == 1
    assert [entry.name for entry in node.code_dir.iterdir() if entry.is_dir()] == [groups[0].code]


def test_a_maximum_that_was_lowered_after_the_upload_clamps_and_refuses_nothing(
    make_proxy: Make, swift: FakeSwift, node: Node
) -> None:
    swift.put_storlet(X_Object_Meta_Storlet_Memory="256M", X_Object_Meta_Storlet_Output="1G")
    proxy = make_proxy(**{"class:user__storlet_memory_bytes": "48M", "limits__output_bytes": "1K"})
    assert proxy.call("GET", "c/o", RUN).data == b"HELLO"
    assert acquired(node)[0].limits.memory_bytes == 48 << 20


def test_a_limit_that_cannot_be_read_runs_nothing(
    proxy: Proxy, swift: FakeSwift, node: Node
) -> None:
    swift.put_storlet(X_Object_Meta_Storlet_Memory="plenty")  # from before it was checked
    answer = proxy.call("GET", "c/o", RUN)
    assert (answer.status, answer.error) == (422, "storlet.load")
    assert "Memory: 'plenty'" in said(answer)
    assert node.workers.runs == []


def much(worker: WorkerRun) -> None:
    worker.begin(m="x" * 100)
    worker.write(b"y" * 5000)
    worker.succeed()


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("Output", "4K", "storlet.limit.output"),
        ("Metadata", "64", "storlet.limit.metadata"),
        ("Output", "5000", None),
        ("Metadata", "200", None),
    ],
)
@pytest.mark.parametrize("level", ["node", "class", "storlet", "request"])
def test_each_level_is_enforced(
    make_proxy: Make, swift: FakeSwift, name: str, value: str, code: str | None, level: str
) -> None:
    option = {"Output": "output_bytes", "Metadata": "metadata_bytes"}[name]
    section = {"node": "limits", "class": "class:user"}.get(level)
    proxy = make_proxy(much, **({f"{section}__{option}": value} if section else {}))
    if level == "storlet":
        swift.put_storlet(**{META.replace("-", "_") + name: value})
    asked = {ASK + name: value} if level == "request" else {}
    answer = proxy.call("PUT", "c/new", {**RUN, **asked}, body=b"x")
    assert (answer.status, answer.error) == ((422, code) if code else (201, "")), said(answer)


def test_a_deadline_of_a_request(make_proxy: Make) -> None:
    def silent(worker: WorkerRun) -> None:
        worker.begin()
        worker.wait_for_cancel()

    began = time.monotonic()
    answer = make_proxy(silent).call("GET", "c/o", {**RUN, ASK + "Timeout-First-Byte": "200ms"})
    assert (answer.status, answer.error) == (422, "storlet.timeout.first_byte")
    assert "0.2 s" in said(answer)
    assert time.monotonic() - began < 3


# --- what a run has used


def test_usage_says_what_is_known() -> None:
    known = Usage({"cpu_seconds": 0.0123, "peak_memory_bytes": 12582912}, 1024, 512)
    assert known.as_header() == "cpu=0.012300;peak-memory=12582912;in=1024;out=512"
    assert Usage({}, 5, 0).as_header() == "in=5;out=0"


def test_a_put_a_copy_and_a_failure_say_what_they_used(make_proxy: Make, proxy: Proxy) -> None:
    used = "cpu=0.250000;peak-memory=4096;in=5;out=5"
    assert proxy.call("PUT", "c/new", RUN, body=b"fifth").headers["X-Storlet-Usage"] == used
    assert (
        proxy.call("COPY", "c/o", {**RUN, "Destination": "c/copy"}).headers["X-Storlet-Usage"]
        == used
    )

    def fail(worker: WorkerRun) -> None:
        worker.begin()
        worker.read()
        worker.close_files()
        worker.send(messages.Done.error(messages.FAILED, "no", usage=messages.Usage(0.5, 8192)))

    answer = make_proxy(fail).call("GET", "c/o", RUN)
    assert (answer.status, answer.headers["X-Storlet-Usage"]) == (
        422,
        "cpu=0.500000;peak-memory=8192;in=5;out=0",
    )


def test_a_request_that_ran_nothing_has_no_usage(proxy: Proxy, swift: FakeSwift) -> None:
    for headers in ({"X-Run-Storlet": "none.py"}, {**RUN, "X-Storlet-Nonsense": "1"}):
        assert "X-Storlet-Usage" not in proxy.call("GET", "c/o", headers).headers
    assert "X-Storlet-Usage" not in proxy.call("GET", "c/none", RUN).headers


def test_a_get_says_what_it_used_when_that_is_known_in_time(make_proxy: Make) -> None:
    def quick(worker: WorkerRun) -> None:
        data = worker.read().upper()
        worker.begin()
        worker.write(data)
        worker.succeed()

    proxy = make_proxy(quick)
    for _ in range(20):
        answer = proxy.call("GET", "c/o", RUN)
        assert answer.data == b"HELLO"
        assert answer.headers.get("X-Storlet-Usage") in (
            None,
            "cpu=0.250000;peak-memory=4096;in=5;out=5",
        )
    assert proxy.logger.text.count("in=5 out=5 cpu=0.250000 peak-memory=4096") == 20
