"""Runs the steps of a run, each on the output of the one before; knows neither WSGI nor Swift.

A request gives it inputs and steps, and gets a :class:`~.result.Result`.  The same execution can
serve a request, a job or a call of one storlet by another: each has steps of a class of its own.

**Slots.**  Steps run at the same time.  Hold-and-wait can deadlock: a step that holds a slot and
waits for another may wait for a run that does the same (the node that stores the object may be this
one).  So all slots on this node are acquired at once (:meth:`Execution.acquire_slots`), and an
object node gets the first step only if it can run it without waiting; otherwise that step runs here
as well (:meth:`Execution.acquire_all_slots`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, Generic, TypeVar

from storlet_middleware.concurrency import monotonic
from storlet_middleware.engine.code_cache import Fetcher
from storlet_middleware.engine.further_outputs import Sink
from storlet_middleware.engine.invocation import Invocation
from storlet_middleware.engine.launcher import Demand, Launcher
from storlet_middleware.engine.services import Services
from storlet_middleware.engine.task import Input, ServiceLimits, StreamInput, Task
from storlet_middleware.errors import CodeReplaced, row_of
from storlet_middleware.proxy.execution.pipeline import Pipeline, merged
from storlet_middleware.proxy.execution.result import LocalResult, Result
from storlet_middleware.proxy.execution.steps import Step

StepT = TypeVar("StepT", bound=Step)
#: Maximum number of repeated resolutions of a storlet that is replaced between its resolution and
#: the fetch of its code.
RESOLUTIONS: Final = 4


class Execution(Generic[StepT]):
    """The execution of one run.

    :param fetcher: fetches code that this node lacks.
    :param resolve_again: resolves a step's storlet again after its code was replaced.
    :param services_of: makes the services of a step's storlet; ``None`` if it has none.  Without
        it, no step has services.
    :param sinks: receivers of the last step's further outputs.
    """

    def __init__(
        self,
        launcher: Launcher,
        steps: list[StepT],
        fetcher: Fetcher,
        resolve_again: Callable[[StepT], None],
        services_of: Callable[[StepT, ServiceLimits], Services | None] | None = None,
        sinks: Sequence[Sink] = (),
    ) -> None:
        self._launcher = launcher
        self._steps = steps
        self.is_pipeline = len(steps) > 1
        self._fetcher = fetcher
        self._resolve_again = resolve_again
        self._sinks = sinks
        self._services_of = services_of
        #: The result so far; closing it ends everything that runs.
        self.result: Result | None = None
        #: Index of the step that is being started; ``None`` while none is.
        self._starting: int | None = None
        #: Time that several steps waited for their slots.
        self._slot_wait_seconds = 0.0

    @property
    def waited_seconds(self) -> float:
        """Time that the run waited for slots, here and on the object node."""
        return self._slot_wait_seconds + (self.result.waited_seconds if self.result else 0.0)

    # --- slots ------------------------------------------------------------------------------------

    def acquire_slots(self, *, is_first_elsewhere: bool) -> None:
        """Acquire slots for the steps of a pipeline, except for a first step that will run on an
        object node.
        """
        self._acquire(self._steps[1:] if is_first_elsewhere else self._steps)

    def acquire_all_slots(self) -> None:
        """Acquire slots for all steps of a pipeline, after its first step could not run on an
        object node.
        """
        if not self.try_acquire():
            self.release_slots()
            self._acquire(self._steps)

    def try_acquire(self) -> bool:
        """Acquire the missing slots without waiting; return whether all steps have slots."""
        missing = [step for step in self._steps if step.slot is None]
        if not missing:
            return True
        slots = self._launcher.try_admit_together([self._demand(step) for step in missing])
        for step, slot in zip(missing, slots or (), strict=False):
            step.slot = slot
        return slots is not None

    def release_slots(self) -> None:
        for step in self._steps:
            step.release_slot()

    def _acquire(self, steps: list[StepT]) -> None:
        """Wait for slots for ``steps``, which have no slots yet."""
        began, self._starting = monotonic(), None
        slots = self._launcher.admit_together([self._demand(step) for step in steps])
        self._starting = 0
        self._slot_wait_seconds += monotonic() - began
        for step, slot in zip(steps, slots, strict=True):
            step.slot = slot

    def _demand(self, step: StepT) -> Demand:
        return step.storlet, self._launcher.effective(step.storlet, step.settings.limits).resources

    # --- running ----------------------------------------------------------------------------------

    def adopt(self, result: Result) -> None:
        """Use ``result``, of a first step that runs on an object node."""
        self.result = result

    def discard_result(self) -> None:
        """Discard an adopted result that failed; the first step is retried."""
        self.result = None

    def run_first(self, inputs: Sequence[Input], span: tuple[int, int, int] | None) -> Result:
        """Run the first step here; returns once its first bytes or its end are known.

        :param span: the input range, as first byte, last byte and size.
        """
        step = self._steps[0]
        result = self.result = LocalResult(self._invocation(step, inputs), span, 0.0, step.tell)
        if self.is_pipeline:
            self.acquire_all_slots()
        self._start(step, result)
        result.first()
        return result

    def run_further(self, inherited: Callable[[], Mapping[str, str]]) -> Result:
        """Run the steps after the first here, each on the output of the one before.

        :param inherited: metadata that the first step's output inherits from its source.
        """
        for index, step in enumerate(self._steps[1:], 1):
            self._starting = index
            before = self._require_result()
            pipeline = before if isinstance(before, Pipeline) else Pipeline(before)
            known = merged(inherited(), pipeline.metadata)
            metadata = {key: value for key, value in known.items() if value}
            upstream = StreamInput(pipeline.upstream(), metadata, drains=True, is_ours=True)
            result = LocalResult(self._invocation(step, [upstream]), None, 0.0, step.tell)
            pipeline.add(result)
            self.result = pipeline
            self._start(step, result)
            pipeline.first()
        return self._require_result()

    def _invocation(self, step: StepT, inputs: Sequence[Input]) -> Invocation:
        is_last, task = step is self._steps[-1], self._task(step)
        invocation = Invocation(task, inputs, self._sinks if is_last else ())
        if step.storlet.services:
            invocation.adopt_services(self._services(step, task))
        return invocation

    def _services(self, step: StepT, task: Task) -> Services | None:
        """The services of a step's storlet; ``None`` if it has none."""
        if self._services_of is None or not step.storlet.services:
            return None
        return self._services_of(step, task.limits.services)

    def _require_result(self) -> Result:
        if self.result is None:
            raise AssertionError("the first step has not run")
        return self.result

    def _start(self, step: StepT, result: LocalResult) -> None:
        began = monotonic()
        invocation = result.invocation
        for resolutions in reversed(range(RESOLUTIONS + 1)):
            try:
                # No input is read before the code is there.
                slot, step.slot = step.slot, None
                self._launcher.start(invocation, step.storlet, self._fetcher, slot)
                break
            except CodeReplaced:
                if not resolutions:
                    raise
                self._resolve_again(step)
                task = self._task(step)
                invocation.replace_task(task)
                invocation.adopt_services(self._services(step, task))
        result.sandbox_seconds = max(0.0, monotonic() - began - invocation.waited_seconds)

    def _task(self, step: StepT) -> Task:
        settings = step.settings
        effective = self._launcher.effective(step.storlet, settings.limits)
        task = self._launcher.task(
            step.id,
            dict(settings.parameters),
            effective,
            wants_log=settings.wants_log,
            keeps_log_tail=step.keeps_log_tail,
            # A piece may begin or end within a value, which is not found there.
            log_delay_seconds=None if step.secrets else step.log_delay_seconds,
        )
        return replace(task, secrets=step.secrets) if step.secrets else task

    # --- after the run ----------------------------------------------------------------------------

    def failed_step(self, code: str) -> int | None:
        """Index of the step of a pipeline that caused an error with ``code``; ``None`` if no step
        did.
        """
        if not self.is_pipeline or not row_of(code).is_of_step:
            return None
        failed = self.result.failed if isinstance(self.result, Pipeline) else None
        return self._starting if failed is None else failed

    def results(self) -> list[Result]:
        """The result of each step that was started, in order."""
        result = self.result
        return (
            [] if result is None else result.results if isinstance(result, Pipeline) else [result]
        )
