"""The commands of ``openstack storlet``.

Lists and single values are commands of the OpenStack client's own kinds, so that ``-f``, ``-c`` and
``--sort-column`` work as in all its commands.  The others (:class:`Passed`) are the commands of
``storlet``, with the same arguments.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import click
from cliff.columns import FormattableColumn
from osc_lib import exceptions
from osc_lib.command import command

from storlet_client.cli import failure
from storlet_client.cli.account import facts_of
from storlet_client.cli.flows import LIBRARY_COLUMNS, library_rows
from storlet_client.cli.invoke import LOG_COLUMNS, log_rows
from storlet_client.cli.main import cli
from storlet_client.cli.output import text_of, zoned
from storlet_client.cli.progress import ended
from storlet_client.cli.runs import selection_of, storlets_of
from storlet_client.errors import StorletsError
from storlet_client.openstack import connected, own_login
from storlet_client.openstack.arguments import add, command_of, positive, words_of
from storlet_client.overview import ALL_COLUMNS
from storlet_client.storlets import Storlets

Rows = tuple[Sequence[str], Iterable[tuple[Any, ...]]]


class _Column(FormattableColumn[Any]):
    """A value that programs get as it is, and the text of it that a table shows."""

    def __init__(self, value: Any, text: str) -> None:
        super().__init__(value)
        self._text = text

    def human_readable(self) -> str:
        return self._text

    def machine_readable(self) -> Any:
        return list(self._value) if isinstance(self._value, tuple) else self._value


def _shown(value: Any, cell: Any) -> Any:
    """The value of a column; ``cell`` is that of a table."""
    if value is None:
        return None
    text = text_of(cell)
    is_plain = isinstance(value, (str, int, float)) and str(value) == text
    return value if is_plain else _Column(value, text)


def _rows(
    found: Iterable[Mapping[str, Any]],
    columns: Sequence[str],
    cells: Iterable[Mapping[str, Any]] | None = None,
) -> Rows:
    """The rows of a list; ``cells`` are those of a table, if it has other values."""
    values = [zoned(each) for each in found]
    shown = values if cells is None else [zoned(each) for each in cells]
    rows = [
        tuple(_shown(row.get(column), texts.get(column)) for column in columns)
        for row, texts in zip(values, shown)
    ]
    return [column.replace("_", " ").capitalize() for column in columns], rows


def _one(
    values: Mapping[str, Any], cells: Mapping[str, Any] | None = None
) -> tuple[tuple[str, ...], tuple[Any, ...]]:
    """One thing; ``cells`` are the values of a table that differ."""
    shown = {**zoned(values), **(cells or {})}
    return tuple(values), tuple(_shown(zoned(values)[name], shown[name]) for name in values)


class _Plugin(command.Command):
    """A command of this package."""

    #: Whether it is about an account.
    has_account: ClassVar[bool] = True

    def get_epilog(self) -> str:
        """The end of the help, which names the package.

        The base class would read the metadata of all installed packages, also without ``--help``:
        most of the time of a short command.
        """
        return "This command is provided by the storlet-client plugin."

    @property
    def auth_required(self) -> bool:
        """Whether the OpenStack client logs in first; it uses this name."""
        return self.has_account and own_login(vars(self.app.options)) is None

    def storlets(self) -> Storlets:
        """The account, by the login of the OpenStack client or of ``storlet``."""
        manager = self.app.client_manager
        credentials = own_login(vars(self.app.options))
        found: Storlets = (
            manager.storlet if credentials is None else connected(credentials, manager.verify)
        )
        return found


class _About(_Plugin):
    """A command about one thing, if it has a :attr:`subject`: the argument's name, and its help."""

    subject: ClassVar[tuple[str, str] | None] = None

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = super().get_parser(prog_name)
        if self.subject is not None:
            name, text = self.subject
            parser.add_argument(name, metavar=f"<{name}>", help=text)
        return parser


class _List(_About, command.Lister):
    """A list with ``columns``."""

    columns: ClassVar[tuple[str, ...]]

    def found(self, storlets: Storlets, given: argparse.Namespace) -> Iterable[Mapping[str, Any]]:
        raise NotImplementedError

    def rows(self, storlets: Storlets, given: argparse.Namespace) -> Rows:
        return _rows(self.found(storlets, given), self.columns)

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        try:
            with ended():
                return self.rows(self.storlets(), parsed_args)
        except StorletsError as error:
            raise _failure(error) from error


class ListStorlets(_List):
    """List the storlets of the account"""

    columns = ALL_COLUMNS

    def rows(self, storlets: Storlets, given: argparse.Namespace) -> Rows:
        overview = storlets.overview()
        for note in overview.notes:
            self.log.warning(note)
        # The number of a version has a column of its own.
        cells = [{**row.cells, "version": row.version} for row in overview.rows]
        return _rows([row.columns for row in overview.rows], self.columns, cells)


class ListVersions(_List):
    """List the versions of a bundle that the cluster keeps"""

    columns = ("number", "version", "current", "bytes", "time")
    subject = ("name", "Name of the bundle")

    def found(self, storlets: Storlets, given: argparse.Namespace) -> Iterable[Mapping[str, Any]]:
        return [asdict(each) for each in storlets.versions(given.name)]


class ListGrants(_List):
    """List the users that may read a container through one storlet only"""

    columns = ("user", "storlet")
    subject = ("container", "Name of the container")

    def found(self, storlets: Storlets, given: argparse.Namespace) -> Iterable[Mapping[str, Any]]:
        return [asdict(each) for each in storlets.grants(given.container)]


class ListRuns(_List):
    """List recorded runs, newest first"""

    columns = ("id", "time", "storlet", "code", "object", "message")

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = super().get_parser(prog_name)
        parser.add_argument("name", metavar="<name>", nargs="?", help="Only of this storlet")
        parser.add_argument("--failed", action="store_true", help="Only failed runs")
        text = "ok, failed, refused, cancelled, or an error code"
        parser.add_argument("--outcome", default="", help=text)
        parser.add_argument("--since", default="", help="Time, or an age such as 1h")
        parser.add_argument("--until", default="", help="Time, or an age such as 1h")
        text = "Maximum number (default: 20)"
        parser.add_argument("--limit", type=positive, default=20, metavar="<number>", help=text)
        return parser

    def found(self, storlets: Storlets, given: argparse.Namespace) -> Iterable[Mapping[str, Any]]:
        selection = selection_of(given.name, {**vars(given), "follow": False})
        records = storlets.invocations(**selection, most=given.limit)
        return [{**record, "storlet": storlets_of(record)} for record in records]


class ListLogs(_List):
    """List the stored logs of a storlet, the newest last"""

    columns = LOG_COLUMNS
    subject = ("name", "Name of the storlet")

    def found(self, storlets: Storlets, given: argparse.Namespace) -> Iterable[Mapping[str, Any]]:
        return log_rows(storlets, given.name)


class ListLibrary(_List):
    """List the storlets that every account has"""

    columns = LIBRARY_COLUMNS

    def found(self, storlets: Storlets, given: argparse.Namespace) -> Iterable[Mapping[str, Any]]:
        return library_rows(storlets)


class _Show(_About, command.ShowOne):
    """One thing."""

    def found(self, storlets: Storlets, given: argparse.Namespace) -> Mapping[str, Any]:
        raise NotImplementedError

    def values(self, storlets: Storlets, given: argparse.Namespace) -> Any:
        return _one(self.found(storlets, given))

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        try:
            with ended():
                return self.values(self.storlets(), parsed_args)
        except StorletsError as error:
            raise _failure(error) from error


class ShowStorlet(_Show):
    """Show one storlet with version, limits, access, and runs of the last 24 hours"""

    subject = ("name", "Name of the storlet")

    def values(self, storlets: Storlets, given: argparse.Namespace) -> Any:
        overview = storlets.overview(given.name)
        for note in overview.notes:
            self.log.warning(note)
        row = overview.rows[0]
        return _one(row.document, {"limits": row.limits})


class ShowInfo(_Show):
    """Show the cluster's languages, limits and container names"""

    def found(self, storlets: Storlets, given: argparse.Namespace) -> Mapping[str, Any]:
        facts = facts_of(storlets.info())
        return {name.replace(" ", "_"): value for name, value in facts.items()}


class ShowRun(_Show):
    """Show the record of a run"""

    subject = ("name", "Id of the run")

    def found(self, storlets: Storlets, given: argparse.Namespace) -> Mapping[str, Any]:
        return storlets.invocation(given.name)


@dataclass(frozen=True)
class _Connection:
    """The login that a command of ``storlet`` uses."""

    storlets: Storlets

    def connect(self) -> Storlets:
        return self.storlets


class Passed(_Plugin):
    """A command of ``storlet``; :attr:`name` is its name there, with that of its group."""

    name: ClassVar[str]

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = super().get_parser(prog_name)
        for each in self._parameters():
            add(parser, each)
        return parser

    def get_description(self) -> str:
        return str(self._command().help or "")

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """The exit code, as of the command of ``storlet``."""
        words = words_of(self._parameters(), vars(parsed_args))
        try:
            connection = _Connection(self.storlets()) if self.has_account else None
            with ended():
                code = self._command().main(
                    words, prog_name=f"storlet {self.name}", standalone_mode=False, obj=connection
                )
        except (StorletsError, click.ClickException) as error:
            raise _failure(error) from error
        except OSError as error:
            raise exceptions.CommandError(f"{error.filename}: {error.strerror}") from error
        # A command that ends by Context.exit has its code as result, all others have none.
        return code if isinstance(code, int) else 0

    def _command(self) -> click.Command:
        return command_of(cli, self.name)

    def _parameters(self) -> Sequence[click.Parameter]:
        return self._command().params


class Deploy(Passed):
    name = "deploy"


class Invoke(Passed):
    name = "invoke"


class Query(Passed):
    name = "query"


class Upload(Passed):
    name = "upload"


class Delete(Passed):
    name = "delete"


class Save(Passed):
    name = "download"


class Enable(Passed):
    name = "enable"


class Doctor(Passed):
    name = "doctor"


class Rollback(Passed):
    name = "rollback"


class Distribute(Passed):
    name = "distribute"


class Replay(Passed):
    name = "replay"


class ShowLogs(Passed):
    name = "logs"


class ShowRules(Passed):
    name = "rules show"


class SetRules(Passed):
    name = "rules put"


class DeleteRules(Passed):
    name = "rules delete"


class ExplainRules(Passed):
    name = "rules decide"


class CheckRules(Passed):
    name = "rules check"

    def _parameters(self) -> Sequence[click.Parameter]:
        """Those of the server's package, which may be missing here."""
        return (
            click.Option(["--strict"], is_flag=True, help="Fail on warnings as well."),
            click.Argument(["file"]),
        )


class ListSecrets(_List):
    """List the names of the secrets of the account"""

    columns = ("name", "set")

    def found(self, storlets: Storlets, given: argparse.Namespace) -> Iterable[Mapping[str, Any]]:
        return storlets.secrets()


class SetSecret(Passed):
    name = "secret set"


class DeleteSecret(Passed):
    name = "secret delete"


class _Local(Passed):
    """A command on files of this machine, without an account."""

    has_account = False


class Init(_Local):
    name = "init"


class Build(_Local):
    name = "build"


class Check(_Local):
    name = "check"


class Run(_Local):
    name = "run"


class Test(_Local):
    name = "test"


class CreateGrant(Passed):
    name = "grant"


class DeleteGrant(Passed):
    name = "revoke"


def _failure(error: Exception) -> Exception:
    """The error that the OpenStack client prints, with all lines of that of ``storlet``."""
    text = str(error)
    if isinstance(error, StorletsError):
        text = "\n".join(failure.lines_of(error, begin=""))
    elif isinstance(error, click.ClickException):
        text = error.format_message()
    shown: Exception = exceptions.CommandError(text)
    return shown
