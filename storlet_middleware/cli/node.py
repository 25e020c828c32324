"""Requests to the sandboxd of this node; they block, up to a timeout."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Final

from storlet_daemon.protocol import framing, messages
from storlet_middleware import config as configuration
from storlet_middleware.cli.command import CliError
from storlet_middleware.config import Config

ANSWER_SECONDS: Final = 15.0


def load_config(path: str) -> Config:
    """The options of this node; raises :class:`CliError`."""
    try:
        return configuration.load(path)
    except configuration.ConfigError as error:
        raise CliError(f"{error}\nto read another file, use --conf FILE") from None


def ask(
    config: Config, request: messages.Message, seconds: float = ANSWER_SECONDS
) -> messages.NodeStatus:
    """The node's status, in answer to a request for it; raises :class:`CliError`."""
    path = Path(config.sandbox.run_dir) / "sandboxd.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.settimeout(seconds)
        try:
            connection.connect(os.fspath(path))
            framing.send(connection, request)
            received = framing.receive(connection)
            answer = None if received is None else received.message(messages.NODE_ANSWERS)
        except (FileNotFoundError, ConnectionRefusedError):
            raise CliError(_not_running(config, path)) from None
        except PermissionError:
            raise CliError(_not_permitted(config, path)) from None
        except TimeoutError:
            raise CliError(
                f"storlet-sandboxd at {path} does not answer within {seconds:g} seconds"
            ) from None
        except (messages.ProtocolError, OSError) as error:
            raise CliError(
                f"the connection to storlet-sandboxd at {path} failed: {error}"
            ) from None
    if isinstance(answer, messages.NodeRefused):
        raise CliError(f"storlet-sandboxd refused: {answer.message}")
    if not isinstance(answer, messages.NodeStatus):
        raise CliError(f"storlet-sandboxd at {path} ended without an answer")
    return answer


def _not_running(config: Config, path: Path) -> str:
    return (
        f"no storlet-sandboxd listens at {path}\n"
        "start it as root: systemctl start storlet-sandboxd, or "
        f"storlet-sandboxd --conf {config.path}\n"
        "if it runs with another configuration file, use --conf FILE"
    )


def _not_permitted(config: Config, path: Path) -> str:
    return (
        f"no permission to use {path}: run this as root, or as a member of the group "
        f"{config.sandbox.group}"
    )
