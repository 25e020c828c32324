"""``doctor``, ``enable`` and ``info``."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Any

import click

from storlet_client.cli import completion
from storlet_client.cli.context import DONE, PROBLEM, with_storlets
from storlet_client.cli.groups import Group
from storlet_client.cli.output import format_option, in_line, legible, show_one, show_rows, wrapped
from storlet_client.cli.progress import working
from storlet_client.operations import Info
from storlet_client.storlets import Storlets


def declare(group: Group) -> None:
    """Add the commands to ``group``."""

    @group.example("doctor", examples="storlet doctor\nstorlet doctor samples/input.csv")
    @click.pass_context
    @with_storlets
    @click.argument(
        "places",
        nargs=-1,
        metavar="[CONTAINER|CONTAINER/OBJECT]...",
        shell_complete=completion.place,
    )
    @format_option
    def doctor(
        storlets: Storlets, context: click.Context, places: tuple[str, ...], form: str
    ) -> None:
        """Find what is wrong, each problem with the command that repairs it.

        Checks login, cluster, clock and account; languages, dependencies and code of storlets;
        grants without an effect; and of each place that is named, whether it exists and whether you
        may read it. It changes nothing. The exit status is 1 if there is a problem.
        """
        with working("doctor"):
            checks = storlets.diagnose(places)
        if form == "table":
            for check in checks:
                mark = "ok  " if check.is_well else "FAIL"
                line = f"{mark}  {in_line(check.subject)}: {in_line(check.text)}"
                colour = "green" if check.is_well else "red"
                coloured = click.style(mark, fg=colour, bold=not check.is_well)
                click.echo(wrapped(line, sys.stdout, " " * 6).replace(mark, coloured, 1))
                if check.remedy:
                    click.echo(f"      repair: {legible(check.remedy)}")
        else:
            columns = ("subject", "is_well", "text", "remedy")
            show_rows([asdict(check) for check in checks], columns, form, "")
        context.exit(DONE if all(check.is_well for check in checks) else PROBLEM)

    @group.example("enable", examples="storlet enable\nstorlet enable --records all --check")
    @with_storlets
    @click.option(
        "--records",
        type=click.Choice(["all", "failures", "none"]),
        default=None,
        help="Runs that are recorded from now on; failures if it was never set.",
    )
    @click.option(
        "--check/--no-check",
        default=None,
        help="Have the cluster check the code of all uploads, also those of other programs.",
    )
    def enable(storlets: Storlets, records: str | None, *, check: bool | None) -> None:
        """Enable storlets for the account, and create its containers."""
        created = storlets.enable(records or "", check=check)
        click.echo("storlets are enabled")
        for name in created:
            click.echo(legible(f"  created container {name}"))

    @group.example("info", examples="storlet info\nstorlet info -f yaml")
    @with_storlets
    @format_option
    def info(storlets: Storlets, form: str) -> None:
        """Show the cluster's languages, engine API version, limits and container names."""
        found = storlets.info()
        if form in {"json", "yaml"}:
            show_one(found.raw, form)
            return
        values = facts_of(found)
        if form == "table":
            values = {
                name: _limit(value) if isinstance(value, (int, float)) else value
                for name, value in values.items()
            }
        show_one(values, form)


def facts_of(found: Info) -> dict[str, Any]:
    """Container names, languages, engine API and limits, each by the name that a table shows."""
    names = ("storlet_container", "dependency_container", "log_container", "rules_container")
    languages = [f"{name} {'/'.join(versions)}" for name, versions in found.languages.items()]
    return {
        **{name.replace("_", " "): getattr(found, name) for name in names},
        "languages": ", ".join(languages),
        "engine": found.engine,
        **{f"limit {name}": value for name, value in found.limits.items()},
    }


def _limit(value: float) -> str:
    if not value:
        return "none"
    return f"{value:,.0f}" if value == int(value) else f"{value:g}"
