"""Starts an invocation on this node: slot, code, sandbox, worker.

First admission gives a slot (:mod:`storlet_middleware.admission.controller`), which may take time.
A warm start is then one connection to a known socket.  A cold start requests a sandbox from
sandboxd, fetches the code while the sandbox starts, has the code loaded, and connects.
"""

from __future__ import annotations

import contextlib
import functools
import socket
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any, Final
from weakref import WeakValueDictionary

from storlet_daemon.protocol import messages
from storlet_middleware.admission.controller import ROOM, Admission, Slot
from storlet_middleware.admission.fairness import Claim
from storlet_middleware.admission.queue import Beats
from storlet_middleware.concurrency import GreenTask, Killed, end, monotonic, spawn, wait_task
from storlet_middleware.config import Config
from storlet_middleware.engine import limits
from storlet_middleware.engine.code_cache import CodeCache, Fetcher
from storlet_middleware.engine.invocation import Invocation
from storlet_middleware.engine.limits import Effective
from storlet_middleware.engine.output_stream import Turns
from storlet_middleware.engine.sandbox_client import SandboxClient
from storlet_middleware.engine.start_times import StartTimes
from storlet_middleware.engine.storlet_version import MAX_VERSIONS, StorletVersion
from storlet_middleware.engine.task import Task
from storlet_middleware.errors import CodeMissing, SandboxUnavailable, TenantBusy

#: sandboxd's own deadline for a start expires first and gives the more precise error.
_ANSWER_MARGIN_SECONDS: Final = 15.0

#: A storlet version, and the resources of its worker group: what needs a slot.
Demand = tuple[StorletVersion, messages.Resources]


class Launcher:
    """One per server process; ``max_runs`` is for its admission."""

    def __init__(self, config: Config, logger: Any, max_runs: int = ROOM) -> None:
        self._config = config
        self._admission = Admission(config, logger, max_runs)
        self._client = SandboxClient(
            config.sandbox.run_dir, config.sandbox.start_deadline_seconds + _ANSWER_MARGIN_SECONDS
        )
        self._code = CodeCache(config.limits.code_bytes, logger)
        #: The limits of a version, by its text, for requests without limits of their own.
        self._effective: dict[str, Effective] = {}
        #: Of each account with runs whose output comes in small pieces, as long as these exist.
        self._turns: WeakValueDictionary[str, Turns] = WeakValueDictionary()

    def effective(self, version: StorletVersion, requested: Mapping[str, float]) -> Effective:
        """The limits of this storlet in this request, by this node's configuration."""
        trust_class = self._config.class_of(version.account, version.name)
        if requested:
            return limits.effective(trust_class, version.limits, requested)
        known = self._effective.get(version.text)
        if known is None:
            if len(self._effective) >= MAX_VERSIONS:
                self._effective.clear()
            known = self._effective[version.text] = limits.effective(
                trust_class, version.limits, {}
            )
        return known

    @staticmethod
    def task(
        invocation_id: str,
        parameters: Mapping[str, str],
        effective: Effective,
        *,
        wants_log: bool,
        keeps_log_tail: bool = False,
        log_delay_seconds: float | None = None,
    ) -> Task:
        """The description of an invocation within its limits."""
        return Task(
            id=invocation_id,
            parameters=parameters,
            deadlines=effective.deadlines,
            limits=effective.limits,
            wants_log=wants_log,
            keeps_log_tail=keeps_log_tail,
            log_delay_seconds=log_delay_seconds,
            resources=effective.resources,
        )

    def start(
        self,
        invocation: Invocation,
        version: StorletVersion,
        fetcher: Fetcher,
        slot: Slot | None = None,
    ) -> None:
        """Hand ``invocation`` to a worker.

        Waits for slot, code and sandbox.  ``slot`` as in :meth:`start_with_heartbeats`.
        """
        for _ in self.start_with_heartbeats(invocation, version, fetcher, None, slot):
            pass

    def start_with_heartbeats(
        self,
        invocation: Invocation,
        version: StorletVersion,
        fetcher: Fetcher,
        beats: Beats | None,
        slot: Slot | None = None,
    ) -> Iterator[None]:
        """The same, yielding at each of ``beats`` while it waits, so that the caller can send a
        heartbeat.

        :param slot: a slot acquired before; the invocation owns it from here on.
        """
        resources = invocation.task.resources
        wanted = version.load_request(limits.group_of(version.key, resources), resources)
        if slot is None:
            claim = self._admission.claim(version.account, wanted.version, resources.memory_bytes)
            slot = yield from self._admission.acquire(claim, beats)
        invocation.adopt_slot(slot.waited_seconds, slot.release)
        invocation.share_turns(functools.partial(self._turns_of, version.account))
        try:
            yield from self._start_admitted(invocation, version, wanted, fetcher, beats)
        except BaseException:
            # The caller may retry with the same invocation.
            slot.release()
            raise

    def _turns_of(self, account: str) -> Turns:
        return self._turns.setdefault(account, Turns())

    def try_admit(self, version: StorletVersion, resources: messages.Resources) -> Slot | None:
        """A slot for an invocation of ``version``, or ``None`` if it would have to wait."""
        group = limits.group_of(version.key, resources)
        return self._admission.acquire_at_once(
            self._admission.claim(version.account, group, resources.memory_bytes)
        )

    def admit_together(self, wanted: Sequence[Demand]) -> list[Slot]:
        """Slots for invocations that run at the same time; holds none of them while it waits."""
        return _run_to_end(self._admission.acquire_together(self._claims(wanted), None))

    def try_admit_together(self, wanted: Sequence[Demand]) -> list[Slot] | None:
        """The same, or ``None`` if it would have to wait."""
        return self._admission.acquire_together_at_once(self._claims(wanted))

    def _claims(self, wanted: Sequence[Demand]) -> list[Claim]:
        return [
            self._admission.claim(
                version.account, limits.group_of(version.key, resources), resources.memory_bytes
            )
            for version, resources in wanted
        ]

    def _start_admitted(
        self,
        invocation: Invocation,
        version: StorletVersion,
        wanted: messages.Storlet,
        fetcher: Fetcher,
        beats: Beats | None,
    ) -> Iterator[None]:
        if self._client.knows(version.account, wanted.version):
            invocation.prepare()
        node_fault = functools.partial(self._client.fault, version.account, wanted)
        invocation.adopt_node_check(node_fault)
        connection = self._connect_warm(version, wanted, node_fault)
        if connection is None:
            starting = spawn(self._try_prepare, version, wanted, fetcher, invocation.start_times)
            try:
                pause = beats[0] if beats else None
                while beats is not None and pause is not None and not wait_task(starting, pause):
                    pause = beats[1]
                    yield
                connection = _connection_or_raise(starting.wait())
            except BaseException:
                # A killed task closes what it holds; one that has just ended leaves a connection.
                end(starting)
                _close_result(starting)
                raise
        invocation.start(connection)

    def _connect_warm(
        self, version: StorletVersion, wanted: messages.Storlet, node_fault: Callable[[], str]
    ) -> socket.SocketType | None:
        try:
            return self._client.connect_warm(version.account, wanted.version)
        except TenantBusy:
            # Nothing takes connections from the backlog of a frozen sandbox either.
            fault = node_fault()
            if fault:
                raise SandboxUnavailable(f"the node stalled: {fault}") from None
            raise

    def _try_prepare(
        self,
        version: StorletVersion,
        wanted: messages.Storlet,
        fetcher: Fetcher,
        times: StartTimes,
    ) -> socket.SocketType | Exception:
        """The connection, or the exception: eventlet prints the traceback of a task that raises."""
        began, code_before = monotonic(), times.code
        try:
            return self._prepare(version, wanted, fetcher, times)
        except Exception as error:  # noqa: BLE001
            return error
        finally:
            times.sandbox += monotonic() - began - (times.code - code_before)

    def _prepare(
        self,
        version: StorletVersion,
        wanted: messages.Storlet,
        fetcher: Fetcher,
        times: StartTimes,
    ) -> socket.SocketType:
        code_dir = self._client.prepare(version.account, version.name)
        self._ensure_code(code_dir, version, fetcher, times)
        try:
            return self._client.connect_cold(version.account, wanted)
        except CodeMissing:
            # sandboxd evicted the code between our check and its own.
            self._ensure_code(code_dir, version, fetcher, times)
            return self._client.connect_cold(version.account, wanted)

    def _ensure_code(
        self, code_dir: str, version: StorletVersion, fetcher: Fetcher, times: StartTimes
    ) -> None:
        began = monotonic()
        try:
            self._code.ensure(code_dir, version, fetcher)
        finally:
            times.code += monotonic() - began


def _run_to_end(waiting: Generator[None, None, list[Slot]]) -> list[Slot]:
    while True:
        try:
            next(waiting)
        except StopIteration as end_of_it:
            return list(end_of_it.value)


def _close_result(starting: GreenTask) -> None:
    with contextlib.suppress(Exception, Killed):
        _connection_or_raise(starting.wait()).close()


def _connection_or_raise(outcome: socket.SocketType | Exception) -> socket.SocketType:
    if isinstance(outcome, Exception):
        raise outcome
    return outcome
