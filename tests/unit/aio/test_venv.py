"""Layers of Python environments: which one gets which packages."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from storlet_middleware.aio import venv


@pytest.mark.parametrize(
    ("make", "kind", "requirements"),
    [
        (venv.tools, "tools", "requirements-test.txt"),
        (venv.bench, "bench", "requirements-bench.txt"),
    ],
)
def test_a_layer_has_the_packages_of_one_file_on_top_of_swifts(
    make: Callable[[Path], Path],
    kind: str,
    requirements: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    below, commands = tmp_path / "deps-0", []
    monkeypatch.setenv("STORLETS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(venv, "deps", lambda _log: below)
    monkeypatch.setattr(
        venv, "_new_layer", lambda place, under, _log: commands.append((place, under))
    )
    monkeypatch.setattr(
        venv, "run", lambda words, _log, **_: commands.append([str(word) for word in words])
    )
    place = make(tmp_path / "log")
    assert place.name.startswith(f"{kind}-")
    made, installed = commands
    assert made == (place, below)
    assert "--no-deps" in installed
    assert installed[-1] == str(venv.CHECKOUT / requirements)
    assert make(tmp_path / "log") == place
    assert len(commands) == 2
