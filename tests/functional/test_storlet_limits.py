"""Limits that a storlet declares or a request lowers, with default options; and the usage of a run.

Limits of the operator, for the node or a trust class, are in test_limits.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.support.accounts import info_of, unique
from tests.support.http import Answer, Client
from tests.support.storlets import Tool, Toolbox, declaration, numbers, usage
from tests.support.waiting import retry_until

META = "X-Object-Meta-Storlet-"
ASK = "X-Storlet-Limit-"
CONTENT = b"a small object\n"
M = 1 << 20
#: Runs that exceed a limit: the limit's value, the storlet's action, and the outcome.
OVER = [
    ("Output", "4K", {"do": "flood", "bytes": "5000"}, "storlet.limit.output"),
    ("Metadata", "64", {"do": "identity", "set-big": "x" * 100}, "storlet.limit.metadata"),
    ("Timeout-First-Byte", "500ms", {"do": "slow", "before": "30"}, "storlet.timeout.first_byte"),
    ("Timeout-Total", "1s", {"do": "slow", "before": "30"}, "storlet.timeout.total"),
]
EACH_OVER = pytest.mark.parametrize(
    ("name", "value", "work", "code"), OVER, ids=[row[0] for row in OVER]
)


@pytest.fixture
def small(owner: Client, container: str) -> str:
    """The path of a small object."""
    assert owner.put(f"{container}/small", CONTENT).status == 201
    return f"{container}/small"


def upload(toolbox: Toolbox, client: Client, language: str, **declared: str) -> str:
    """A separate Multitool with limits (``Timeout_Idle="2s"``)."""
    name, content, main = toolbox.multitool(language, unique("limited"))
    answer = client.put(f"storlet/{name}", content, declaration(language, main, **declared))
    assert answer.status == 201, answer
    return name


def post_limits(client: Client, storlet: str, **declared: str) -> Answer:
    language, main = (
        ("python", f"{storlet[:-3]}.Multitool")
        if storlet.endswith(".py")
        else ("java", "functional.Multitool")
    )
    return client.post(f"storlet/{storlet}", declaration(language, main, **declared))


def run(
    tool: Tool, path: str, work: dict[str, str], headers: dict[str, str] | None = None
) -> Answer:
    return tool.client.get(path, tool.headers(headers), query=work)


def at_once(*requests: Callable[[], Answer]) -> list[Answer]:
    """The answers to requests that wait out their deadlines at the same time."""
    with ThreadPoolExecutor(len(requests)) as pool:
        return list(pool.map(lambda request: request(), requests))


def usage_of_get(
    tool: Tool, path: str, do: str, headers: dict[str, str], **parameters: str
) -> dict[str, float]:
    """By the log: the answer's header has it only where it was known before the answer began."""
    answer = tool.get(path, do, headers | {"X-Storlet-Generate-Log": "True"}, **parameters)
    kind, _, text = log_of(tool, answer).text.splitlines()[-1].partition(": ")
    assert (answer.status, kind) == (200, "usage"), answer
    assert answer.headers["X-Storlet-Usage"] in (None, text)
    return numbers(text)


# --- refused limits


def test_an_upload_reports_every_fault_of_declared_limits(either: Tool, toolbox: Toolbox) -> None:
    language = "python" if either.storlet.endswith(".py") else "java"
    name, content, main = toolbox.multitool(language, unique("refused"))
    faulty = {"Memory": "1T", "Cpu": "fast", "Log": "1", "Timeout_Totl": "1s", "Timeout_Idle": "2h"}
    answer = either.client.put(f"storlet/{name}", content, declaration(language, main, **faulty))
    assert (answer.status, answer.error) == (400, "registration.invalid"), answer
    for part in (
        f"{META}Memory: 1T is more than 512M, the most allowed here",
        f"{META}Cpu: 'fast': want a number of CPUs",
        f"{META}Log: 1 bytes is less than 256 bytes",
        f"did you mean {META}Timeout-Total?",
        f"{META}Timeout-Idle: 7200s is more than 40s",
    ):
        assert part in answer.text, answer
    assert either.client.head(f"storlet/{name}").status == 404
    assert post_limits(either.client, either.storlet, Memory="1T").status == 400


def test_the_answer_reports_every_fault_of_a_requests_limits(tool: Tool, small: str) -> None:
    asked = {
        ASK + "Memory": "1T",
        ASK + "Output": "-1",
        ASK + "Memori": "1M",
        ASK + "Processes": "0",
    }
    for answer in (
        tool.get(small, headers=asked),
        tool.put(small, b"x", headers=asked),
        tool.copy(small, "/" + small + "-copy", headers=asked),
    ):
        assert (answer.status, answer.error) == (400, "bad_request"), answer
        for part in (
            "Memory: 1T is more than 512M",
            "Output: '-1': want a size",
            f"did you mean {ASK}Memory?",
        ):
            assert part in answer.text, answer
        assert "Processes: 0 is less than" in answer.text


def test_a_request_cannot_raise_what_the_storlet_declares(
    anywhere: Tool, toolbox: Toolbox, small: str
) -> None:
    tool = Tool(
        anywhere.client, upload(toolbox, anywhere.client, "python", Output="1K"), anywhere.placement
    )
    answer = tool.get(small, headers={ASK + "Output": "2 KiB"})
    assert (answer.status, answer.error) == (400, "bad_request"), answer
    assert f"{ASK}Output: 2K is more than 1K, which the storlet declares for itself" in answer.text
    assert tool.get(small, headers={ASK + "Output": "1024"}).body == CONTENT


# --- enforced limits


@EACH_OVER
def test_a_limit_of_a_request_is_enforced(
    tool: Tool, small: str, name: str, value: str, work: dict[str, str], code: str
) -> None:
    asked, target = {ASK + name: value}, unique(small)
    stored = {"X-Run-Storlet": tool.storlet} | asked
    copied = tool.headers(asked) | {"Destination": "/" + target}
    for answer in at_once(
        lambda: run(tool, small, work, asked),
        lambda: tool.client.put(target, CONTENT, stored, query=work),
        lambda: tool.client.request("COPY", small, copied, query=work),
    ):
        assert (answer.status, answer.error) == (422, code), answer
    assert tool.client.head(target).status == 404
    # The total deadline includes the start of a new worker that replaces a killed one.
    assert retry_until(lambda: tool.get(small, headers=asked).body == CONTENT)


@EACH_OVER
def test_a_limit_that_the_storlet_declares_is_enforced(  # noqa: PLR0917
    tool: Tool, toolbox: Toolbox, small: str, name: str, value: str, work: dict[str, str], code: str
) -> None:
    language = "python" if tool.storlet.endswith(".py") else "java"
    limited = Tool(
        tool.client, upload(toolbox, tool.client, language, **{name: value}), tool.placement
    )
    stored = {"X-Run-Storlet": limited.storlet}
    for answer in at_once(
        lambda: run(limited, small, work),
        lambda: limited.client.put(unique(small), CONTENT, stored, query=work),
    ):
        assert (answer.status, answer.error) == (422, code), answer
    assert retry_until(lambda: limited.get(small).body == CONTENT)


def test_silence_within_the_output(tool: Tool, small: str) -> None:
    began = time.monotonic()
    answer = tool.get(small, "slow", {ASK + "Timeout-Idle": "700ms"}, pieces="2", pause="30")
    assert answer.is_broken or answer.error == "storlet.timeout.idle", answer
    assert time.monotonic() - began < 15


def test_a_lower_limit_of_the_log_is_enforced(anywhere: Tool, small: str) -> None:
    headers = {"X-Storlet-Generate-Log": "True", ASK + "Log": "300"}
    answer = anywhere.get(small, "identity", headers, log="w" * 100, times="50")
    log = log_of(anywhere, answer)
    assert "log truncated at 300 bytes" in log.text
    assert len(log.body) < 600


def log_of(tool: Tool, answer: Answer) -> Answer:
    path = f"storletlog/{tool.storlet}/{answer.headers['X-Storlet-Invocation']}.log"
    log: Answer = retry_until(lambda: (got := tool.client.get(path)).status == 200 and got)
    return log


def test_a_change_of_limits_takes_effect_at_once_and_fetches_nothing(
    tool: Tool, toolbox: Toolbox, small: str, description: dict[str, Any]
) -> None:
    language = "python" if tool.storlet.endswith(".py") else "java"
    limited = Tool(tool.client, upload(toolbox, tool.client, language), tool.placement)
    work = {"do": "flood", "bytes": "5000"}
    assert len(run(limited, small, work).body) == 5000
    copies = sum(1 for _ in Path(description["state_dir"]).rglob(limited.storlet))
    for limit, status in (("4K", 422), ("5000", 200), ("1K", 422), ("1M", 200)):
        assert (
            post_limits(limited.client, limited.storlet, Output=limit, Open_Files="100").status
            == 202
        )
        assert run(limited, small, work).status == status
    assert post_limits(limited.client, limited.storlet).status == 202
    assert run(limited, small, work).status == 200
    assert copies >= 1
    assert sum(1 for _ in Path(description["state_dir"]).rglob(limited.storlet)) == copies


# --- resources


RESOURCES = [
    (
        "Memory",
        {"python": "64M", "java": "80M"},
        "hoard",
        {"bytes": str(72 * M)},
        "storlet.limit.memory",
    ),
    (
        "Processes",
        {"python": "16", "java": "64"},
        "threads",
        {"count": "120"},
        "storlet.limit.processes",
    ),
    (
        "Scratch",
        {"python": "1M", "java": "2M"},
        "fill",
        {"bytes": str(8 * M)},
        "storlet.limit.scratch",
    ),
    ("Open-Files", {"python": "64", "java": "64"}, "files", {"count": "100"}, "storlet.failed"),
]
EACH_RESOURCE = pytest.mark.parametrize(
    ("name", "values", "do", "amount", "code"), RESOURCES, ids=[row[0] for row in RESOURCES]
)


@EACH_RESOURCE
def test_a_resource_limit_of_a_request_is_enforced(  # noqa: PLR0917
    tool: Tool,
    small: str,
    name: str,
    values: dict[str, str],
    do: str,
    amount: dict[str, str],
    code: str,
) -> None:
    asked = {ASK + name: values["python" if tool.storlet.endswith(".py") else "java"]}
    assert tool.get(small, do, **amount).text.startswith("had room")
    answer = tool.get(small, do, asked, **amount)
    assert (answer.status, answer.error) == (422, code), answer
    # The storlet still works with and without the limit.
    assert tool.get(small, do, **amount).text.startswith("had room")
    assert retry_until(lambda: tool.get(small, headers=asked).body == CONTENT)


@EACH_RESOURCE
def test_a_resource_limit_of_a_storlet_is_enforced(  # noqa: PLR0917
    either: Tool,
    toolbox: Toolbox,
    small: str,
    name: str,
    values: dict[str, str],
    do: str,
    amount: dict[str, str],
    code: str,
) -> None:
    language = "python" if either.storlet.endswith(".py") else "java"
    limited = Tool(
        either.client, upload(toolbox, either.client, language, **{name: values[language]})
    )
    for answer in (
        limited.get(small, do, **amount),
        limited.put(unique(small), CONTENT, do, **amount),
    ):
        assert (answer.status, answer.error) == (422, code), answer
    assert retry_until(lambda: limited.get(small).body == CONTENT)


def test_a_share_of_a_cpu_makes_it_slower(tool: Tool, small: str) -> None:
    asked = {ASK + "Cpu": "0.2"}
    assert tool.get(small, headers=asked).body == CONTENT  # its workers have started
    began = time.monotonic()
    answer = tool.get(small, "burn", asked, seconds="0.4")
    assert (answer.status, answer.text) == (200, "burnt")
    assert time.monotonic() - began > 1.2


@pytest.mark.parametrize(("name", "least"), [("Memory", {"python": "16M", "java": "64M"}), ("Cpu", {"python": "0.05", "java": "0.05"}),
                                             ("Processes", {"python": "4", "java": "48"}), ("Open-Files", {"python": "64", "java": "64"}),
                                             ("Scratch", {"python": "64K", "java": "1M"})])  # fmt: skip
def test_a_small_storlet_runs_with_the_lowest_limits(
    tool: Tool, small: str, name: str, least: dict[str, str]
) -> None:
    asked = {ASK + name: least["python" if tool.storlet.endswith(".py") else "java"]}
    answer = tool.get(small, headers=asked)
    assert (answer.status, answer.body) == (200, CONTENT), answer


# --- usage


def test_a_get_reports_its_usage(tool: Tool, small: str) -> None:
    used = usage_of_get(tool, small, "burn", {}, seconds="0.2")
    assert 0.15 < used["cpu"] < 5
    assert 4 * M < used["peak-memory"] < 1024 * M
    assert used["out"] == len(b"burnt")


def test_usage_counts_the_bytes_of_an_object_and_of_a_range(
    either: Tool, plain: str, content: bytes
) -> None:
    used = usage_of_get(either, plain, "describe", {})
    assert used["in"] == len(content)
    used = usage_of_get(either, plain, "identity", {"X-Storlet-Range": "bytes=5-14"})
    assert (used["in"], used["out"]) == (10, 10)


def test_a_put_and_a_copy_report_their_usage(tool: Tool, container: str) -> None:
    answer = tool.put(f"{container}/o", CONTENT * 1000, "upper")
    assert (usage(answer)["in"], usage(answer)["out"]) == (15000, 15000)
    answer = tool.copy(f"{container}/o", f"/{container}/o2", "burn", seconds="0.2")
    assert usage(answer)["cpu"] > 0.15
    assert usage(answer)["out"] == 5


def test_a_failed_storlet_reports_its_usage(tool: Tool, small: str) -> None:
    answer = tool.get(small, "fail")
    assert answer.status == 422
    assert usage(answer)["out"] == 0
    assert "cpu" in usage(answer)
    answer = tool.get(small, "slow", {ASK + "Timeout-First-Byte": "300ms"}, before="30")
    assert (answer.error, usage(answer)["out"]) == ("storlet.timeout.first_byte", 0)


def test_a_request_without_a_run_has_no_usage(any_tool: Tool, small: str) -> None:
    assert "X-Storlet-Usage" not in any_tool.get(small, headers={ASK + "Memory": "1T"}).headers
    assert "X-Storlet-Usage" not in any_tool.get(small + "-none").headers
    assert "X-Storlet-Usage" not in any_tool.client.get(small).headers


def test_info_has_the_maxima(description: dict[str, Any]) -> None:
    limits = info_of(description)["storlet_handler"]["limits"]
    assert limits["storlet_memory_bytes"] == 512 * M
    assert set(limits) >= {
        "storlet_cpus", "storlet_processes", "open_files", "scratch_bytes", "output_bytes", "metadata_bytes", "log_bytes",
        "first_byte_seconds", "idle_seconds", "total_seconds", "memory_bytes", "cpus", "pids", "inputs",
    }  # fmt: skip
