"""The entry point: options of all commands, and the exit code of each error."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from storlet_client import __version__
from storlet_client.cli import (
    access,
    account,
    account_secrets,
    check,
    failure,
    flows,
    invoke,
    local,
    operators,
    projects,
    query,
    replay,
    runs,
    storlets,
)
from storlet_client.cli.context import (
    DONE,
    FAILED,
    INTERRUPTED,
    MISUSED,
    NOT_CONFIGURED,
    REFUSED,
    Options,
)
from storlet_client.cli.groups import Group, ReaderGone
from storlet_client.cli.output import in_line
from storlet_client.cli.progress import STANDARD_OUTPUT, ended
from storlet_client.errors import (
    ConfigurationError,
    LoginFailed,
    NotRepeatable,
    NotThere,
    Refused,
    StorletsError,
)

_EPILOG = """\b
Log in with clouds.yaml and OS_CLOUD, with OS_* or ST_* variables, or with
--os-storage-url and --os-auth-token.

\b
Exit codes:
  0    success
  1    'doctor' or 'check' found a problem, a case of 'test' failed,
       'replay' differs, an object of 'distribute --report' failed, or
       a file of 'rules' has errors
  2    invalid command line, also a file of it that is missing or unreadable
  3    no or wrong credentials, another file that cannot be read or written,
       or an impossible combination of options
  4    refused: not found, no permission, or the storlet failed
  5    no answer, an incomplete answer, a full disk, or a failure of
       the server
  130  interrupted

\b
Examples:
  storlet doctor
  storlet deploy csv_filter.py
  storlet invoke csv_filter.py samples/input.csv -p columns=station
  storlet COMMAND --help
"""


@click.group(
    cls=Group,
    epilog=_EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="storlet")
@click.option("--os-cloud", "cloud", default="", help="Entry of clouds.yaml (OS_CLOUD).")
@click.option("--os-storage-url", "storage_url", default="", help="URL of the account.")
@click.option("--os-auth-token", "token", default="", help="Token for --os-storage-url.")
@click.option(
    "--os-cacert", "cacert", default="", help="File with trusted certificates (OS_CACERT)."
)
@click.option("--insecure", is_flag=True, help="Do not check certificates.")
@click.option("-v", "--verbose", is_flag=True, help="Show the HTTP requests, without secrets.")
@click.pass_context
def cli(context: click.Context, /, **options: Any) -> None:
    """Run functions inside an OpenStack Swift cluster, where the data are."""
    if os.environ.get("NO_COLOR"):
        context.color = False
    context.obj = Options.of(options)


_PARTS = (
    account,
    projects,
    local,
    check,
    storlets,
    invoke,
    query,
    flows,
    runs,
    replay,
    access,
    account_secrets,
    operators,
)
for part in _PARTS:
    part.declare(cli)


@cli.example("completion", examples='eval "$(storlet completion bash)"')
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script of a shell."""
    from click.shell_completion import get_completion_class  # noqa: PLC0415 - seldom needed

    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"no completion for {shell}")
    click.echo(kind(cli, {}, "storlet", "_STORLET_COMPLETE").source())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code."""
    _open_standard_streams()
    try:
        return _run(arguments)
    except click.ClickException as error:
        error.show()
        return MISUSED
    except (StorletsError, UnicodeEncodeError) as error:
        return _fail(_not_encoded(error) if isinstance(error, UnicodeEncodeError) else error)
    except (KeyboardInterrupt, click.Abort):
        click.echo("storlet: interrupted", err=True)
        return INTERRUPTED
    except (ReaderGone, BrokenPipeError):
        _abandon_output()
        return DONE
    except OSError as error:
        return _fail_locally(error)


def _run(arguments: Sequence[str] | None) -> int:
    with ended():
        # Without a code from `Context.exit`, a command returns None.
        code = int(cli.main(arguments, prog_name="storlet", standalone_mode=False) or DONE)
    sys.stdout.flush()  # at the end of the interpreter, an error would be one of Python
    return code


#: Errors of a write for want of space, or of the disk.
_FULL = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO))


def _open_standard_streams() -> None:
    """Open those that the caller has closed, such as by ``>&-``; Python has ``None`` for them.

    Else the next file or connection would get the descriptor, and the output of another library.
    A write to the standard output fails then, as without it.  ``sys.stdin`` stays ``None``: a
    command does not take a closed input for an empty one.
    """
    modes = {"stdin": os.O_RDONLY, "stdout": os.O_RDONLY, "stderr": os.O_WRONLY}
    for number, (name, mode) in enumerate(modes.items()):
        if getattr(sys, name) is not None:
            continue
        opened = os.open(os.devnull, mode)
        if opened != number:
            os.dup2(opened, number)
            os.close(opened)
        if number:
            setattr(sys, name, open(number, "w", closefd=False))  # noqa: SIM115


def _abandon_output() -> None:
    """Drop what is still to be written: the interpreter would fail again at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail_locally(error: OSError) -> int:
    """A file of this machine cannot be read or written."""
    if error.filename in {None, STANDARD_OUTPUT}:
        _abandon_output()
        if error.errno == errno.EBADF:
            closed = f"storlet: {STANDARD_OUTPUT} is closed\n    help: send it to a file or a pipe"
            click.echo(closed, err=True)
            return NOT_CONFIGURED
    text = f"storlet: {error.filename or STANDARD_OUTPUT}: {error.strerror}"
    click.echo(in_line(text), err=True)
    if error.errno not in _FULL:
        return NOT_CONFIGURED
    click.echo("  the output is not complete; make room, and repeat the command", err=True)
    return FAILED


def _not_encoded(error: UnicodeEncodeError) -> ConfigurationError:
    """An argument is not UTF-8, or the encoding of the output lacks one of its characters."""
    if error.encoding == "utf-8":
        text = "is not UTF-8, as names and parameters are: correct it"
    else:
        text = f"cannot be written in {error.encoding}: set PYTHONIOENCODING=utf-8"
    return ConfigurationError([f"{error.object!a}: {text}"])


def _fail(error: StorletsError) -> int:
    for line in failure.lines_of(error):
        click.echo(line, err=True)
    return _exit_code(error)


def _exit_code(error: StorletsError) -> int:
    if isinstance(error, (ConfigurationError, LoginFailed)):
        return NOT_CONFIGURED
    if isinstance(error, (NotThere, NotRepeatable)) or (
        isinstance(error, Refused) and error.status < 500
    ):
        return REFUSED
    return FAILED


if __name__ == "__main__":
    sys.exit(main())
