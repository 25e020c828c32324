"""Scheduler of pytest-xdist: modules that need a cluster go to the first three workers.

Tests with a cluster wait for servers and deadlines, and the others use a processor all the time.
A fourth worker without a cluster runs the others meanwhile, so that no processor is idle.  It
brings up no cluster, which would cost ten seconds of processor time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from xdist.scheduler import LoadFileScheduling

if TYPE_CHECKING:
    import pytest
    from xdist.workermanage import WorkerController

#: The most workers that run tests with a cluster.
CLUSTERS: Final = 3
#: Folders of modules that need no cluster.
WITHOUT_CLUSTER: Final = ("tests/conformance/", "tests/java/", "tests/library/", "tests/unit/")


def is_worker(config: pytest.Config) -> bool:
    """True in a worker of pytest-xdist, which reports to a controller."""
    return hasattr(config, "workerinput")


class Scheduling(LoadFileScheduling):
    """A module at a time for each worker, in the order of the collection.

    The first :data:`CLUSTERS` workers take modules with a cluster while there are any.
    """

    _places: dict[str, int]

    def _assign_work_unit(self, node: WorkerController) -> None:
        """Send the next module that suits a worker; end a worker that suits none."""
        has_cluster = self.nodes.index(node) < CLUSTERS
        found = [
            next((name for name in self.workqueue if _needs_cluster(name) is wanted), None)
            for wanted in ([True, False] if has_cluster else [False])
        ]
        module = next((name for name in found if name), None)
        if module is None:
            node.shutdown()
            return
        tests = self.assigned_work[node][module] = self.workqueue.pop(module)
        if not hasattr(self, "_places"):
            assert self.collection
            self._places = {test: place for place, test in enumerate(self.collection)}
        # The superclass searches the list of all tests for each one: seconds for ten thousand.
        node.send_runtest_some(
            [self._places[test] for test, is_done in tests.items() if not is_done]
        )

    def mark_test_complete(
        self, node: WorkerController, item_index: int, duration: float = 0
    ) -> None:
        """Forget modules that have ended: each further test would count all their tests again."""
        modules = self.assigned_work[node]
        if len(modules) > 1 and all(next(iter(modules.values())).values()):
            del modules[next(iter(modules))]
        super().mark_test_complete(node, item_index, duration)


def _needs_cluster(module: str) -> bool:
    return not module.startswith(WITHOUT_CLUSTER)
