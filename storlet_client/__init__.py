"""A client of OpenStack Swift clusters with storlets: functions that run where the data are.

::

    from storlet_client import Manifest, Storlets

    with Storlets.connect() as storlets:              # OS_CLOUD, OS_*, ST_*: see login
        storlets.deploy("csv_filter.py", source, Manifest("csv_filter.CsvFilter", "python"))
        with storlets.run("csv_filter.py", "samples/input.csv", {"columns": "station"}) as output:
            for line in output.lines():
                ...

:class:`AsyncStorlets` has the same methods for ``asyncio``.  The package knows HTTP only; it works
with each released version of the server.

``storlets``    :class:`Storlets` and :class:`AsyncStorlets`: the two faces
``operations``  the requests of each operation, without any input or output of their own
``diagnosis``   checks of login, cluster, clock, account, storlets, grants and single objects
``overview``    the storlets of an account with versions, limits, access and runs
``limits``      declared limits as numbers
``queries``     SQL over one object or many, with the system library
``records``     records of one length, read one at a time
``structure``   the description of such records, shared with the storlet std:records
``replay``      repetition of a recorded run, and its comparison with the record
``output``      an output as a stream of bytes, lines or records
``transport``   performs calls by HTTP, with and without ``asyncio``
``session``     token, retries and errors of one request
``exchange``    the values that operations and transports exchange: a call, a pause, an answer
``content``     the content of a file that is too long for the memory
``login``       credentials and where they are found
``clouds``      ``clouds.yaml``
``errors``      the exceptions
``bundle``      the format of bundles: manifest, reproducible archives, verification
``builder``     makes bundles from projects
``local``       runs the storlet of a project here, without a cluster
``cli``         the command ``storlet``, whose entry point is ``__main__``
``openstack``   the plugin of the OpenStack client
``pytest_plugin``  the fixture ``storlet`` for tests of authors

The names of this package are imported on first use: the library for HTTP takes most of the start of
a process, and the runs of a project here need none.
"""

from __future__ import annotations

TYPE_CHECKING = False  # typing is an import of 10 ms, which runs before any command
if TYPE_CHECKING:
    from storlet_client.content import FileContent
    from storlet_client.errors import (
        BrokenAnswer,
        ConfigurationError,
        LoginFailed,
        NotThere,
        Refused,
        StorletsError,
        Unreachable,
    )
    from storlet_client.login import Credentials, Keystone, Tempauth, Token, from_environment
    from storlet_client.operations import BundleVersion, Deployed, Grant, Info, Manifest, Storlet
    from storlet_client.output import AsyncOutput, Output, Record
    from storlet_client.storlets import AsyncStorlets, Storlets

__version__ = "0.2.0"
__all__ = [
    "AsyncOutput",
    "AsyncStorlets",
    "BrokenAnswer",
    "BundleVersion",
    "ConfigurationError",
    "Credentials",
    "Deployed",
    "FileContent",
    "Grant",
    "Info",
    "Keystone",
    "LoginFailed",
    "Manifest",
    "NotThere",
    "Output",
    "Record",
    "Refused",
    "Storlet",
    "Storlets",
    "StorletsError",
    "Tempauth",
    "Token",
    "Unreachable",
    "from_environment",
]
#: The modules of the names, those without HTTP first.
_MODULES = ("content", "errors", "login", "operations", "output", "storlets")

if not TYPE_CHECKING:  # else each name would be an attribute of any type

    def __getattr__(name: str) -> object:
        if name in __all__:
            from importlib import import_module  # noqa: PLC0415 - as of typing

            for module in _MODULES:
                found = getattr(import_module(f"{__name__}.{module}"), name, None)
                if found is not None:
                    globals()[name] = found
                    return found
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
