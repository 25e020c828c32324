"""Scheduling: modules with a cluster go to the first workers, and every test runs once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.support import scheduling

CLUSTER = [f"tests/functional/test_{letter}.py" for letter in "abcdef"]
PLAIN = [f"tests/{folder}/test_it.py" for folder in ("conformance", "java", "library", "unit")]


class Worker:
    """The interface of a worker that the scheduler uses; ``queue`` has the indices of its tests."""

    def __init__(self, name: str) -> None:
        self.gateway = SimpleNamespace(id=name)
        self.shutting_down = False
        self.queue: list[int] = []
        self.ran: list[int] = []

    def send_runtest_some(self, indices: list[int]) -> None:
        assert not self.shutting_down
        self.queue += indices

    def shutdown(self) -> None:
        self.shutting_down = True


class Session:
    """Workers of a scheduler with modules of ``tests`` tests each."""

    def __init__(self, modules: list[str], workers: int, tests: int) -> None:
        self.tests = [f"{module}::test_{n}" for module in modules for n in range(tests)]
        option = SimpleNamespace(loadscopereorder=False)
        config: Any = SimpleNamespace(option=option, getvalue=lambda _: ["popen"] * workers)
        self.scheduler = scheduling.Scheduling(config)
        self.workers: list[Any] = [Worker(f"gw{n}") for n in range(workers)]
        for worker in self.workers:
            self.add(worker)
        self.scheduler.schedule()

    def add(self, worker: Any) -> None:
        self.scheduler.add_node(worker)
        self.scheduler.add_node_collection(worker, self.tests)

    def run(self, worker: Any) -> None:
        """One test of a worker; the last one of its queue runs when the worker has to end."""
        if len(worker.queue) > 1 or (worker.queue and worker.shutting_down):
            worker.ran.append(worker.queue.pop(0))
            self.scheduler.mark_test_complete(worker, worker.ran[-1])

    def run_all(self) -> None:
        """Run tests in turn until no worker can run any."""
        before = -1
        while before != (before := sum(len(worker.ran) for worker in self.workers)):
            for worker in self.workers:
                self.run(worker)

    def modules_of(self, worker: Any) -> list[str]:
        return list(dict.fromkeys(self.tests[n].partition("::")[0] for n in worker.ran))


@pytest.mark.parametrize("modules", [CLUSTER, PLAIN, CLUSTER[:2] + PLAIN, CLUSTER + PLAIN[:1]])
@pytest.mark.parametrize("workers", range(1, 6))
@pytest.mark.parametrize("tests", [1, 2, 5])
def test_every_test_runs_once_a_module_in_one_worker(
    modules: list[str], workers: int, tests: int
) -> None:
    session = Session(modules, workers, tests)
    session.run_all()
    assert sorted(n for worker in session.workers for n in worker.ran) == list(
        range(len(session.tests))
    )
    assert session.scheduler.tests_finished
    assert not session.scheduler.has_pending
    assert sorted(name for one in session.workers for name in session.modules_of(one)) == sorted(
        modules
    )
    for worker in session.workers[scheduling.CLUSTERS :]:
        assert not set(session.modules_of(worker)) & set(CLUSTER)


def test_workers_with_a_cluster_take_other_modules_last() -> None:
    session = Session(PLAIN + CLUSTER, 4, 3)
    assert [session.tests[worker.queue[0]].partition("::")[0] for worker in session.workers] == [
        *CLUSTER[:3],
        PLAIN[0],
    ]
    session.run_all()
    for worker in session.workers[:3]:
        kinds = [name in CLUSTER for name in session.modules_of(worker)]
        assert kinds == sorted(kinds, reverse=True)


def test_a_worker_that_replaces_one_with_a_cluster_takes_the_rest_of_its_module() -> None:
    session = Session(CLUSTER, 3, 4)
    crashed = session.workers.pop(0)
    session.run(crashed)
    assert session.scheduler.remove_node(crashed) == session.tests[1]
    session.workers.append(Worker("gw3"))
    session.add(session.workers[-1])
    session.scheduler.schedule()
    session.run_all()
    ran = sorted(n for worker in [crashed, *session.workers] for n in worker.ran)
    assert ran == list(range(len(session.tests)))


def test_modules_that_have_ended_are_forgotten() -> None:
    session = Session(CLUSTER, 1, 3)
    session.run_all()
    assert len(session.scheduler.assigned_work[session.workers[0]]) <= 2
