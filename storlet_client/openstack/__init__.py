"""The plugin of the OpenStack client: ``openstack storlet list`` and the rest.

The OpenStack client finds it by the entry point ``openstack.cli.extension`` of this package's
metadata, and logs in; this package does not need the OpenStack client.  The names here are those of
its interface for plugins.

The OpenStack client knows no ``ST_*`` variables.  With these, or with ``OS_STORAGE_URL`` and
``OS_AUTH_TOKEN``, and without a cloud or a URL of Keystone, the login is that of ``storlet``.

``commands``   the commands, by the conventions of the OpenStack client
``arguments``  arguments of a command of ``storlet`` for a parser of the OpenStack client, and back
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from storlet_client.login import Credentials, Token, without_keystone
from storlet_client.storlets import Storlets

API_NAME = "storlet"
API_VERSION_OPTION = "os_storlet_api_version"
DEFAULT_API_VERSION = "1"
API_VERSIONS = {"1": "storlet_client.storlets.Storlets"}


def make_client(instance: Any) -> Storlets:
    """The account of the OpenStack client's login."""
    url = instance.get_endpoint_for_service_type(
        "object-store", region_name=instance.region_name, interface=instance.interface
    )
    return connected(Token(url, instance.session.get_token()), instance.session.verify)


def connected(credentials: Credentials, verify: bool | str) -> Storlets:
    """The account of some credentials."""
    # The OpenStack client loads this module for each of its commands.
    from storlet_client.cli.progress import CallProgress  # noqa: PLC0415

    return Storlets(credentials, verify=verify, watch=CallProgress())


def own_login(options: Mapping[str, Any]) -> Credentials | None:
    """The credentials of ``storlet``; ``None`` if the OpenStack client has a login to use.

    :param options: those of the OpenStack client, with the values of variables.
    """
    if any(options.get(name) for name in ("cloud", "auth_url", "auth_type")):
        return None
    return without_keystone()


def build_option_parser(parser: Any) -> Any:
    """No options of our own."""
    return parser
