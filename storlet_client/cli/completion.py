"""Names of the account that the shell completes: storlets, containers and objects.

Each completion is a login and a request or two.  It prints nothing of its own, and gives up after
some seconds: a shell waits for it, and the command itself will report what is wrong.

Only names without spaces and without characters that a shell reads are completed.  bash inserts a
name as it is: one such as ``$(...)``, which any writer of a container can choose, would be executed
with the command.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import closing
from threading import Thread

import click

from storlet_client import operations
from storlet_client.cli.context import Options
from storlet_client.exchange import Flow
from storlet_client.session import Session
from storlet_client.storlets import no_watch, verify_of
from storlet_client.transport import Transport

_SECONDS = 4.0
#: Folders that hold a single name each, and are completed at once.
_DEPTH = 5
#: Without those at which bash divides words (``COMP_WORDBREAKS``).
_SAFE = re.compile(r"[\w/][\w./+,%-]*")
#: Completes the start of a name.
Names = Callable[[Session, str], Flow[list[str]]]


def storlet(context: click.Context, _parameter: click.Parameter, begin: str) -> list[str]:
    """Complete the name of a storlet."""
    return _completed(context, _storlets, begin)


def container(context: click.Context, _parameter: click.Parameter, begin: str) -> list[str]:
    """Complete the name of a container."""
    return _completed(context, _containers, begin)


def place(context: click.Context, _parameter: click.Parameter, begin: str) -> list[str]:
    """Complete ``container/object``."""
    return _completed(context, _places, begin)


def _storlets(session: Session, begin: str) -> Flow[list[str]]:
    cluster = yield from operations.known_info(session)
    found = yield from operations.some_names(session, (cluster.storlet_container,), begin, "/")
    return [operations.name_of_runs(name) for name in found if not name.endswith("/")]


def _containers(session: Session, begin: str) -> Flow[list[str]]:
    return (yield from operations.some_names(session, (), begin))


def _places(session: Session, begin: str) -> Flow[list[str]]:
    found = yield from _level(session, begin)
    # A shell adds a space to a single name, and a slash has to be followed by more.
    for _ in range(_DEPTH):
        inner: list[str] = []
        if len(found) == 1 and found[0].endswith("/"):
            inner = yield from _level(session, found[0])
        if not inner:
            break
        found = inner
    return found


def _level(session: Session, begin: str) -> Flow[list[str]]:
    """The containers, or the objects and folders of a container, that begin so."""
    holder, slash, inner = begin.partition("/")
    if not slash:
        return [f"{name}/" for name in (yield from operations.some_names(session, (), holder))]
    found = yield from operations.some_names(session, (holder,), inner, "/")
    return [f"{holder}/{name}" for name in found]


def _completed(context: click.Context, names: Names, begin: str) -> list[str]:
    """The result of ``names``; empty if there is none within some seconds."""
    found: list[str] = []

    def work() -> None:
        try:
            options = Options.of(context.find_root().params)
            credentials = options.credentials()
            verify = verify_of(credentials, options.verify)
            with closing(Transport(verify=verify, watch=no_watch)) as transport:
                found.extend(transport.drive(names(Session(credentials), begin)))
        except Exception:  # noqa: BLE001, S110  of a server of any kind; the command reports it
            pass

    thread = Thread(target=work, daemon=True)
    thread.start()
    thread.join(_SECONDS)
    return [name for name in found if _SAFE.fullmatch(name)]
