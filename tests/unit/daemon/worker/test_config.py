"""The parameters of a worker process."""

from __future__ import annotations

import dataclasses

import pytest

from storlet_daemon.worker.config import WorkerConfig

CONFIG = WorkerConfig(3, 4, "a.B", "a.py", "/code", 7)


def test_a_worker_without_control_groups_has_an_empty_directory() -> None:
    assert CONFIG.control_group == ""
    assert WorkerConfig(3, 4, "a.B", "a.py", "/code", 7, "g-1").control_group == "g-1"


def test_a_storlet_cannot_change_the_configuration_of_its_worker() -> None:
    for field in dataclasses.fields(WorkerConfig):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(CONFIG, field.name, None)
