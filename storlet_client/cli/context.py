"""The connection and the options that all commands share."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from storlet_client.cli import trace
from storlet_client.cli.progress import CallProgress
from storlet_client.errors import ConfigurationError
from storlet_client.login import Credentials, from_environment
from storlet_client.storlets import Storlets
from storlet_client.transport import Watch

#: Exit codes; the help of the command lists them.
DONE, PROBLEM, MISUSED, NOT_CONFIGURED, REFUSED, FAILED, INTERRUPTED = 0, 1, 2, 3, 4, 5, 130


@dataclass(frozen=True)
class Options:
    """The options before the name of the command."""

    cloud: str
    storage_url: str
    token: str
    verify: bool | str
    is_verbose: bool

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Options:
        """From the parameters of the command line."""
        cacert = given["cacert"] or os.environ.get("OS_CACERT")
        verify = False if given["insecure"] else cacert or True
        return cls(given["cloud"], given["storage_url"], given["token"], verify, given["verbose"])

    def credentials(self) -> Credentials:
        return from_environment(cloud=self.cloud, storage_url=self.storage_url, token=self.token)

    def connect(self) -> Storlets:
        credentials = self.credentials()
        watch: Watch = trace.watch if self.is_verbose else CallProgress()
        return Storlets(credentials, verify=self.verify, watch=watch)


def with_storlets(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command gets the connection as its first argument."""

    @click.pass_context
    def run(context: click.Context, *arguments: Any, **options: Any) -> Any:
        with context.find_root().obj.connect() as storlets:
            return command(storlets, *arguments, **options)

    run.__doc__ = command.__doc__
    run.__name__ = command.__name__
    # Options are declared by decorators below this one.
    vars(run)["__click_params__"] = vars(command).get("__click_params__", [])
    return run


#: Option of the commands that run a storlet; :func:`pairs` reads its values.
parameters_option = click.option(
    "-p",
    "--parameter",
    "parameters",
    multiple=True,
    metavar="KEY=VALUE",
    help="Parameter of the storlet. Repeat it for several.",
)


def pairs(values: Sequence[str], option: str) -> dict[str, str]:
    """``key=value`` words.

    :raises ConfigurationError: a word has another form or is not UTF-8, or a key is given twice.
    """
    faults: list[str] = []
    found: dict[str, str] = {}
    for value in values:
        key, equals, text = value.partition("=")
        if not equals or not key:
            faults.append(f"{option} {value!r}: write {option} KEY=VALUE")
        elif not _is_utf8(value):
            faults.append(f"{option} {value!r}: not UTF-8: correct it")
        elif key in found:
            faults.append(f"{option} {key} is given twice")
        found[key] = text
    if faults:
        raise ConfigurationError(faults)
    return found


class _Filled(click.types.StringParamType):
    """A text that is not empty, as the value of an unset variable of a shell is."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("it is empty: is a variable of the shell unset?", param, ctx)
        return super().convert(value, param, ctx)


#: The type of an option or argument that names an object, a storlet or a run.
FILLED = _Filled()


class _OutputFile(click.Path):
    """A file to write, or ``-``; the shell completes it."""

    def __init__(self) -> None:
        super().__init__(readable=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        FILLED.convert(value, param, ctx)
        return super().convert(value, param, ctx)


#: The type of an option that names a file or folder of this machine to write.
OUTPUT = _OutputFile()


def _is_utf8(text: str) -> bool:
    """Whether it is; Python has other bytes of a command line as lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
