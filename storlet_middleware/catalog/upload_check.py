"""The check of a storlet's code before it takes effect: its sandbox loads it, and runs its test
cases.

::

    X-Storlet-Check: true | false                  of a PUT or POST of a storlet
    X-Account-Meta-Storlet-Check: true | false     of the account: the default; false if not set

The check starts an invocation of the new code, with an empty input, in the tenant's sandbox at this
proxy and under the storlet's limits.  It cancels the invocation as soon as the worker reports that
the code is loaded: module imported, class found.  Then the test cases of a bundle's manifest run
one after the other, each as an invocation; all together have ``[storlet] check_seconds``.

A failure of the tenant's code or limits is ``registration.check``, and the write does not happen.
Any other failure (no capacity, no sandbox) is answered as it is: the code was not checked.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, BinaryIO, Final, Protocol

from swift.common.utils import config_true_value

from storlet_middleware import names
from storlet_middleware.bundle import manifest
from storlet_middleware.catalog import self_tests
from storlet_middleware.catalog.self_tests import Case, Outcome
from storlet_middleware.concurrency import monotonic
from storlet_middleware.config import Config
from storlet_middleware.engine.code_cache import Fetcher
from storlet_middleware.engine.inputs import ContentFiles
from storlet_middleware.engine.invocation import Invocation
from storlet_middleware.engine.launcher import Launcher
from storlet_middleware.engine.storlet_version import CodeFile, StorletVersion
from storlet_middleware.engine.task import Task
from storlet_middleware.errors import (
    BadRequest,
    Blame,
    RegistrationCheckFailed,
    StorletError,
    fault,
    row_of,
)
from storlet_middleware.wsgi.account_info import account_metadata
from storlet_middleware.wsgi.operation import Operation
from storlet_middleware.wsgi.storlet_request import storlet_headers, unknown_header_faults

#: Key of the account's default in Swift's account info.
_KEY: Final = names.ACCOUNT_CHECK.lower().removeprefix("x-account-meta-")
_VALUES: Final = {"true": True, "false": False}
_CHUNK: Final = 1 << 18
_TENANTS: Final = (Blame.TENANT_CODE, Blame.TENANT_LIMIT)


class Inflight(Protocol):
    """The runs of accounts in this process, and their limits."""

    def acquire(self, account: str) -> None: ...

    def release(self, account: str) -> None: ...


def is_valid(value: str) -> bool:
    """Whether ``value`` of one of the two headers is known."""
    return value.strip().lower() in _VALUES


def require_valid(operation: Operation) -> None:
    """Refuse a POST of the account with an unknown value; an empty value removes it."""
    value = operation.header(names.ACCOUNT_CHECK)
    is_change = operation.path.container is None and operation.sent_method in ("PUT", "POST")
    if value and is_change and not is_valid(value):
        raise BadRequest(fault(names.ACCOUNT_CHECK, value, "want true or false"))


def is_wanted(operation: Operation, environ: dict[str, Any], app: Any) -> bool:
    """Whether the write of a storlet in ``operation`` is checked.

    :raises BadRequest: an unknown header, or an unknown value.
    """
    faults = unknown_header_faults(storlet_headers(environ), (names.CHECK,), "unknown header")
    value = operation.header(names.CHECK)
    if value is not None and not is_valid(value):
        faults.append(fault(names.CHECK, value, "want true or false"))
    if faults:
        raise BadRequest("; ".join(faults))
    if value is not None:
        return _VALUES[value.strip().lower()]
    # A value that is older than the filter may be any.
    meta = account_metadata(environ, app, operation.path.account)
    return bool(config_true_value(str(meta.get(_KEY, "")).strip()))


class UploadCheck:
    """Loads storlet versions; one instance in a proxy process."""

    def __init__(self, config: Config, launcher: Launcher, inflight: Inflight) -> None:
        self._config = config
        self._launcher = launcher
        self._inflight = inflight

    def require_loads(
        self,
        environ: Mapping[str, Any],
        version: StorletVersion,
        fetcher: Fetcher,
        cases: Sequence[Case] = (),
        *,
        is_owner: bool,
    ) -> None:
        """Return when the code of ``version`` has been loaded, and has passed all ``cases``.

        :param is_owner: the caller may see text of the tenant's code, such as the traceback.
        :raises RegistrationCheckFailed: it cannot be loaded, or a case failed.
        """
        transaction = str(environ.get("swift.trans_id", "check"))
        self._inflight.acquire(version.account)
        try:
            self._load(transaction, version, fetcher)
            self._run_all(transaction, version, fetcher, cases)
        except StorletError as error:
            raise refusal(error, is_owner=is_owner) from error
        finally:
            self._inflight.release(version.account)

    def _load(self, transaction: str, version: StorletVersion, fetcher: Fetcher) -> None:
        with ContentFiles() as files, files.open(b"", {}) as empty:
            task = self._task(transaction, version, {})
            invocation = Invocation(task, [empty])
            try:
                self._launcher.start(invocation, version, fetcher)
                invocation.await_start()
            finally:
                invocation.close()

    def _run_all(
        self, transaction: str, version: StorletVersion, fetcher: Fetcher, cases: Sequence[Case]
    ) -> None:
        left = seconds = self._config.storlet.check_seconds
        with ContentFiles() as files:
            for number, case in enumerate(cases, 1):
                began, id_ = monotonic(), f"{transaction}-case-{number}"
                outcome = self._outcome(id_, version, fetcher, case, files, left)
                left -= monotonic() - began - outcome.waited_seconds
                if left <= 0:
                    raise RegistrationCheckFailed(
                        f"the test cases took longer than {seconds:g} s: number {number} of"
                        f" {len(cases)}, {case.name!r}, did not end in time"
                    )
                faults = self_tests.differences(case, outcome)
                if faults:
                    text = f"test case {case.name!r} failed: {faults}"
                    raise RegistrationCheckFailed(text, detail=outcome.detail)

    def _outcome(
        self,
        id_: str,
        version: StorletVersion,
        fetcher: Fetcher,
        case: Case,
        files: ContentFiles,
        left: float,
    ) -> Outcome:
        """The outcome of one case, which runs for at most ``left`` seconds.

        :raises StorletError: the case could not be run, and nothing is known of it.
        """
        values, faults = manifest.parameters_of_run(version.parameters, case.parameters)
        if version.inputs:
            faults += manifest.faults_of_count(version.inputs, len(case.inputs))
        if version.outputs:
            faults += manifest.faults_of_count(version.outputs, case.output_count, "outputs")
        if faults:
            return Outcome(BadRequest.code, "; ".join(faults))
        task = self._task(id_, version, values)
        total = min(task.deadlines.total, left)
        deadlines = replace(task.deadlines, total=total)
        task = replace(task, deadlines=deadlines, secrets=case.secrets)
        with contextlib.ExitStack() as opened:
            inputs = [
                opened.enter_context(files.open(content, {}, is_seekable=version.seekable))
                for content in case.inputs
            ]
            first, *further = _collectors(case)
            invocation = Invocation(task, inputs, further)
            opened.callback(invocation.close)
            try:
                self._launcher.start(invocation, version, fetcher)
                # Reads of endless output would not see that the storlet has begun, and the time to
                # load it would extend its deadline.
                invocation.output.first()
                while chunk := invocation.output.read():
                    first.write(chunk)
                outputs = [each.data for each in (first, *further)]
                outcome = Outcome(outputs=tuple(outputs[: len(case.outputs)]))
            except StorletError as error:
                if row_of(error.code).blame not in _TENANTS:
                    raise
                outcome = Outcome(error.code, str(error), error.detail)
            return replace(
                outcome,
                metadata=dict(invocation.metadata),
                waited_seconds=invocation.waited_seconds,
            )

    def _task(self, id_: str, version: StorletVersion, parameters: Mapping[str, str]) -> Task:
        effective = self._launcher.effective(version, {})
        task = self._launcher.task(id_, parameters, effective, wants_log=False)
        # An invocation waits for a worker as long as for a slot.  Loading may take all of that
        # time, and the supervisor's own deadline for it gives the more precise error.
        loading = self._config.class_of(version.account, version.name).invocation.load_seconds
        return replace(
            task, deadlines=replace(task.deadlines, queue=task.deadlines.queue + loading)
        )


class _Collector:
    """The beginning of one output; a :class:`~storlet_middleware.engine.further_outputs.Sink`.

    :param most: the bytes that are expected, of which one more is kept; none if it is negative.
    """

    def __init__(self, most: int) -> None:
        self._left = most + 1
        self._pieces: list[bytes] = []

    @property
    def data(self) -> bytes:
        return b"".join(self._pieces)

    def begin(self, metadata: Mapping[str, str]) -> None:
        """Only the metadata of the first output is compared."""

    def write(self, chunk: bytes) -> None:
        if self._left > 0:
            self._pieces.append(chunk[: self._left])
            self._left -= len(self._pieces[-1])


def _collectors(case: Case) -> list[_Collector]:
    """The receivers of the outputs of a case."""
    sizes = [len(content) for _, content in case.outputs]
    sizes += [-1] * (case.output_count - len(sizes))
    return [_Collector(most) for most in sizes]


def refusal(error: StorletError, *, is_owner: bool) -> StorletError:
    """The answer for ``error`` of a check: the tenant's part failed, or the check itself."""
    if isinstance(error, RegistrationCheckFailed):
        return _of_case(error, is_owner=is_owner)
    row = row_of(error.code)
    if row.blame not in _TENANTS or row.status != RegistrationCheckFailed.status:
        return error
    shown = error if is_owner else error.without_tenant_text()
    return RegistrationCheckFailed(
        f"{error.code}: {shown}; nothing was changed", detail=shown.detail
    )


def _of_case(error: RegistrationCheckFailed, *, is_owner: bool) -> StorletError:
    """The answer for a test case; its name is the caller's, but not all that the code wrote."""
    text = str(error) if is_owner else str(error).partition(" failed: ")[0]
    return RegistrationCheckFailed(
        f"{text}; nothing was changed", detail=error.detail if is_owner else ""
    )


class PackedCode:
    """The code of an upload that is in a file here; everything else comes from ``others``."""

    def __init__(self, own: CodeFile, packed: BinaryIO, others: Fetcher) -> None:
        self._own = own
        self._packed = packed
        self._others = others

    def fetch(self, account: str, file: CodeFile) -> Iterator[bytes]:
        """See :class:`~storlet_middleware.engine.code_cache.Fetcher`."""
        if file != self._own:
            yield from self._others.fetch(account, file)
            return
        self._packed.seek(0)
        yield from iter(lambda: self._packed.read(_CHUNK), b"")
