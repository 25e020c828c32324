"""The gate of each trust class: no code is loaded before the class has passed its self-test.

When sandboxd starts, and when an operator runs ``storlet sandboxes --check``, each class is tested
in a sandbox of its own (:mod:`~.self_tests`).  The sandboxd of local runs tests the class ``user``
at its start, and another one before its first load.

======== =======================================================================================
state    meaning for the class
======== =======================================================================================
untested no sandbox could be made yet (Docker is away, the image is missing), or none was needed:
         a load tests the class, and its answer has the reason of a fault
pass     every test held, or the operator accepts the failures: ``[sandbox] accept_failures``
fail     loads are refused with ``sandbox.unavailable`` and the reason; running sandboxes stay
======== =======================================================================================

A load before the first result waits for it.  A repeated test leaves the state unchanged until it
has a result.  A test that fails because this host lacks something (swap accounting, a capability
of root's) counts as a failure: only the operator can decide whether that is acceptable on this
node, and does so by its name in the configuration.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import time
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from storlet_daemon.protocol import messages
from storlet_middleware import metrics
from storlet_middleware.config import CLASSES, nearest
from storlet_middleware.errors import SandboxUnavailable
from storlet_middleware.sandboxd.errors import EngineUnavailable, PathFault, SandboxdFault
from storlet_middleware.sandboxd.node import Node
from storlet_middleware.sandboxd.plan import Planner
from storlet_middleware.sandboxd.self_test.self_tests import NAMES, SURVIVES, SelfTests
from storlet_middleware.sandboxd.wording import shown
from storlet_middleware.self_test import FAIL, PASS, UNTESTED

log = logging.getLogger("storlet.sandboxd")

#: Interval of attempts while no sandbox can be made.
AGAIN_SECONDS: Final = 2.0
#: Interval after a permanent fault.  Docker's absence is temporary: each load tries again.
REST_SECONDS: Final = 10.0
#: Interval of tests of a class whose only failure is that its sandbox ended: the host may have been
#: out of memory.
RETEST_SECONDS: Final = 60.0
#: A load waits at most this long for the first result.
WAIT_SECONDS: Final = 20.0


@dataclass(frozen=True)
class _Fault:
    """Why there is no result yet."""

    fault: SandboxdFault
    at: float


class Gate:
    """The gates of one node; make it inside the loop, then :meth:`run` it after the adoption.

    :param at_start: the classes that :meth:`run` tests; of others the first load waits for the
        test.
    """

    def __init__(self, node: Node, planner: Planner, at_start: Container[str] = CLASSES) -> None:
        self._node = node
        self._at_start = at_start
        self._accepted = frozenset(node.config.sandbox.accept_failures)
        self._results = {name: messages.SelfTest(name, UNTESTED) for name in CLASSES}
        self._faults: dict[str, _Fault] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        # One test at a time: a node that starts has other work to do.
        self._lock = asyncio.Lock()
        self._tests = SelfTests(node, planner)
        self._is_closing = False

    @property
    def results(self) -> tuple[messages.SelfTest, ...]:
        """The last result of each class."""
        return tuple(self._results.values())

    def is_untested(self, trust_class: str) -> bool:
        """Whether a class has no result yet."""
        return self._results[trust_class].state == UNTESTED

    def is_closed(self, trust_class: str) -> bool:
        """Whether a class has failed, so that its storlets may not be loaded."""
        return self._results[trust_class].state == FAIL

    def owns(self, key: str) -> bool:
        """Whether a sandbox is being tested now."""
        return self._tests.owns(key)

    async def admit(self, trust_class: str) -> None:
        """Return when storlets of a class may be loaded.

        Raises :class:`SandboxUnavailable` or a :class:`SandboxdFault`.
        """
        if self.is_untested(trust_class):
            await self._wait_for_first_result(trust_class)
        result = self._results[trust_class]
        if result.state == FAIL:
            # Tenants read this answer: details, such as paths of the host, are for operators only.
            name, _ = next(self._unaccepted(result))
            raise SandboxUnavailable(
                f"sandboxes of class {trust_class} are closed on this node: self-test {name} has "
                "failed"
            )

    async def run(self) -> None:
        """Test the classes to be tested at the start, repeatedly until there is a result."""
        self._publish()
        for name in sorted(self._accepted - NAMES):
            log.warning(
                "unknown self-test accept_failures=%s%s", shown(name), nearest(name, sorted(NAMES))
            )
        while not self._is_closing:
            due = [
                name
                for name in CLASSES
                if (name in self._at_start and self.is_untested(name)) or self._may_pass_later(name)
            ]
            if not due:
                return
            await asyncio.wait([self._test_task(name) for name in due])
            if any(self.is_untested(name) for name in due):
                is_away = all(
                    isinstance(known.fault, EngineUnavailable) for known in self._faults.values()
                )
                await asyncio.sleep(AGAIN_SECONDS if is_away else REST_SECONDS)
            elif any(self._may_pass_later(name) for name in due):
                await asyncio.sleep(RETEST_SECONDS)

    async def check(self) -> None:
        """Test each class now; raises a :class:`SandboxdFault` when one cannot be tested."""
        self._faults.clear()
        tasks = [self._test_task(name) for name in CLASSES]
        await asyncio.wait(tasks)
        for known in self._faults.values():
            raise known.fault

    async def close(self, grace_seconds: float) -> None:
        """Cancel running tests; the next sandboxd removes sandboxes that are left."""
        self._is_closing = True
        for task in self._tasks.values():
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks.values(), timeout=grace_seconds)

    # --- one class --------------------------------------------------------------------------------

    async def _wait_for_first_result(self, trust_class: str) -> None:
        known = self._faults.get(trust_class)
        if (
            known
            and not isinstance(known.fault, EngineUnavailable)
            and time.monotonic() - known.at < REST_SECONDS
        ):
            raise known.fault
        done, _ = await asyncio.wait([self._test_task(trust_class)], timeout=WAIT_SECONDS)
        if not done:
            raise SandboxUnavailable(
                f"the self-test of class {trust_class} has not ended within {WAIT_SECONDS:g} "
                "seconds",
                retry_after=math.ceil(AGAIN_SECONDS),
            )
        if trust_class in self._faults:
            raise self._faults[trust_class].fault
        if self.is_untested(trust_class):
            raise SandboxUnavailable("storlet-sandboxd ends", retry_after=math.ceil(AGAIN_SECONDS))

    def _may_pass_later(self, name: str) -> bool:
        """Whether the only failure of a class is the end of its sandbox, possibly by the host."""
        result = self._results[name]
        return result.state == FAIL and [test for test, _ in self._unaccepted(result)] == [SURVIVES]

    def _test_task(self, name: str) -> asyncio.Task[None]:
        """The task that tests a class; the running one, if there is one."""
        task = self._tasks.get(name)
        if task is None or task.done():
            task = self._tasks[name] = asyncio.get_running_loop().create_task(self._test(name))
        return task

    async def _test(self, name: str) -> None:
        async with self._lock:
            began = time.monotonic()
            try:
                faults = await self._tests.run(self._node.config.classes[name])
            except (SandboxdFault, OSError) as error:
                fault = error if isinstance(error, SandboxdFault) else _fault_of(error)
                if name not in self._faults or str(self._faults[name].fault) != str(fault):
                    log.warning("self-test not possible class=%s reason=%s", name, shown(fault))
                self._faults[name] = _Fault(fault, time.monotonic())
                return
            except Exception:
                log.exception("self-test broke off class=%s", name)
                self._faults[name] = _Fault(
                    SandboxdFault("the self-test broke off; see sandboxd's log"), time.monotonic()
                )
                return
            self._faults.pop(name, None)
            result = messages.SelfTest(name, PASS, faults, time.time())
            if any(self._unaccepted(result)):
                result = messages.SelfTest(name, FAIL, faults, result.at)
            self._results[name] = result
            self._report(result, time.monotonic() - began)
            if result.state == FAIL:
                metrics.self_test_failed(self._node.stats)
            self._publish()

    # --- reports ----------------------------------------------------------------------------------

    def _unaccepted(self, result: messages.SelfTest) -> Iterator[tuple[str, str]]:
        """The faults that the operator does not accept."""
        return (
            (name, text)
            for name, text in result.faults.items()
            if text and name not in self._accepted
        )

    def _report(self, result: messages.SelfTest, seconds: float) -> None:
        failed = {name: text for name, text in result.faults.items() if text}
        for name, text in failed.items():
            log.warning(
                "self-test failed class=%s test=%s accepted=%s what=%s",
                result.trust_class,
                shown(name),
                name in self._accepted,
                shown(text),
            )
        log.log(
            logging.INFO if result.state == PASS else logging.ERROR,
            "self-test class=%s result=%s tests=%d failed=%d ms=%.0f",
            result.trust_class,
            result.state,
            len(result.faults),
            len(failed),
            seconds * 1000,
        )

    def _publish(self) -> None:
        """Publish the states for ``/info`` of the proxies; faults are for operators only."""
        states: Mapping[str, str] = {name: result.state for name, result in self._results.items()}
        try:
            self._node.paths.write_self_test(json.dumps(states))
        except SandboxdFault as fault:
            log.warning("self-test not published reason=%s", shown(fault))


def _fault_of(error: OSError) -> PathFault:
    return PathFault(f"the file for the self-test: {error.strerror or error}")
