"""``grants``, ``grant``, ``revoke`` and ``rules``."""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import BinaryIO

import click

from storlet_client import operations
from storlet_client.cli import completion, operators
from storlet_client.cli.context import with_storlets
from storlet_client.cli.groups import Group, examples_of
from storlet_client.cli.output import explained, format_option, legible, show_rows
from storlet_client.errors import Refused
from storlet_client.storlets import Storlets

#: Of requests that rules can decide.
_METHODS = ("GET", "HEAD", "PUT", "POST", "COPY", "DELETE")


#: The place of a finding, in the object that the server checks.
_PLACE = re.compile(r"^[\w.-]+(?=:\d+:\d+: )", re.MULTILINE)


def _with_name(report: str, file: str) -> str:
    """A report of the server about the user's file, with the name of that file."""
    return _PLACE.sub(lambda _: file, report)


def declare(group: Group) -> None:
    """Add the commands to ``group``."""

    @group.example("grants", examples="storlet grants patients")
    @with_storlets
    @click.argument("container", shell_complete=completion.container)
    @format_option
    def grants(storlets: Storlets, container: str, form: str) -> None:
        """List the grants of a container."""
        rows = [asdict(each) for each in storlets.grants(container)]
        show_rows(rows, ("user", "storlet"), form, f"no grants on {container}")

    @group.example("grant", examples="storlet grant patients research:ada deidentify.py")
    @with_storlets
    @click.argument("container", shell_complete=completion.container)
    @click.argument("user")
    @click.argument("name", shell_complete=completion.storlet)
    def grant(storlets: Storlets, container: str, user: str, name: str) -> None:
        """Let USER read a container through the storlet NAME only.

        The user also needs read access to the container with the storlets.
        """
        warning = storlets.grant(container, user, name)
        click.echo(legible(f"{user} may read {container} through {name}"))
        if warning:
            click.echo(explained(f"warning: {warning}"), err=True)

    @group.example("revoke", examples="storlet revoke patients research:ada deidentify.py")
    @with_storlets
    @click.argument("container", shell_complete=completion.container)
    @click.argument("user")
    @click.argument("name", shell_complete=completion.storlet)
    def revoke(storlets: Storlets, container: str, user: str, name: str) -> None:
        """Remove a grant."""
        storlets.revoke(container, user, name)
        click.echo(legible(f"revoked {name} on {container} from {user}"))

    _rules(group)


def _rules(group: Group) -> None:
    rules = Group(
        "rules",
        help="Show, change and check the rules of the account.",
        epilog=examples_of("storlet rules show\nstorlet rules put rules.yaml"),
    )
    group.add_command(rules)

    @rules.example("show", examples="storlet rules show > rules.yaml")
    @with_storlets
    def show(storlets: Storlets) -> None:
        """Print the rules in force."""
        text = storlets.rules()
        if text is None:
            click.echo("no rules: 'storlet rules put FILE' puts some in force", err=True)
        else:
            click.echo(text, nl=False)

    @rules.example("put", examples="storlet rules put rules.yaml")
    @with_storlets
    @click.argument("file", type=click.File("rb"))
    @click.option("--accept-warnings", is_flag=True, help="Accept the warnings of the check.")
    def put(storlets: Storlets, file: BinaryIO, accept_warnings: bool) -> None:
        """Check rules and put them in force; errors leave the old ones in force."""
        try:
            report = storlets.put_rules(file.read(), accept_warnings=accept_warnings)
        except Refused as error:
            header = f"{operations.ACCEPT_WARNINGS}: true"
            message = error.message.replace(header, "--accept-warnings")
            error.restate(_with_name(message, file.name))
            raise
        if report.strip():
            click.echo(legible(_with_name(report.strip(), file.name)), err=True)
        click.echo("rules in force")

    @rules.example("delete", examples="storlet rules delete")
    @with_storlets
    def delete(storlets: Storlets) -> None:
        """Remove the rules: no request is decided by a rule any more."""
        storlets.delete_rules()
        click.echo("no rules in force")

    @rules.example("decide", examples="storlet rules decide GET patients/a.csv")
    @with_storlets
    @click.argument("method", type=click.Choice(_METHODS, case_sensitive=False))
    @click.argument("path", metavar="CONTAINER/OBJECT", shell_complete=completion.place)
    def decide(storlets: Storlets, method: str, path: str) -> None:
        """Explain the decision on your own request, without performing it."""
        click.echo(legible(storlets.explain(method, path)), nl=False)

    operators.declare_rules(rules)
