"""One run of a Java storlet in a JVM of its own here, so that a debugger can be attached.

The storlet gets the authors' API, which is compiled from its source.  There is no isolation, and no
limit but that of the metadata.
"""

from __future__ import annotations

import base64
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Callable

from storlet_client.builder import jars
from storlet_client.builder.project import SOURCE, Project
from storlet_client.local.author import output_metadata
from storlet_client.local.run import FAILED, Input, Outcome, checked

_CLASS = "org.openstack.storlet.local.LocalRun"
_SOURCES = Path(__file__).parent / "java"
_METADATA, _FURTHER = "metadata.", "further."

Tell = Callable[[str], object]


def run(  # noqa: PLR0913, PLR0917  the parts of a run
    project: Project,
    inputs: Sequence[Input],
    output: int,
    parameters: Mapping[str, str],
    tell: Tell | None = None,
    further: Sequence[Path] = (),
    secrets: Mapping[str, bytes] | None = None,
) -> Outcome:
    """Run the storlet, whose jars are below ``src/``; its output goes to a descriptor.

    :param further: files for the further outputs.
    :param secrets: those of the run; none if it is not given.
    :param tell: if given, the JVM waits for a debugger, and this is called with its address.
    :raises ProjectError: a parameter does not fit, or a program is missing.
    """
    values = checked(project.document, len(inputs), parameters, 1 + len(further))
    code = project.folder / SOURCE
    values["storlet_execution_path"] = str(code)
    with TemporaryDirectory() as folder:
        work = Path(folder)
        path = os.pathsep.join([*jars.runtime(work, _SOURCES), f"{code}/*"])
        asked, ended, log = work / "asked", work / "ended", work / "log"
        packed = _packed(project.document, inputs, further, values, log)
        asked.write_bytes(packed + _secrets(secrets or {}))
        command = ["java", *_debugger(tell), "-cp", path, _CLASS, str(asked), str(ended)]
        status = _execute(command, output)
        text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
        if not ended.exists():
            message = f"the storlet ended its process (exit status {status})"
            return Outcome(FAILED, message, log=text)
        return _outcome(ended.read_bytes(), text, len(further))


def _execute(command: Sequence[str], output: int) -> int:
    """The exit status of the JVM; standard error gets the text that the storlet prints.

    It is ``sys.stderr`` of this process, which can put the text above a line with progress.
    """
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.PIPE
    ) as jvm:
        try:
            for line in jvm.stderr or ():
                sys.stderr.write(line.decode("utf-8", "replace"))
        except BaseException:
            jvm.kill()
            raise
    return jvm.returncode


def _debugger(tell: Tell | None) -> list[str]:
    """The options of the JVM: it waits for a debugger on a port of this machine only."""
    if tell is None:
        return []
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    tell(address)
    return [f"-agentlib:jdwp=transport=dt_socket,server=y,suspend=y,quiet=y,address={address}"]


def _packed(
    document: Mapping[str, Any],
    inputs: Sequence[Input],
    further: Sequence[Path],
    parameters: Mapping[str, str],
    log: Path,
) -> bytes:
    """The request: pairs of texts, each ended by a zero byte."""
    pairs = {"main": document["main"], "log": str(log)}
    if "input" in document:
        pairs["seekable"] = "true"
    for number, each in enumerate(inputs):
        pairs[f"input.{number}"] = str(each.path.resolve())
        pairs.update({f"{_METADATA}{number}.{key}": text for key, text in each.metadata.items()})
    pairs.update({f"output.{n}": str(path.resolve()) for n, path in enumerate(further, 1)})
    pairs.update({f"parameter.{key}": text for key, text in parameters.items()})
    return "".join(f"{key}\0{text}\0" for key, text in pairs.items()).encode()


def _secrets(values: Mapping[str, bytes]) -> bytes:
    """Pairs with the values in base64."""
    pairs = ((name.encode(), base64.b64encode(value)) for name, value in values.items())
    return b"".join(b"secret.%s\0%s\0" % pair for pair in pairs)


def _outcome(packed: bytes, log: str, further: int) -> Outcome:
    pairs = dict(_pairs(packed))
    metadata = _below(pairs, _METADATA)
    others = [_below(pairs, f"{_FURTHER}{n}.") for n in range(1, further + 1)]
    for each in (metadata, *others):
        fault = output_metadata.fault_of(each)
        if fault:
            return Outcome(FAILED, fault, log=log)
    message, traceback = pairs.get("message", ""), pairs.get("traceback", "")
    code = pairs["code"]
    return Outcome(code, message, traceback, metadata, log, further_metadata=others)


def _below(pairs: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {key[len(prefix) :]: text for key, text in pairs.items() if key.startswith(prefix)}


def _pairs(packed: bytes) -> Iterator[tuple[str, str]]:
    texts = packed.decode("utf-8", "replace").split("\0")
    return zip(texts[::2], texts[1::2])
