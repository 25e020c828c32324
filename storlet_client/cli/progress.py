"""Progress on a terminal, and files that appear only when they are complete.

There is one display, on standard error if that is a terminal and ``-v`` does not print there.  It
has a line for each task that is under way: bytes, rate and time left, or the time so far if the end
is unknown.

Code of an author that runs in this process shares the terminal: its text appears above the lines,
and the display ends when a debugger or another prompt begins.
"""

from __future__ import annotations

import errno
import functools
import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from threading import Timer
from typing import BinaryIO, Union
from urllib.parse import urlsplit

import click
from rich.console import Console, RenderableType
from rich.file_proxy import FileProxy
from rich.progress import (
    BarColumn,
    DownloadColumn,
    FileSizeColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.table import Column
from rich.text import Text
from rich.theme import Theme

from storlet_client.builder import rights
from storlet_client.builder.files import replacement
from storlet_client.bundle import languages
from storlet_client.bundle.languages import Form
from storlet_client.cli.output import in_line
from storlet_client.content import FileContent
from storlet_client.exchange import Answer, Body, Call, Pause, Sent
from storlet_client.local.subject import Subject
from storlet_client.transport import PART_BYTES, Event, is_parted

#: Its name in errors.
STANDARD_OUTPUT = "standard output"
#: Called with a number of further bytes.
Count = Callable[[int], object]
#: The number of bytes so far.
Size = Callable[[], int]
_Fact = Union[
    DownloadColumn, FileSizeColumn, TransferSpeedColumn, TimeRemainingColumn, TimeElapsedColumn
]
#: The longest silence after a call whose answer is due at once.
_SLOW_SECONDS = 3.0
#: Audit events of Python before it reads from the terminal.
_PROMPTS = frozenset(("builtins.breakpoint", "builtins.input", "pdb.Pdb"))
#: Characters of a line beside its text: a short bar, bytes, rate and time; and the least of a text.
_OTHER_COLUMNS, _LEAST_TEXT = 50, 20
#: A rate in red would look like an error.
_THEME = Theme({"progress.data.speed": "cyan"})


# --- the display ----------------------------------------------------------------------------------


class _Facts(ProgressColumn):
    """Bytes, rate and time left of a task; or the time so far."""

    def __init__(self) -> None:
        super().__init__(Column(no_wrap=True))
        self._known = (DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
        self._unknown = (FileSizeColumn(), TransferSpeedColumn(), TimeElapsedColumn())
        self._uncounted = (TimeElapsedColumn(),)

    def render(self, task: Task) -> Text:
        columns: Sequence[_Fact] = self._uncounted
        if task.fields["is_counted"]:
            columns = self._unknown if task.total is None else self._known
        texts = [column.render(task) for column in columns]
        # A rate is unknown at first.
        return Text(" ").join(text for text in texts if text.plain != "?")


class _Display(Progress):
    """The lines on the terminal.

    :param has_clock: a thread refreshes them; without it they are drawn once.
    :param is_shared: text that other code of this process prints appears above them.
    """

    def __init__(self, *, has_clock: bool, is_shared: bool) -> None:
        self._sizes: dict[TaskID, Size] = {}
        super().__init__(
            TextColumn("{task.description}", markup=False), BarColumn(), _Facts(),
            console=Console(stderr=True, theme=_THEME), auto_refresh=has_clock, transient=True,
            # Standard output may be a file, which gets its text as it is.
            redirect_stdout=is_shared and sys.stdout.isatty(), redirect_stderr=is_shared,
        )  # fmt: skip

    def stop(self) -> None:
        # They live as long as the display: input() continues with those that it began with, to
        # which it has no references.
        self._redirected = (sys.stdout, sys.stderr)
        for stream in self._redirected:
            if isinstance(stream, FileProxy):
                stream.flush()  # a line without its end would be lost
        super().stop()

    def begin(self, text: str, total: int | None, size: Size | None, *, is_counted: bool) -> TaskID:
        line = _shortened(in_line(text), self.console.width - _OTHER_COLUMNS)
        task = self.add_task(line, total=total, is_counted=is_counted)
        if size is not None:
            self._sizes[task] = size
        return task

    def end(self, task: TaskID) -> None:
        with self._lock:
            self._sizes.pop(task, None)
            self.remove_task(task)

    def get_renderables(self) -> Iterable[RenderableType]:
        with self._lock:
            for task, size in self._sizes.items():
                self.update(task, completed=size())
        return super().get_renderables()


def _shortened(text: str, most: int) -> str:
    """A text of at most ``most`` characters, or of the fewest that say something."""
    half = max(most, _LEAST_TEXT) // 2
    return text if len(text) <= 2 * half else f"{text[: half - 1]}…{text[-half:]}"


#: The display that is on the terminal, if any.
_shown: list[_Display] = []
#: The calls whose answer is due at once.
_waits: list[Timer] = []


@contextmanager
def ended() -> Iterator[None]:
    """End the display, and what may still be said of calls, with the block.

    A loop that an exception leaves keeps its iterators.
    """
    try:
        yield
    finally:
        _end()


def _end() -> None:
    while _waits:
        _waits.pop().cancel()
    while _shown:
        _shown.pop().stop()


@functools.cache
def _end_at_prompts() -> None:
    """End the display, from now on, before code of this process reads from the terminal."""

    def end_at(event: str, _arguments: object) -> None:
        if event in _PROMPTS:
            _end()

    sys.addaudithook(end_at)


@contextmanager
def _task(
    text: str,
    total: int | None = None,
    size: Size | None = None,
    *,
    is_counted: bool,
    has_clock: bool = True,
    is_shared: bool = False,
) -> Iterator[Count]:
    """A line of the display during the block, which counts bytes."""
    # A debugger that steps through the block has the terminal already.
    if not _has_terminal() or (is_shared and sys.gettrace() is not None):
        yield lambda _count: None
        return
    if is_shared:
        _end_at_prompts()
    outer = _shown[0] if _shown else None
    display = outer or _Display(has_clock=has_clock, is_shared=is_shared)
    task = display.begin(text, total, size, is_counted=is_counted)
    if outer is None:
        _shown.append(display)
        display.start()
    try:
        yield lambda count: display.advance(task, count)
    finally:
        if outer is not None:
            display.end(task)
        elif display in _shown:
            _shown.remove(display)
            display.stop()


def _has_terminal() -> bool:
    """Whether a display can be shown: standard error is a terminal, which nothing else uses."""
    context = click.get_current_context(silent=True)
    options = context.find_root().obj if context is not None else None
    return sys.stderr.isatty() and not getattr(options, "is_verbose", False)


def _is_mixed(output: str) -> bool:
    """Whether the file ``output`` would be on the terminal with the display."""
    return output == "-" and sys.stdout.isatty()


def watched(
    chunks: Iterable[bytes], text: str, total: int | None, output: str = ""
) -> Iterator[bytes]:
    """``chunks``; a terminal on standard error shows bytes, rate and time left.

    :param total: bytes in all, if they are known.
    :param output: the file that gets them; on a terminal it would mix with the progress.
    """
    if _is_mixed(output):
        yield from chunks
        return
    with _task(text, total, is_counted=True) as count:
        for chunk in chunks:
            yield chunk
            count(len(chunk))


@contextmanager
def working(
    text: str,
    output: str = "",
    size: Size | None = None,
    *,
    has_clock: bool = True,
    is_shared: bool = False,
) -> Iterator[None]:
    """The time so far, on a terminal, during the block.

    :param output: as of :func:`watched`.
    :param size: gives bytes, which are shown with their rate.
    :param has_clock: False if the block forks: the clock is a thread.
    :param is_shared: the block runs code of an author, which may print or begin a debugger.
    """
    if _is_mixed(output):
        yield
        return
    with _task(
        text, None, size, is_counted=size is not None, has_clock=has_clock, is_shared=is_shared
    ):
        yield


def growth(file: BinaryIO) -> Size | None:
    """The bytes by which a regular file grows from now on; ``None`` for another kind of file."""
    before, number = size_of(file), file.fileno()
    return None if before is None else lambda: os.fstat(number).st_size - before


@contextmanager
def building(folder: Path) -> Iterator[None]:
    """The block builds the project in ``folder``."""
    with working(f"build {folder}", has_clock=not _is_forked(folder)):
        yield


def _is_forked(folder: Path) -> bool:
    """Whether the build of a project is a fork: with the rights of another user it is."""
    return folder.is_dir() and rights.user_of(folder) is not None


@contextmanager
def running(subject: Subject, path: str, output: BinaryIO, *, is_here: bool) -> Iterator[None]:
    """The block runs a storlet, whose output goes to the open file ``output``.

    :param path: the name of that file; see ``output`` of :func:`watched`.
    :param is_here: the storlet runs without a sandbox, in this process or in a child of it.
    """
    # The run of a native project includes its build.
    is_build = is_here and languages.form_of(subject.document) is Form.FILES
    has_clock = not (is_build and _is_forked(subject.path))
    text = f"run {subject.document['name']}"
    with working(text, path, growth(output), has_clock=has_clock, is_shared=is_here):
        yield


@contextmanager
def bundle_of(subject: Subject) -> Iterator[Path]:
    """The bundle of a subject, which exists during the block."""
    if subject.is_bundle:
        yield subject.path
        return
    with ExitStack() as opened:
        with building(subject.path):
            bundle = opened.enter_context(subject.as_bundle())
        yield bundle


# --- requests -------------------------------------------------------------------------------------


class FileBody:
    """The content of an open file as the body of a request, which is sent once.

    :param first: the bytes that were read already.
    :ivar size: bytes in all, if they are known.
    """

    def __init__(self, first: bytes, file: BinaryIO) -> None:
        self.size = size_of(file)
        self._first = first
        self._file = file

    def __iter__(self) -> Iterator[bytes]:
        for begin in range(0, len(self._first), PART_BYTES):
            yield self._first[begin : begin + PART_BYTES]
        yield from chunks_of(self._file)


class CallProgress:
    """Shows the bytes of a call's body as they are sent, and the time until its answer.

    A call that is answered at once is not shown, unless the answer stays away for some seconds.
    """

    def __init__(self) -> None:
        self._display = ExitStack()
        self._count: Count = lambda _count: None
        #: Bytes that are not yet sent, if they are known.
        self._left: int | None = None

    def __call__(self, call: Call, event: Event) -> None:
        if isinstance(event, Sent):
            self._sent(call, event.size)
            return
        self._display.close()
        if isinstance(event, Pause):
            self._show(working(f"{event.reason}: repeat in {event.seconds:g} s"))
        elif isinstance(event, Answer):
            return
        elif call.is_quick:
            self._display.enter_context(_told_if_slow(call))
        else:
            self._begin(call)

    def _begin(self, call: Call) -> None:
        if not is_parted(call.body):
            self._show(working(_text(call)))
            return
        self._left = _length(call.body)
        line = _task(_text(call), self._left, is_counted=True)
        self._count = self._display.enter_context(line)

    def _sent(self, call: Call, size: int) -> None:
        self._count(size)
        if self._left is not None:
            self._left -= size
            if self._left <= 0:
                self._display.close()
                self._show(working(f"{_text(call)}: waiting for the answer"))

    def _show(self, line: AbstractContextManager[None]) -> None:
        self._count, self._left = lambda _count: None, None
        self._display.enter_context(line)


@contextmanager
def _told_if_slow(call: Call) -> Iterator[None]:
    """Say on a terminal, after some seconds, that the block waits for a server."""
    if not _has_terminal():
        yield
        return
    host = urlsplit(call.url).netloc.rpartition("@")[2]
    wait = Timer(_SLOW_SECONDS, _say, (f"waiting for {in_line(host)}: no answer yet",))
    wait.daemon = True
    _waits.append(wait)
    wait.start()
    try:
        yield
    finally:
        wait.cancel()
        if wait in _waits:
            _waits.remove(wait)


def _say(text: str) -> None:
    """Print a line, above the display if there is one."""
    line = f"storlet: {text}"
    for display in _shown:
        display.console.print(Text(line))
        return
    click.echo(line, err=True)


def _length(body: Body) -> int | None:
    """The bytes of a body, if they are known."""
    if isinstance(body, bytes):
        return len(body)
    return body.size if isinstance(body, (FileBody, FileContent)) else None


def _text(call: Call) -> str:
    """The line of a call."""
    doing = call.headers.get("X-Run-Storlet") or ("upload" if call.method == "PUT" else call.method)
    return f"{doing} {'/'.join(call.path) or 'account'}"


# --- files ----------------------------------------------------------------------------------------


def size_of(file: BinaryIO) -> int | None:
    """The bytes of an open regular file; of a pipe, they are unknown."""
    facts = os.fstat(file.fileno())
    return facts.st_size if stat.S_ISREG(facts.st_mode) else None


def chunks_of(file: BinaryIO, size: int = 1 << 18) -> Iterator[bytes]:
    """The content of an open file."""
    while True:
        chunk = file.read(size)
        if not chunk:
            return
        yield chunk


@contextmanager
def written(path: str) -> Iterator[BinaryIO]:
    """A file to write, which replaces ``path`` if the block succeeds; ``-`` is standard output."""
    try:
        with _opened(path) as file:
            yield file
    except OSError as error:
        if error.filename is None:  # of a write
            error.filename = path if path != "-" else STANDARD_OUTPUT
        raise


@contextmanager
def _opened(path: str) -> Iterator[BinaryIO]:
    if path == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    if path.endswith(os.sep):  # which a Path leaves out
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    place = Path(path)
    if place.exists() and not place.is_file():
        # A device or a pipe cannot be replaced.
        with place.open("wb") as file:
            yield file
        return
    with replacement(place) as file:
        yield file
