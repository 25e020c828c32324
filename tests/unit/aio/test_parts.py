"""The parts of a cluster: only what is missing is installed, in an order that works."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from storlet_middleware.aio import packages, parts
from storlet_middleware.aio.home import Home
from storlet_middleware.aio.packages import Need
from storlet_middleware.aio.progress import AioError, Progress


class Machine:
    """Records the steps; the switches say what is missing."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.steps: list[str] = []
        self.needs: list[Need] = []
        self.has_engine = self.has_java = self.has_native = self.has_registry = True
        self.has_data = True
        docker = SimpleNamespace(api=None)
        replaced = {
            (parts.packages, "install"): self._install,
            (parts.packages, "make_user"): lambda _log: self.steps.append("user"),
            (parts.processes, "need_ptrace"): lambda: None,
            (parts.os, "geteuid"): lambda: 0,
            (parts.java, "needs_tools"): lambda: not self.has_java,
            (parts.java, "parts"): lambda _log: self._step("java", Path("/java")),
            (parts.native, "needs_tools"): lambda: not self.has_native,
            (parts.native, "parts"): lambda _log: self._step("native", Path("/native")),
            (parts.venv, "code"): lambda _log: self._step("venv", Path("/venv")),
            (parts.venv, "data"): lambda _log: Path("/data") if self.has_data else None,
            (parts.engine, "find"): lambda: docker if self.has_engine else None,
            (parts.engine, "ensure"): lambda _log: self._step("engine", docker),
            (parts.engine, "need_hosts"): lambda: self.steps.append("the host's engine"),
            (parts.image, "wants_debootstrap"): lambda _api: not self.has_registry,
            (parts.image, "build_base"): lambda _api, _log: self.steps.append("base"),
            (parts.image, "build"): lambda _api, _java: self._step("image", "sandbox:1"),
            (parts.image, "build_data"): lambda _api, below, _data: self._step(
                "data", f"data of {below}"
            ),
        }
        for (module, name), value in replaced.items():
            monkeypatch.setattr(module, name, value)
        monkeypatch.delenv("STORLETS_BOX", raising=False)

    def _install(self, needs: Sequence[Need], log: Path) -> None:
        assert log.name == "setup.log"
        self.needs += needs
        self.steps.append("packages")

    def _step(self, name: str, value: object) -> object:
        self.steps.append(name)
        return value


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


ALWAYS = [packages.PYTHON, packages.MEMCACHED, packages.CURL]


def test_the_parts_are_made_in_the_order_of_their_dependencies(
    machine: Machine, place: Home
) -> None:
    made = parts.set_up(place, Progress(6))
    steps = ["packages", "user", "venv", "engine", "java", "native", "base", "image", "data"]
    assert machine.steps == steps
    assert (made.venv, made.java, made.image) == (Path("/venv"), Path("/java"), "data of sandbox:1")
    assert made.native == Path("/native")
    expected = [*ALWAYS, packages.MOUNT] if place.mounts else ALWAYS
    assert machine.needs == expected


def test_without_its_packages_the_larger_image_is_left_out_and_the_reason_shown(
    machine: Machine, place: Home, capfd: pytest.CaptureFixture[str]
) -> None:
    machine.has_data = False
    assert parts.set_up(place, Progress(6)).image == "sandbox:1"
    assert "data" not in machine.steps
    shown = " ".join(capfd.readouterr().err.split())
    assert "CRC-32C, will answer with an error: pip could not fetch" in shown
    named = ("sql", "sql-parquet", "s3-select", "s3-select-parquet", "convert", "image")
    assert [name for name in named if f"std:{name} " not in shown.replace(",", " ")] == []


@pytest.mark.parametrize(
    ("missing", "needs"),
    [
        ("has_java", [packages.JDK, packages.MAVEN, packages.GCC]),
        ("has_native", [packages.GCC, packages.JANSSON]),
        ("has_engine", [packages.DOCKERD]),
        ("has_registry", [packages.DEBOOTSTRAP]),
    ],
)
def test_tools_are_installed_for_what_is_missing(
    machine: Machine, place: Home, missing: str, needs: list[Need]
) -> None:
    setattr(machine, missing, False)
    parts.set_up(place, Progress(6))
    assert [need for need in machine.needs if need not in (*ALWAYS, packages.MOUNT)] == needs


def test_the_one_box_container_needs_the_engine_of_its_host(
    machine: Machine, place: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STORLETS_BOX", "1")
    parts.set_up(place, Progress(6))
    assert machine.steps[0] == "the host's engine"


def test_without_root_nothing_is_made_after_the_packages(
    machine: Machine, place: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts.os, "geteuid", lambda: 1000)
    with pytest.raises(AioError, match="with sudo or as root"):
        parts.set_up(place, Progress(6))
    assert machine.steps == ["packages"]
