"""One run here and without a sandbox, in the way of the storlet's language."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from storlet_client.bundle import languages
from storlet_client.bundle.languages import Form
from storlet_client.local import jvm
from storlet_client.local.run import Input, Outcome, run
from storlet_client.local.subject import Subject


def run_here(  # noqa: PLR0913, PLR0917  the parts of a run
    subject: Subject,
    inputs: Sequence[Input],
    output: int,
    parameters: Mapping[str, str],
    tell: jvm.Tell | None = None,
    further: Sequence[Path] = (),
    secrets: Mapping[str, bytes] | None = None,
) -> Outcome:
    """Run the storlet, and write its output to a descriptor that this call closes in any case.

    :param further: files for the further outputs.
    :param secrets: those of the run; none if it is not given.
    :param tell: a JVM waits for a debugger, and this is called with its address.
    :raises OSError: an input cannot be opened.
    :raises ProjectError: the project cannot be built, a parameter does not fit, or the number of
        inputs or outputs is not one of the manifest.
    """
    if languages.form_of(subject.document) is not Form.JARS:
        with subject.as_project() as project:
            return run(project, inputs, output, parameters, further, secrets)
    try:
        with subject.as_built() as project:
            return jvm.run(project, inputs, output, parameters, tell, further, secrets)
    finally:
        os.close(output)
