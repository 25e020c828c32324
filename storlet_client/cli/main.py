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
    flows,
    invoke,
    local,
    operators,
    projects,
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
from storlet_client.cli.output import explained, in_line, legible
from storlet_client.cli.progress import STANDARD_OUTPUT, ended
from storlet_client.diagnosis.check import command
from storlet_client.errors import (
    BrokenAnswer,
    ConfigurationError,
    LoginFailed,
    NotRepeatable,
    NotThere,
    Refused,
    StorletsError,
    Unreachable,
)

_EPILOG = """\b
Log in with clouds.yaml and OS_CLOUD, with OS_* or ST_* variables, or with
--os-storage-url and --os-auth-token.

\b
Exit codes:
  0    success
  1    'doctor' or 'check' found a problem, a case of 'test' failed,
       'replay' differs, or a file of 'rules' has errors
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

#: The next command to try, by error code.
_ADVICE = {
    "storlet.not_found": "see storlets and versions: storlet list, storlet versions NAME",
    # The request is named by its source.
    "target.not_found": "see what is there, and what you may do: storlet doctor CONTAINER",
    "access.rule": "see the decision: storlet rules decide METHOD CONTAINER/OBJECT",
    "registration.check": "the old code, if any, stays in use: correct the new code, deploy again",
    "registration.invalid": "see the options: storlet deploy --help",
}


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
    cacert = options["cacert"] or os.environ.get("OS_CACERT")
    verify = False if options["insecure"] else cacert or True
    if os.environ.get("NO_COLOR"):
        context.color = False
    context.obj = Options(
        options["cloud"], options["storage_url"], options["token"], verify, options["verbose"]
    )


_PARTS = (
    account,
    projects,
    local,
    check,
    storlets,
    invoke,
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
    faults = error.faults if isinstance(error, ConfigurationError) else (str(error),)
    for fault in faults:
        click.echo(explained(f"storlet: {fault}"), err=True)
    if isinstance(error, (Refused, BrokenAnswer)) and error.invocation:
        click.echo(legible(f"  invocation {error.invocation}"), err=True)
    advice = _advice(error)
    if advice:
        click.echo(legible(f"  {advice}"), err=True)
    return _exit_code(error)


def _advice(error: StorletsError) -> str:
    """The next step after an error; empty if its text has it."""
    if isinstance(error, Refused):
        return _advice_of_answer(error)
    if isinstance(error, BrokenAnswer):
        if error.invocation:
            return f"the output so far is not complete; {_record_of(error.invocation)}"
        return "the output so far is not complete; repeat the command"
    if isinstance(error, LoginFailed):
        return "storlet --help has the ways to log in"
    if isinstance(error, Unreachable):
        return "check the URL of the login (OS_AUTH_URL, ST_AUTH, clouds.yaml) and the network"
    return ""


def _record_of(invocation: str) -> str:
    return f"see its record, some seconds after the run: storlet show-run {invocation}"


def _advice_of_answer(error: Refused) -> str:
    if "disabled for storlets" in error.message:
        return "enable them: storlet enable"
    if error.status == 401:
        return "log in again, or check the account: storlet doctor"
    if error.code in _ADVICE:
        return _ADVICE[error.code]
    if error.code.startswith("storlet.") and error.invocation:
        return _record_of(error.invocation)
    return _advice_by_status(error)


def _advice_by_status(error: Refused) -> str:
    if error.status in {403, 404}:
        place = error.request.partition(" ")[2]
        is_path = place != "account" and "://" not in place
        named = command("storlet", "doctor", *([place] if is_path else []))
        return f"see what is there, and what you may do: {named}"
    if error.status in {429, 503}:
        return "the cluster is busy: repeat the command later"
    if error.status >= 500:
        transaction = error.transaction or "unknown"
        return f"if it fails again, tell the operator of the cluster: transaction {transaction}"
    return ""


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
