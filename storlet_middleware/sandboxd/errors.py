"""What can go wrong in sandboxd, below the answers to filters.

::

    SandboxdFault
    ├── StartupFault          sandboxd cannot run: another one does, a path or an option is unusable
    ├── IdentityFault         no uid for a tenant
    ├── PlaceFault            a directory or socket cannot be made, or is not what it must be
    ├── MountMissing          a directory of the host that a trust class is given is not there
    ├── MountFault            a directory cannot be shown to a running sandbox
    ├── EngineFault           Docker refused
    │   ├── EngineUnavailable   Docker does not answer
    │   ├── ImageMissing        the sandbox image is not there
    │   └── NameTaken           a container of that name exists
    ├── SandboxLost           the supervisor, and with it the sandbox, is gone or does not answer
    │   └── SandboxWeak         it came up weaker than configured, and must not be used
    └── LoadRefused           a live supervisor refused a storlet

``pool`` turns each into one of the four answers that a filter can get (``storlet_middleware.errors``: bad request, node
busy, sandbox unavailable, internal); ``__main__`` prints the ones that end the process.
"""

from __future__ import annotations


class SandboxdFault(Exception):
    """Base of all; the text is one line for an operator."""


class StartupFault(SandboxdFault):
    """sandboxd cannot run."""


class IdentityFault(SandboxdFault):
    """No uid can be given; the text says why and what an operator can do."""


class PlaceFault(SandboxdFault):
    """A path of ours cannot be made, or somebody else's thing is there."""


class MountMissing(SandboxdFault):
    """A directory that the configuration gives to a trust class is not on this node."""


class MountFault(SandboxdFault):
    """A directory cannot be mounted in a sandbox that runs already."""


class EngineFault(SandboxdFault):
    """Docker refused what we asked."""


class EngineUnavailable(EngineFault):
    """Docker does not answer."""


class ImageMissing(EngineFault):
    """The sandbox image is not on this node."""


class NameTaken(EngineFault):
    """A container of that name exists."""


class SandboxLost(SandboxdFault):
    """The sandbox ended, or its supervisor does not answer any more."""


class SandboxWeak(SandboxLost):
    """What its kernel says of the sandbox is weaker than what was asked for; the text names the rows of the table."""


class LoadRefused(SandboxdFault):
    """The supervisor lives and refused a command."""
