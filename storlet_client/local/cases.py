"""The cases of ``storlet.toml``: input and parameters, and the output, metadata or error that is
expected of them.

Without a sandbox each case runs in a process of its own: a storlet that ends its process or leaves
something behind fails its own case only.  In a sandbox the cases run one after the other as the
invocations of a cluster do: a worker serves several, and is replaced when it ends.
"""

from __future__ import annotations

import contextlib
import difflib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol
from xml.etree import ElementTree as ET

from storlet_client.builder.project import Project, ProjectError
from storlet_client.bundle import manifest
from storlet_client.local import subject as subjects
from storlet_client.local.here import run_here
from storlet_client.local.run import Input, Outcome
from storlet_client.local.sandbox import LocalNode

#: Seconds that a case may take in a process of its own; a sandbox has its own deadlines.
SECONDS = 60.0
#: Lines of a difference that are shown, and the most characters of one.
_MOST_LINES = 60
_MOST_CHARACTERS = 2000


@dataclass(frozen=True)
class Result:
    """The result of one case.

    :param faults: differences from the expectation; empty if the case passed.
    """

    name: str
    seconds: float
    faults: tuple[str, ...]
    log: str = ""


@dataclass(frozen=True)
class Ran:
    """A case that was run.

    :param outcome: ``None`` if the process ended without one; ``ended`` says how.
    :param outputs: those for which the case has a file, from the first one on.
    """

    outcome: Outcome | None
    outputs: tuple[bytes, ...] = ()
    ended: str = ""


class Runner(Protocol):
    """Runs cases of one project."""

    def run(self, case: Mapping[str, Any]) -> Ran:
        """Run one case."""


def results(project: Project, selected: str, runner: Runner) -> Iterator[Result]:
    """Run the cases whose name contains ``selected``, one after the other.

    :raises ProjectError: there are none, or a file of one is missing.
    """
    known = project.document.get("tests", [])
    chosen = [case for case in known if selected in case["name"]]
    faults = [
        f"tests: {case['name']}: there is no file {file}"
        for case in chosen
        for file in (*manifest.inputs_of(case), *manifest.outputs_of(case))
        if not (project.folder / file).is_file()
    ]
    if not known:
        faults = ["tests: there is no case: add a table [[tests]] with name, input and output"]
    elif not chosen:
        names = ", ".join(case["name"] for case in known)
        faults = [f"tests: no name contains {selected!r}: there are {names}"]
    if faults:
        raise ProjectError(faults)
    for case in chosen:
        yield _result(project, case, runner)


def junit(found: list[Result], name: str) -> bytes:
    """The results as JUnit's XML."""
    failed = sum(bool(each.faults) for each in found)
    suite = ET.Element(
        "testsuite", name=name, tests=str(len(found)), failures=str(failed), errors="0"
    )
    for each in found:
        seconds = f"{each.seconds:.3f}"
        case = ET.SubElement(suite, "testcase", classname=name, name=each.name, time=seconds)
        if each.faults:
            failure = ET.SubElement(case, "failure", message=_xml(each.faults[0]))
            failure.text = _xml("\n".join(each.faults))
        if each.log:
            ET.SubElement(case, "system-out").text = _xml(each.log)
    return bytes(ET.tostring(suite, encoding="utf-8", xml_declaration=True))


def _xml(text: str) -> str:
    """``text`` without the characters that XML cannot have."""
    return "".join(
        char if char.isprintable() or char in "\n\t" else repr(char)[1:-1] for char in text
    )


# --- one case -------------------------------------------------------------------------------------


def _result(project: Project, case: Mapping[str, Any], runner: Runner) -> Result:
    began = time.monotonic()
    ran = runner.run(case)
    seconds = time.monotonic() - began
    if ran.outcome is None:
        return Result(case["name"], seconds, (ran.ended,))
    faults = tuple(_faults(project.folder, case, ran.outcome, ran.outputs))
    return Result(case["name"], seconds, faults, ran.outcome.log)


def _parameters(case: Mapping[str, Any]) -> dict[str, str]:
    return {key: manifest.text_of(value) for key, value in case.get("parameters", {}).items()}


class InSandbox:
    """Runs cases in a sandbox.

    :param output: the file that ``node`` writes the output of runs to.
    """

    def __init__(self, project: Project, bundle: Path, node: LocalNode, output: BinaryIO) -> None:
        self._project = project
        self._bundle = bundle
        self._node = node
        self._output = output

    def run(self, case: Mapping[str, Any]) -> Ran:
        # The node writes to the same open file, so it begins where this leaves it.
        self._output.seek(0)
        self._output.truncate()
        sources = [Input(self._project.folder / file) for file in manifest.inputs_of(case)]
        with tempfile.TemporaryDirectory() as folder:
            further = _further_files(self._project.document, case, Path(folder))
            for path in further:
                path.touch(mode=0o600)
            outcome = self._node.run(
                self._bundle, sources, _parameters(case), further=further,
                secrets=manifest.secrets_of(case),
            )  # fmt: skip
            self._output.seek(0)
            return Ran(outcome, _contents(case, self._output.read(), further))


class InProcesses:
    """Runs each case in a process of its own, without a sandbox.

    :param project: has the files of the cases.
    :param source: the project or the bundle that is run, if it is another place.
    """

    def __init__(self, project: Project, source: Path | None = None) -> None:
        self._project = project
        self._source = source or project.folder

    def run(self, case: Mapping[str, Any]) -> Ran:
        # A file that cannot be read is no failure of the storlet.
        for file in manifest.inputs_of(case):
            (self._project.folder / file).open("rb").close()
        with tempfile.TemporaryDirectory() as folder:
            output, outcome = Path(folder, "output"), Path(folder, "outcome")
            further = _further_files(self._project.document, case, Path(folder))
            ended = self._in_child(case, output, further, outcome)
            if ended:
                return Ran(None, (), ended)
            contents = _contents(case, _content(output), further)
            return Ran(Outcome(**json.loads(outcome.read_text(encoding="utf-8"))), contents)

    def _in_child(
        self, case: Mapping[str, Any], output: Path, further: list[Path], outcome: Path
    ) -> str:
        """How the process ended, if it left no outcome."""
        asked = {
            "source": str(self._source),
            "inputs": [str(self._project.folder / file) for file in manifest.inputs_of(case)],
            "parameters": _parameters(case),
            "secrets": case.get("secrets", {}),
            "output": str(output),
            "further": [str(path) for path in further],
            "outcome": str(outcome),
        }
        command = [sys.executable, "-m", "storlet_client.local.cases"]
        # A file, so that no process which the storlet leaves delays the end of the case.
        with tempfile.TemporaryFile() as said:
            # A group of its own: a case that takes too long is ended with its children.
            child = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=said, stderr=said, start_new_session=True
            )
            try:
                child.communicate(json.dumps(asked).encode(), timeout=SECONDS)
            except subprocess.TimeoutExpired:
                return f"not done after {SECONDS:.0f} s"
            finally:
                _end(child)
                said.seek(0)
                sys.stderr.write(said.read().decode("utf-8", "replace"))
        if not outcome.exists():
            return f"the storlet ended its process (exit status {child.returncode})"
        return ""


def _further_files(
    document: Mapping[str, Any], case: Mapping[str, Any], folder: Path
) -> list[Path]:
    """The files of the further outputs of a case, which do not exist."""
    count = manifest.output_count_of(document, case)
    return [folder / f"output-{number}" for number in range(1, count)]


def _contents(case: Mapping[str, Any], first: bytes, further: Sequence[Path]) -> tuple[bytes, ...]:
    """The outputs for which a case has a file."""
    named = len(manifest.outputs_of(case))
    return (first, *map(_content, further[: max(0, named - 1)]))[:named]


def _content(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


def _end(child: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def _faults(
    folder: Path, case: Mapping[str, Any], outcome: Outcome, contents: Sequence[bytes]
) -> Iterator[str]:
    expected = case.get("error", "")
    if outcome.code != (expected or "ok"):
        wanted = f"want {expected}, got " if expected else ""
        yield f"{wanted}{outcome.code}: {outcome.message}".rstrip(": ")
        if outcome.traceback:
            yield outcome.traceback.rstrip()
        return
    if not expected:
        for name, content in zip(manifest.outputs_of(case), contents):
            yield from _difference((folder / name).read_bytes(), content, name)
    for key, value in case.get("metadata", {}).items():
        got = outcome.metadata.get(key)
        if got != value:
            yield f"metadata {key}: want {value!r}, got {got!r}"


def _difference(expected: bytes, content: bytes, name: str) -> Iterator[str]:
    if expected == content:
        return
    try:
        wanted, got = (each.decode("utf-8").splitlines() for each in (expected, content))
    except UnicodeDecodeError:
        wanted, got = [], []
    lines = list(difflib.unified_diff(wanted, got, name, "output", lineterm=""))
    shown = lines[:_MOST_LINES]
    # No text, only the ends of lines differ, or a line is too long for a reader.
    if not lines or max(map(len, shown)) > _MOST_CHARACTERS:
        pairs = enumerate(zip(expected, content))
        at = next((n for n, (a, b) in pairs if a != b), min(len(expected), len(content)))
        yield (
            f"the output has {len(content):,} bytes, {name} {len(expected):,};"
            f" they differ from byte {at:,} on"
        )
        return
    yield "\n".join(shown)
    if len(lines) > _MOST_LINES:
        yield f"... {len(lines) - _MOST_LINES} more lines differ"


def _main() -> None:
    """The child: run the case that standard input describes."""
    asked = json.load(sys.stdin)
    output = os.open(asked["output"], os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    subject = subjects.read(Path(asked["source"]))
    try:
        inputs = [Input(Path(path)) for path in asked["inputs"]]
        further = [Path(path) for path in asked["further"]]
        secrets = manifest.secrets_of(asked)
        outcome = run_here(
            subject, inputs, output, asked["parameters"], further=further, secrets=secrets
        )
    except ProjectError as error:
        outcome = Outcome("bad_request", "; ".join(error.faults))
    place = Path(asked["outcome"])
    partial = place.with_suffix(".partial")
    partial.write_text(json.dumps(asdict(outcome)), encoding="utf-8")
    partial.replace(place)


if __name__ == "__main__":
    _main()
