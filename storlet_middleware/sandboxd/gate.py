"""The gate of each trust class: no code is loaded before the class has passed its self-test.

When sandboxd starts, and when an operator runs ``storlet sandboxes --check``, a sandbox is made
for each class, by the same plan as a tenant's but smaller, for an account that no tenant can have.
Inside, ``storlet_daemon.selftest`` tries to break out and to exceed the limits, with a donated file
of root's like a storlet's object.  The sandbox is removed afterwards.

======== =======================================================================================
state    meaning for the class
======== =======================================================================================
untested no sandbox could be made yet (Docker is away, the image is missing): a load tries
         again, and its answer has the reason
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
import contextlib
import json
import logging
import math
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from storlet_daemon import selftest
from storlet_daemon.protocol import messages
from storlet_middleware import metrics
from storlet_middleware.config import CLASSES, USER_CLASS, TrustClass, nearest
from storlet_middleware.errors import SandboxUnavailable
from storlet_middleware.sandboxd.errors import (
    EngineFault,
    EngineUnavailable,
    LoadRefused,
    MountFault,
    PathFault,
    SandboxdFault,
    SandboxLost,
    SandboxWeak,
)
from storlet_middleware.sandboxd.node import Node
from storlet_middleware.sandboxd.plan import Plan, Planner
from storlet_middleware.sandboxd.sandbox import Sandbox, State
from storlet_middleware.sandboxd.wording import plain, shown
from storlet_middleware.self_test import FAIL, PASS, UNTESTED

log = logging.getLogger("storlet.sandboxd")

#: Faults seen from outside: it came up weaker, it ended, or the donated file was changed.
AS_CONFIGURED: Final = "sandbox-as-configured"
SURVIVES: Final = "sandbox-survives"
DONATED: Final = "donated-unchanged"

#: Every name that ``accept_failures`` may contain.
NAMES: Final = frozenset({*selftest.OUTSIDE, *(test.name for test in selftest.TESTS)})

#: Interval of attempts while no sandbox can be made.
AGAIN_SECONDS: Final = 2.0
#: Interval after a permanent fault.  Docker's absence is temporary: each load tries again.
REST_SECONDS: Final = 10.0
#: Interval of tests of a class whose only failure is that its sandbox ended: the host may have been
#: out of memory.
RETEST_SECONDS: Final = 60.0
#: A load waits at most this long for the first result.
WAIT_SECONDS: Final = 20.0

#: An abandoned start is waited for this long.
END_SECONDS: Final = 3.0

CONTENT: Final = b"an object in the hands of a storlet\n"
XATTR: Final = "user.storlets.selftest"
_XATTR_VALUE: Final = b"what only Swift may read"


@dataclass(frozen=True)
class _Fault:
    """Why there is no result yet."""

    fault: SandboxdFault
    at: float


class Gate:
    """The gates of one node; make it inside the loop, then :meth:`run` it after the adoption."""

    def __init__(self, node: Node, planner: Planner) -> None:
        self._node = node
        self._planner = planner
        self._accepted = frozenset(node.config.sandbox.accept_failures)
        self._results = {name: messages.SelfTest(name, UNTESTED) for name in CLASSES}
        self._faults: dict[str, _Fault] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        # One test at a time: a node that starts has other work to do.
        self._lock = asyncio.Lock()
        self._keys: set[str] = set()
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
        return key in self._keys

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
        """Test each class repeatedly until there is a result."""
        self._publish()
        for name in sorted(self._accepted - NAMES):
            log.warning(
                "unknown self-test accept_failures=%s%s", shown(name), nearest(name, sorted(NAMES))
            )
        while not self._is_closing:
            due = [name for name in CLASSES if self.is_untested(name) or self._may_pass_later(name)]
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
                faults = await self._run_tests(self._node.config.classes[name])
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

    async def _run_tests(self, trust_class: TrustClass) -> dict[str, str]:
        """The faults of a class by name of the test; raises a fault when no sandbox can be made."""
        call = self._node.threads.call
        self._node.paths.code.make(self._planner.self_test_demand(trust_class.name).account)
        faults = await self._run_tests_in(
            await call(self._planner.self_test_plan, trust_class.name), trust_class
        )
        if faults[SURVIVES]:
            # A restart of Docker may have ended it.  A fault of the sandbox would occur again.
            log.warning(
                "self-test sandbox ended class=%s reason=%s",
                trust_class.name,
                shown(faults[SURVIVES]),
            )
            faults = await self._run_tests_in(
                await call(self._planner.self_test_plan, trust_class.name), trust_class
            )
        if trust_class.name == USER_CLASS and self._node.config.sandbox.prewarmed:
            # An assigned pre-warmed sandbox must be as strong as a sandbox made for its tenant.
            with contextlib.suppress(MountFault):  # this node cannot have pre-warmed sandboxes
                assigned = await self._run_tests_in(
                    await call(self._planner.self_test_spare_plan), trust_class
                )
                faults |= {
                    name: f"pre-warmed: {text}"
                    for name, text in assigned.items()
                    if text and not faults.get(name)
                }
        return faults

    async def _run_tests_in(self, plan: Plan, trust_class: TrustClass) -> dict[str, str]:
        sandbox = Sandbox(plan, self._node, _ignore_loss)
        self._keys.add(plan.key)
        # Not cancelled with this task: a container that Docker is about to start has no id yet by
        # which it could be removed.
        starting = asyncio.get_running_loop().create_task(self._start(sandbox))
        try:
            async with asyncio.timeout(self._node.config.sandbox.start_deadline_seconds):
                await asyncio.shield(starting)
            return await self._check_inside(sandbox, trust_class)
        except SandboxWeak as fault:
            return _with_outside({AS_CONFIGURED: plain(fault)})
        except TimeoutError:
            raise SandboxLost("the sandbox for the self-test did not start in time") from None
        finally:
            await _wait_for_end(starting)
            sandbox.cut()
            # A container that cannot be removed now is removed when its name is used again.
            with contextlib.suppress(EngineFault):
                await sandbox.remove()
            self._keys.discard(plan.key)

    async def _start(self, sandbox: Sandbox) -> None:
        await sandbox.start()
        if sandbox.state is State.SPARE:
            plan = await self._node.threads.call(
                self._planner.self_test_assigned_plan, sandbox.plan
            )
            await sandbox.assign(plan, _ignore_loss)

    async def _check_inside(self, sandbox: Sandbox, trust_class: TrustClass) -> dict[str, str]:
        with donated(self._node.paths.state_dir) as descriptor:
            before = _fingerprint(descriptor)
            try:
                faults = await sandbox.check(
                    descriptor,
                    allowed(trust_class),
                    self._planner.self_test_limits(trust_class.name),
                )
            except (SandboxLost, LoadRefused) as fault:
                faults = {SURVIVES: plain(fault)}
            if _fingerprint(descriptor) != before:
                faults[DONATED] = "the donated file was changed"
        return _with_outside(faults)

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


def _ignore_loss(_sandbox: Sandbox, _reason: str) -> None:
    """The loss of such a sandbox is noticed by the test, which waits for its answer."""


def _fault_of(error: OSError) -> PathFault:
    return PathFault(f"the file for the self-test: {error.strerror or error}")


async def _wait_for_end(starting: asyncio.Task[None]) -> None:
    """Return when a start has ended, with or without success."""
    await asyncio.wait({starting}, timeout=END_SECONDS)
    starting.cancel()
    await asyncio.wait({starting})
    if not starting.cancelled():
        starting.exception()  # retrieved: the waiting task got it, too


def _with_outside(faults: Mapping[str, str]) -> dict[str, str]:
    """``faults``, beginning with the tests that are made from outside."""
    return {name: faults.get(name, "") for name in selftest.OUTSIDE} | dict(faults)


def allowed(trust_class: TrustClass) -> tuple[str, ...]:
    """The permissions of a class, in the words of the self-test."""
    network = () if trust_class.network == "none" else ("network",)
    return (
        *network,
        *(f"write:{mount.target}" for mount in trust_class.mounts if mount.is_writable),
    )


@contextlib.contextmanager
def donated(folder: Path) -> Iterator[int]:
    """A file like an object's: of root, closed to others, with attributes; opened for reading."""
    path = folder / "self-test-object"
    path.unlink(missing_ok=True)
    descriptor = os.open(
        path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
    )
    try:
        os.write(descriptor, CONTENT)
        # A file system without attributes has nothing to protect.
        with contextlib.suppress(OSError):
            os.setxattr(descriptor, XATTR, _XATTR_VALUE)
    finally:
        os.close(descriptor)
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
        path.unlink(missing_ok=True)


def _fingerprint(descriptor: int) -> object:
    """Everything of a file that a storlet might change."""
    status = os.fstat(descriptor)
    names = []
    with contextlib.suppress(OSError):
        names = sorted((name, os.getxattr(descriptor, name)) for name in os.listxattr(descriptor))
    kept = (
        status.st_mode,
        status.st_uid,
        status.st_gid,
        status.st_nlink,
        status.st_mtime_ns,
        status.st_size,
    )
    return kept, names, os.pread(descriptor, 4096, 0)
