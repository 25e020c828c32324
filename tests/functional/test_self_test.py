"""``storlet sandboxes`` and the self-test on a real node: both classes pass, a class that fails is
closed."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from storlet_daemon import selftest
from tests.support.accounts import info_of, unique
from tests.support.cluster import Cluster
from tests.support.http import Answer, Client
from tests.support.storlets import Tool
from tests.support.waiting import retry_until

CLASSES = ("user", "admin")


def storlet(cluster: Cluster, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the command like an operator, from the cluster's environment."""
    command = [str(cluster.venv / "bin/storlet"), *words, "--conf", str(cluster.storlet_conf)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def as_data(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(done.stdout)
    return value


@dataclass(frozen=True)
class Checked:
    """A check, which takes seconds, and the containers of an account before and after it."""

    done: subprocess.CompletedProcess[str]
    before: list[str]
    after: list[str]


@pytest.fixture(scope="module")
def checked(owner: Client, storlet_names: dict[str, str], cluster: Cluster) -> Checked:
    name = unique("c")
    for path in (name, f"{name}/o"):
        assert owner.put(path).status == 201
    assert Tool(owner, storlet_names["python"]).get(f"{name}/o").status == 200

    def containers() -> list[str]:
        shown = as_data(storlet(cluster, "sandboxes", "--json"))
        return [one["container"] for one in shown["sandboxes"] if one["account"] == owner.account]

    before = containers()
    done = storlet(cluster, "sandboxes", "--check")
    return Checked(done, before, containers())


def test_both_classes_pass_and_every_test_is_shown(checked: Checked) -> None:
    done = checked.done

    assert done.returncode == 0, done.stdout + done.stderr
    for name in CLASSES:
        assert f"class {name}: pass (" in done.stdout
    for test in selftest.TESTS:
        shown = re.findall(rf"^  (?:pass|accepted) +{test.name} ", done.stdout, re.MULTILINE)
        assert len(shown) == len(CLASSES), test.name
    assert "FAIL" not in done.stdout


@pytest.mark.usefixtures("checked")
def test_the_log_has_a_line_for_each_class(cluster: Cluster) -> None:
    log = cluster.process("sandboxd").log.read_text(encoding="utf-8")

    for name in CLASSES:
        found = re.findall(
            rf"self-test class={name} result=pass tests=(\d+) failed=\d+ ms=\d+", log
        )
        assert int(found[-1]) == len(selftest.TESTS) + len(selftest.OUTSIDE)


@pytest.mark.usefixtures("checked")
def test_json_output_has_the_sandbox_and_its_storlets(
    any_tool: Tool, plain: str, owner: Client, cluster: Cluster
) -> None:
    assert any_tool.get(plain).status == 200

    shown = as_data(storlet(cluster, "sandboxes", "--json"))

    (sandbox,) = [one for one in shown["sandboxes"] if one["account"] == owner.account]
    assert (sandbox["trust_class"], sandbox["state"]) == ("user", "running")
    assert sandbox["uid"] > 0
    assert any(one["runs"] > 0 and one["workers"] > 0 for one in sandbox["storlets"]), sandbox[
        "storlets"
    ]
    for name in CLASSES:
        result = shown["self_tests"][name]
        assert result["state"] == "pass"
        assert set(result["failed"]) == set(result["accepted"])
        assert set(result["tests"]) == {*selftest.OUTSIDE, *(test.name for test in selftest.TESTS)}


def test_a_check_leaves_running_sandboxes_alone(
    checked: Checked, any_tool: Tool, plain: str, cluster: Cluster
) -> None:
    assert checked.before
    assert checked.after == checked.before
    assert any_tool.get(plain).status == 200
    assert not (cluster.state_dir / "self-test-object").exists()


@pytest.mark.usefixtures("checked")
def test_info_reports_that_the_classes_pass(cluster: Cluster) -> None:
    assert retry_until(
        lambda: (
            info_of(cluster.description)["storlet_handler"]["self_test"]
            == {"user": "pass", "admin": "pass"}
        )
    )


def test_a_class_that_fails_the_self_test_is_closed_until_the_operator_accepts_it(
    other_cluster: Cluster, other_owner: Client, other_names: dict[str, str], services: Path
) -> None:
    assert other_owner.put("c/object", b"content").status == 201
    tool = Tool(other_owner, other_names["python"], "proxy")
    # The operator has mounted a folder of the host, and overlooked a listening socket there.
    admin = {"accounts": other_owner.account, "mounts": f"{services}:/host:ro"}

    def first_answer() -> Answer | None:
        """The answer after the test of the class, which takes long on a busy machine."""
        answer = tool.get("c/object")
        return None if b"has not ended within" in answer.body else answer

    def results() -> dict[str, str]:
        found: dict[str, str] = info_of(other_cluster.description)["storlet_handler"]["self_test"]
        return found

    assert storlet(other_cluster, "sandboxes", "--check").returncode == 0
    assert retry_until(lambda: results()["admin"] == "pass", 30)
    usual = as_data(storlet(other_cluster, "sandboxes", "--json"))["self_tests"]["admin"][
        "accepted"
    ]
    try:
        other_cluster.configure({"storlet.conf:class:admin": admin})
        answer = retry_until(first_answer, 60)
        assert (answer.status, answer.error) == (503, "sandbox.unavailable")
        assert (
            b"sandboxes of class admin are closed on this node: self-test files-no-sockets has failed"
            in answer.body
        )
        assert b"/host" not in answer.body
        assert results() == {"user": "pass", "admin": "fail"}
        done = storlet(other_cluster, "sandboxes")
        assert done.returncode == 1
        assert "class admin: CLOSED on this node" in done.stdout
        assert "-> /host/service.sock answers" in done.stdout

        accepted = {"accept_failures": ", ".join([*usual, "files-no-sockets"])}
        other_cluster.configure(
            {"storlet.conf:class:admin": admin, "storlet.conf:sandbox": accepted}
        )
        assert retry_until(first_answer, 60).status == 200
        assert "accepted  files-no-sockets" in storlet(other_cluster, "sandboxes").stdout
    finally:
        other_cluster.configure({})
    assert storlet(other_cluster, "sandboxes", "--check").returncode == 0
    assert retry_until(lambda: results()["admin"] == "pass", 30)
