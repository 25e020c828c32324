"""One run of a project's storlet in this process, so that a debugger works.

The storlet gets the files and the logger that it gets in a sandbox, and its errors have the same
codes and texts.  Limits and isolation are those of a sandbox only: there are none here.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import shlex
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from storlet_client.builder import native, rights
from storlet_client.builder.project import SOURCE, Project, ProjectError
from storlet_client.bundle import archive, languages, manifest
from storlet_client.bundle.languages import Form
from storlet_client.local import author, program
from storlet_client.local.author import (
    account_secrets,
    failure_text,
    offer,
    output_metadata,
    seekable,
)

OK, FAILED, LOAD = "ok", "storlet.failed", "storlet.load"
METADATA_LIMIT = "storlet.limit.metadata"
#: The limits of a sandbox by default, in bytes.
_METADATA_BYTES, _LOG_BYTES = 4096, 1 << 20
_DETAIL_CHARACTERS = 4096
_OUR_FOLDER = str(Path(__file__).parent) + os.sep


@dataclass(frozen=True)
class Input:
    """A file, and the user metadata of the object that it stands for."""

    path: Path
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """The result of a run.

    :param code: ``ok``, or the error code that a cluster would answer.
    :param metadata: of the output; ``further_metadata``: of each further one, where it is known.
    :param usage: of a run in a sandbox, as in ``X-Storlet-Usage``.
    """

    code: str
    message: str = ""
    traceback: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    log: str = ""
    usage: str = ""
    further_metadata: Sequence[Mapping[str, str]] = ()

    @property
    def is_ok(self) -> bool:
        return self.code == OK


def run(
    project: Project,
    inputs: Sequence[Input],
    output: int,
    parameters: Mapping[str, str],
    further: Sequence[Path] = (),
    secrets: Mapping[str, bytes] | None = None,
) -> Outcome:
    """Run the storlet, and write its output to a descriptor that this call closes in any case.

    :param further: files for the further outputs.
    :param secrets: those of the run; none if it is not given.
    :raises OSError: an input cannot be opened.
    :raises ProjectError: the project is of another language, a parameter does not fit, or the
        number of inputs or outputs is not one of the manifest.
    """
    document = project.document
    if languages.form_of(document) is Form.FILES:
        return _run_program(project, inputs, output, parameters, further, secrets or {})
    metadata = _Metadata(1 + len(further))
    with ExitStack() as opened:
        targets: list[author.StorletOutputFile] = []
        for number in range(1 + len(further)):
            fd = _created(further[number - 1]) if number else output
            accept = functools.partial(metadata.accept, number)
            target = author.StorletOutputFile(fd, _METADATA_BYTES, accept)
            opened.callback(target.abandon)
            targets.append(target)
        if languages.form_of(document) is Form.JARS:
            language = document["language"]
            raise ProjectError([f"{language} runs in a JVM only: use storlet run or storlet test"])
        values = checked(document, len(inputs), parameters, len(targets))
        opened.enter_context(_importing(project))
        log = opened.enter_context(tempfile.TemporaryFile())
        storlet_class, failure = _load(document)
        if failure is not None:
            return failure
        sources = []
        for each in inputs:
            source = _source(document, each)
            opened.callback(source.close)
            sources.append(source)
        writer = author.LogFile(log.fileno(), _LOG_BYTES)
        opened.callback(writer.end)
        values["storlet_execution_path"] = str(project.folder / SOURCE)
        account_secrets.begin(secrets or {})
        opened.callback(account_secrets.end)
        try:
            logger = author.StorletLogger(document["main"], writer)
            storlet_class(logger)(sources, list(targets), values)
            for target in targets:
                target.close()
            failed = Outcome(OK)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a storlet may raise anything
            _end_if_quit(error)
            failed = _failure(_code_of(error), error)
        if metadata.refusal is not None:
            failed = _refused(metadata.refusal)
        log.seek(0)
        text = log.read().decode("utf-8", "replace")
    return Outcome(
        failed.code, failed.message, failed.traceback, metadata.texts[0], text,
        further_metadata=metadata.texts[1:],
    )  # fmt: skip


class _MetadataRefused(Exception):
    """A cluster refuses this metadata."""


class _Metadata:
    """The metadata of each output; after metadata that is refused, nothing is accepted."""

    def __init__(self, outputs: int) -> None:
        self.texts: list[dict[str, str]] = [{} for _ in range(outputs)]
        self.refusal: _MetadataRefused | None = None

    def accept(self, number: int, texts: Mapping[str, str]) -> None:
        """Take the metadata that the storlet sets for an output, or raise.

        In a cluster such a run fails whether or not its storlet catches an exception.  So an
        output, which sets empty metadata before its first byte, fails, too.
        """
        fault = output_metadata.fault_of(texts)
        if fault:
            self.refusal = _MetadataRefused(fault)
        if self.refusal is not None:
            raise self.refusal
        self.texts[number].update(texts)


def _refused(refusal: _MetadataRefused) -> Outcome:
    """The outcome as in a cluster, with the place in the source."""
    return Outcome(FAILED, str(refusal), failure_text.traceback_text(refusal, _OUR_FOLDER))


def _run_program(
    project: Project,
    inputs: Sequence[Input],
    output: int,
    parameters: Mapping[str, str],
    further: Sequence[Path],
    secrets: Mapping[str, bytes],
) -> Outcome:
    """Build a native project, and run its program."""
    document = project.document
    with ExitStack() as opened:
        targets = [opened.enter_context(os.fdopen(output, "wb"))]
        values = checked(document, len(inputs), parameters, 1 + len(further))
        targets += [opened.enter_context(os.fdopen(_created(each), "wb")) for each in further]
        path = project.folder / SOURCE / document["main"]
        # The code of a bundle is there already.
        if not path.is_file():
            user = rights.user_of(project.folder)
            rights.with_rights_of(user, lambda: _built(project.folder, document))
            paths = {Path(each).name: each for each in document["files"]}
            path = project.folder / paths[document["main"]]
        values["storlet_execution_path"] = str(path.parent)
        files = [(each.path, each.metadata) for each in inputs]
        try:
            fds = [target.fileno() for target in targets]
            words = document.get("arguments", ())
            ended = program.run(path.resolve(), words, files, fds, values, secrets)
        except OSError as error:
            if error.filename not in (None, str(path.resolve())):
                raise
            return Outcome(LOAD, f"{path.name} cannot be started: {error.strerror}")
    if ended.fault:
        return Outcome(FAILED, ended.fault, ended.log[-_DETAIL_CHARACTERS:], log=ended.log)
    return _with_metadata(ended)


def _built(folder: Path, document: Mapping[str, Any]) -> str:
    """Run the build of a native project; its files stay where it writes them."""
    native.build(folder, document)
    return ""


def _with_metadata(ended: program.Ended) -> Outcome:
    """The success of a program, unless its metadata is wrong."""
    if len(ended.metadata) > _METADATA_BYTES:
        text = f"the metadata has {len(ended.metadata)} bytes, more than {_METADATA_BYTES}"
        return Outcome(METADATA_LIMIT, text, log=ended.log)
    try:
        metadata = json.loads(ended.metadata or b"{}")
    except ValueError as error:
        return Outcome(FAILED, f"the metadata is not a JSON object: {error}", log=ended.log)
    if not isinstance(metadata, dict):
        return Outcome(FAILED, "the metadata is not a JSON object: another value", log=ended.log)
    texts = {
        key: value if isinstance(value, str) else json.dumps(value)
        for key, value in metadata.items()
        if value is not None
    }
    fault = output_metadata.fault_of(texts)
    if fault:
        return Outcome(FAILED, fault, log=ended.log)
    return Outcome(OK, metadata=texts, log=ended.log)


def checked(
    document: Mapping[str, Any], count: int, parameters: Mapping[str, str], outputs: int = 1
) -> dict[str, str]:
    """The parameters of a run with defaults.

    :raises ProjectError: a parameter does not fit, or the number of inputs or outputs.
    """
    if languages.form_of(document) is Form.FILES and ":" in document["main"]:
        wanted = "a shared object runs in a sandbox only: leave out --no-sandbox"
        raise ProjectError([f"{wanted}, and install swift-storlets here if it is missing"])
    values, faults = manifest.parameters_of_run(document.get("parameters", {}), parameters)
    faults += manifest.faults_of_count(manifest.input_counts(document), count)
    faults += manifest.faults_of_count(manifest.output_counts(document), outputs, "outputs")
    if faults:
        raise ProjectError(faults)
    return values


def _source(document: Mapping[str, Any], given: Input) -> author.StorletInputFile:
    fd = _opened(given.path)
    if "input" not in document:
        return author.StorletInputFile(given.metadata, fd)
    return seekable.SeekableFile(given.metadata, fd, os.fstat(fd).st_size)


def _opened(path: Path) -> int:
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC)


def _created(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)


@contextmanager
def _importing(project: Project) -> Iterator[None]:
    """The project's source comes first on the import path; its modules are forgotten afterwards.

    The source of a bundle has its libraries, too.
    """
    source = str((project.folder / SOURCE).resolve())
    before, path, bytecode = set(sys.modules), list(sys.path), sys.dont_write_bytecode
    sys.path[:0] = [source, str(Path(source, archive.LIBRARY))]
    sys.dont_write_bytecode = True
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path[:], sys.dont_write_bytecode = path, bytecode
        for name in set(sys.modules) - before:
            file = getattr(sys.modules[name], "__file__", None) or ""
            if file.startswith(source + os.sep) or name in offer.NAMES:
                del sys.modules[name]


def _load(document: Mapping[str, Any]) -> tuple[Any, Outcome | None]:
    """The class of the storlet, or why it cannot be loaded."""
    module_name, _, class_name = document["main"].rpartition(".")
    offer.offer()
    try:
        found = getattr(importlib.import_module(module_name), class_name, None)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a module may raise anything
        _end_if_quit(error)
        failure = _failure(LOAD, error)
        wanted = document.get("requirements")
        if wanted and isinstance(error, ModuleNotFoundError):
            text = (
                f"{failure.message}; without a sandbox, libraries are those of this Python:"
                f" pip install {shlex.join(wanted)}"
            )
            failure = replace(failure, message=text)
        return None, failure
    if not callable(found):
        return None, Outcome(LOAD, f"LoadError: module {module_name} has no class {class_name}")
    return found, None


def _end_if_quit(error: BaseException) -> None:
    """Raise ``KeyboardInterrupt`` if the user quits the debugger: that is no failure."""
    debugger = sys.modules.get("bdb")
    if debugger is not None and isinstance(error, debugger.BdbQuit):
        raise KeyboardInterrupt from None


def _code_of(error: BaseException) -> str:
    return METADATA_LIMIT if isinstance(error, author.MetadataTooLargeError) else FAILED


def _failure(code: str, error: BaseException) -> Outcome:
    if failure_text.hides_traceback(error):
        return Outcome(code, failure_text.summary(error))
    traceback = failure_text.traceback_text(error, _OUR_FOLDER)
    return Outcome(code, failure_text.summary(error), traceback)
