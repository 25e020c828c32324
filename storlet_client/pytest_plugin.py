"""The pytest plugin for authors: the fixture ``storlet``.

::

    def test_lines_with_apples(storlet):
        result = storlet.run(b"one apple\\ntwo pears\\n", text="apple")
        assert result.output == b"one apple\\n"

pytest finds it by the entry point ``pytest11`` of this package's metadata.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Union

import pytest

from storlet_client.builder import project as projects
from storlet_client.builder.project import MANIFEST, Project, ProjectError
from storlet_client.bundle import manifest
from storlet_client.local.run import Input, Outcome, run

Source = Union[bytes, str, Path]


class StorletFailed(Exception):
    """The run failed.

    :param outcome: its code, message, traceback and log.
    """

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(f"{outcome.code}: {outcome.message}\n\n{outcome.traceback}".rstrip())
        self.outcome = outcome


@dataclass(frozen=True)
class Result:
    """The result of a run that succeeded.

    :param metadata: of the output.
    :param further: the further outputs, as many as the manifest has at least.
    """

    output: bytes
    metadata: Mapping[str, str]
    log: str
    further: tuple[bytes, ...] = ()


class LocalStorlet:
    """The storlet of a project."""

    def __init__(self, project: Project) -> None:
        self.project = project

    def run(
        self, *inputs: Source, metadata: Mapping[str, str] | None = None, **parameters: object
    ) -> Result:
        """Run the storlet in this process.

        :param inputs: content, or the path of a file.
        :param metadata: of the first input.
        :raises StorletFailed: it failed.
        :raises ProjectError: a parameter does not fit the manifest, or the number of inputs.
        :raises TypeError: an input is neither.
        """
        for source in inputs:
            if not isinstance(source, (bytes, str, Path)):
                raise TypeError(
                    f"an input is bytes or the path of a file, and no {type(source).__name__};"
                    " parameters are keywords: storlet.run(b'data', text='apple')"
                )
        texts = {name: manifest.text_of(value) for name, value in parameters.items()}
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as output:
            files = []
            for number, source in enumerate(inputs):
                path = Path(folder, str(number)) if isinstance(source, bytes) else Path(source)
                if isinstance(source, bytes):
                    path.write_bytes(source)
                files.append(Input(path, {} if number else metadata or {}))
            count = manifest.output_counts(self.project.document)[0]
            further = [Path(folder, f"output-{number}") for number in range(1, count)]
            outcome = run(self.project, files, os.dup(output.fileno()), texts, further)
            if not outcome.is_ok:
                raise StorletFailed(outcome)
            output.seek(0)
            others = tuple(path.read_bytes() for path in further)
            return Result(output.read(), outcome.metadata, outcome.log, others)


@pytest.fixture
def storlet(request: pytest.FixtureRequest) -> LocalStorlet:
    """The storlet of the project that the test is in."""
    for folder in Path(str(request.path)).parents:
        if (folder / MANIFEST).is_file():
            try:
                return LocalStorlet(projects.read(folder))
            except ProjectError as error:
                raise pytest.UsageError("\n".join(error.faults)) from None
    raise pytest.UsageError(f"{request.path}: there is no {MANIFEST} in a folder above")
