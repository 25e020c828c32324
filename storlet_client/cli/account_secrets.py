"""``secret set``, ``secret list`` and ``secret delete``."""

from __future__ import annotations

import secrets
import sys
from typing import BinaryIO

import click

from storlet_client.cli.context import with_storlets
from storlet_client.cli.groups import Group, examples_of
from storlet_client.cli.output import format_option, legible, show_rows
from storlet_client.errors import ConfigurationError
from storlet_client.storlets import Storlets

#: Bytes of a generated value: the key of AES-256, and of an HMAC with SHA-256.
_GENERATED_BYTES = 32


def declare(group: Group) -> None:
    """Add the commands to ``group``."""
    secret = Group(
        "secret",
        help="Set, list and delete the secrets of the account; no command shows a value.",
        epilog=examples_of("storlet secret set api-token token.txt\nstorlet secret list"),
    )
    group.add_command(secret)

    @secret.example(
        "set",
        examples="storlet secret set backup-key --generate\n"
        "storlet secret set api-token token.txt\n"
        'printf %s "$TOKEN" | storlet secret set api-token',
    )
    @with_storlets
    @click.argument("name")
    @click.argument("file", type=click.File("rb"), required=False)
    @click.option("--generate", is_flag=True, help="Make a value of 32 random bytes.")
    def set_(storlets: Storlets, name: str, file: BinaryIO | None, *, generate: bool) -> None:
        """Set the secret NAME to the content of FILE, or of standard input.

        All bytes are the value, also a line feed at the end. A terminal is a prompt, which does not
        show what is typed. Storlets that declare NAME have the new value in their next run.
        """
        if generate and file is not None:
            raise ConfigurationError(["--generate: leave FILE out, or the option"])
        value = secrets.token_bytes(_GENERATED_BYTES) if generate else _read(file)
        is_new = storlets.set_secret(name, value)
        click.echo(legible(f"{'set' if is_new else 'replaced'} {name}"))

    @secret.example("list", examples="storlet secret list\nstorlet secret list -f json")
    @with_storlets
    @format_option
    def list_(storlets: Storlets, form: str) -> None:
        """List the names of the secrets, with the time when each was set."""
        rows = list(storlets.secrets())
        show_rows(rows, ("name", "set"), form, "no secrets: 'storlet secret set NAME' sets one")

    @secret.example("delete", examples="storlet secret delete api-token")
    @with_storlets
    @click.argument("name")
    def delete(storlets: Storlets, name: str) -> None:
        """Delete a secret; runs of storlets that declare it fail from now on.

        Objects that were encrypted with it cannot be decrypted any more.
        """
        storlets.delete_secret(name)
        click.echo(legible(f"deleted {name}"))


def _read(file: BinaryIO | None) -> bytes:
    if file is not None:
        return file.read()
    if sys.stdin is None:
        raise ConfigurationError(["standard input is closed: name a file"])
    if sys.stdin.isatty():
        typed: str = click.prompt("Value", hide_input=True, confirmation_prompt=True, err=True)
        return typed.encode()
    return sys.stdin.buffer.read()
