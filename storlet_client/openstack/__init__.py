"""The plugin of the OpenStack client: ``openstack storlet list`` and the rest.

The OpenStack client finds it by the entry point ``openstack.cli.extension`` of this package's
metadata, and logs in; this package does not need the OpenStack client.  The names here are those of
its interface for plugins.

``commands``   the commands, by the conventions of the OpenStack client
``arguments``  arguments of a command of ``storlet`` for a parser of the OpenStack client, and back
"""

from __future__ import annotations

from typing import Any

from storlet_client.login import Token
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
    # The OpenStack client loads this module for each of its commands.
    from storlet_client.cli.progress import CallProgress  # noqa: PLC0415

    credentials = Token(url, instance.session.get_token())
    return Storlets(credentials, verify=instance.session.verify, watch=CallProgress())


def build_option_parser(parser: Any) -> Any:
    """No options of our own."""
    return parser
