"""The inputs, the outputs, the log and the services of one run."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from storlet_daemon import author, kernel
from storlet_daemon.author import seekable
from storlet_daemon.protocol import messages
from storlet_daemon.protocol.descriptors import Descriptors
from storlet_daemon.worker.process_state import FileId, file_of, files_in, has_children

if TYPE_CHECKING:
    from storlet_daemon.worker.services import ServiceChannel

METADATA_MAX = messages.MESSAGE_MAX - 1024
"""Bytes of metadata that fit into a message, beside everything else of it."""

SCANS_MAX = 100
"""Scans for child processes that still hold an output.

If no two scans in a row agree, because processes come and go too quickly, one is assumed to.
"""


class StillWritingError(Exception):
    """A process that the storlet started outlives the run and can still write to an output."""


class InputError(Exception):
    """A descriptor does not support what the message requests of it."""


class Streams:
    """The files of one run. All but the log are closed in any case.

    The log's descriptor stays with those of the message, whose owner closes it after the run has
    been cleaned up. ``send_metadata`` gets the number of an output, and its metadata.
    """

    def __init__(
        self,
        invoke: messages.Invoke,
        descriptors: Descriptors,
        send_metadata: Callable[[int, Mapping[str, str]], None],
    ) -> None:
        self.invoke = invoke
        self.log: author.LogFile | None = None
        self.services: ServiceChannel | None = None
        self._descriptors = descriptors
        self._send_metadata = send_metadata
        self._inputs: list[author.StorletInputFile] = []
        self._outputs: list[author.StorletOutputFile] = []
        self._output_fds = Descriptors()
        self._donated: set[FileId] = set()
        self._output_files: set[FileId] = set()
        # The storlet's own lists: it may change them, and everything is closed all the same.
        self.inputs: list[author.StorletInputFile] = []
        self.outputs: list[author.StorletOutputFile] = []

    def open(self) -> None:
        """Make the author's files from the descriptors."""
        invoke = self.invoke
        given = self._descriptors.filenos()
        if invoke.log is not None:
            self.log = author.LogFile(given[invoke.log.fd], invoke.log.limit)
        files = [file_of(os.fstat(fd)) for fd in given]
        self._donated.update(files)
        if invoke.services is not None:
            # Few storlets have services, and the modules are large.
            from storlet_daemon.worker.services import ServiceChannel  # noqa: PLC0415

            fd = self._descriptors.take(invoke.services.fd)
            self.services = ServiceChannel(fd, invoke.services.operations)
        metadata_max = min(invoke.limits.metadata_bytes or METADATA_MAX, METADATA_MAX)
        for number, each in enumerate(invoke.outputs):
            output = self._descriptors.take(each.fd)
            self._output_fds.add(output)
            self._output_files.add(files[each.fd])
            send = functools.partial(self._send_metadata, number)
            file = author.StorletOutputFile(output, metadata_max, send, closefd=False)
            self._outputs.append(file)
        for number, wanted_input in enumerate(invoke.inputs):
            try:
                self._inputs.append(_open_input(wanted_input, self._descriptors))
            except OSError as error:
                wanted = "the requested range" if wanted_input.seekable is None else "seeks"
                reason = f"inputs[{number}] does not support {wanted}: {error.strerror}"
                raise InputError(reason) from None
        self.inputs = list(self._inputs)
        self.outputs = list(self._outputs)

    def finish(self) -> None:
        """After a run that returned: flush and close the outputs. An error fails the run."""
        for one in self._outputs:
            one.close()
        if has_children() and self._is_output_held():
            # Bytes written from now on would be missing from a result that looks complete.
            raise StillWritingError(
                "a process that the storlet started still holds its output: wait for its end first"
            )

    def _is_output_held(self) -> bool:
        """True if a process that the storlet started has an output open.

        A process may fork and exit during a scan, which then misses the copy. Only two equal scans
        in a row are conclusive.
        """
        before: set[int] | None = None
        for _ in range(SCANS_MAX):
            found = set(kernel.strays(os.getpid(), ()))
            if any(self._is_output_held_by(pid) for pid in found):
                return True
            if found == before:
                return False
            before = found
        return True

    def _is_output_held_by(self, pid: int) -> bool:
        """True if another process has an output open, or cannot be inspected."""
        try:
            return not self._output_files.isdisjoint(files_in(f"/proc/{pid}/fd"))
        except FileNotFoundError:
            return False
        except OSError:
            return True

    @property
    def bytes_read(self) -> int | None:
        """Bytes that were read from files in which the storlet can seek; None without any."""
        files = [one for one in self._inputs if isinstance(one, seekable.SeekableFile)]
        return sum(one.bytes_read for one in files) if files else None

    @property
    def donated(self) -> set[FileId]:
        """Every file of this run."""
        return self._donated

    def abandon(self) -> None:
        """Close everything without flushing the outputs."""
        # Not with suppress(): three calls each, while the filter waits for the end of the run.
        for output in self._outputs:
            try:  # noqa: SIM105
                output.abandon()
            except OSError:
                pass
        for one in self._inputs:
            try:  # noqa: SIM105
                one.close()
            except OSError:
                pass
        if self.services is not None:
            self.services.close()

    def end_outputs(self) -> None:
        """Close the descriptors of the outputs, after ``done`` was sent.

        The filter waits for the end of the output, and finds ``done`` when it has that.  In the
        other order it would wake, and preempt this process, for each of the two.
        """
        self._output_fds.close()


def _open_input(given: messages.Input, descriptors: Descriptors) -> author.StorletInputFile:
    fd = descriptors.take(given.fd)
    if given.seekable == messages.SEEK_READS:
        return seekable.SeekableReads(given.metadata, fd, given.size or 0)
    if given.start is None and given.end is None and given.seekable is None:
        return author.StorletInputFile(given.metadata, fd)
    try:
        if given.seekable is not None:
            return seekable.SeekableFile(given.metadata, fd, given.size or 0)
        return author.StorletRangeInputFile(given.metadata, fd, given.start or 0, given.end)
    except OSError:
        os.close(fd)
        raise
