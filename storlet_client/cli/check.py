"""``check``: a project or a bundle, in a sandbox of this machine."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path

import click

from storlet_client.builder.project import ProjectError
from storlet_client.cli.context import DONE, PROBLEM
from storlet_client.cli.groups import Group
from storlet_client.cli.output import explained, legible
from storlet_client.cli.progress import bundle_of, working
from storlet_client.local import check as checks
from storlet_client.local import subject as subjects
from storlet_client.local.sandbox import LocalNode

#: The alternative for a user without the server's package.
_BY_CLUSTER = "let the cluster check it: 'storlet deploy' does, before the code takes effect"


def declare(group: Group) -> None:
    """Add the command to ``group``."""

    @group.example(
        "check",
        examples="storlet check\nstorlet check fruit\nstorlet check fruit/dist/fruit-0.1.0.storlet",
    )
    @click.argument(
        "source",
        default=".",
        type=click.Path(exists=True, path_type=Path),
        metavar="[PROJECT|BUNDLE]",
    )
    @click.pass_context
    def check(context: click.Context, /, source: Path) -> None:
        """Check a project or a bundle in a sandbox of this machine.

        Checks the manifest with the parameters and their defaults, builds the bundle, looks for
        native code that the sandbox cannot load, imports each library there, and loads the class.
        Reports all faults. Needs what 'storlet run' needs.
        """
        try:
            subject = subjects.read(source)
            with ExitStack() as opened:
                output = opened.enter_context(tempfile.TemporaryFile())
                # First: a machine without sandboxes builds no bundle.
                node = opened.enter_context(LocalNode(output.fileno(), _BY_CLUSTER))
                bundle = opened.enter_context(bundle_of(subject))
                opened.enter_context(working(f"check {subject.document['name']}"))
                faults = checks.faults_of(bundle, subject.document, node, output)
        except ProjectError as error:
            faults = error.faults
        for fault in faults:
            click.echo(explained(f"storlet: {fault}"), err=True)
        if not faults:
            name, version = subject.document["name"], subject.document["version"]
            click.echo(legible(f"{name} {version} loads in the sandbox"))
        context.exit(PROBLEM if faults else DONE)
