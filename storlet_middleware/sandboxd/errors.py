"""The faults of sandboxd, below the answers to filters.

::

    SandboxdFault
    ├── StartupFault          sandboxd cannot run: another one runs, an option is unusable
    ├── IdentityFault         no uid for a tenant
    ├── PathFault             a directory or socket cannot be made, or has the wrong owner
    ├── MountMissing          a directory of the host that a trust class mounts does not exist
    ├── MountFault            a directory cannot be mounted in a running sandbox
    ├── EngineFault           Docker refused
    │   ├── EngineUnavailable   Docker does not answer
    │   ├── ImageMissing        the sandbox image does not exist
    │   └── NameTaken           a container of that name exists
    ├── SandboxLost           the sandbox ended, or its supervisor does not answer
    │   └── SandboxWeak         it is weaker than configured, and must not be used
    └── LoadRefused           a live supervisor refused a storlet

``pool`` turns each into one of the answers that a filter can get (``storlet_middleware.errors``);
``__main__`` prints the faults that end the process.
"""

from __future__ import annotations


class SandboxdFault(Exception):
    """Base class; the text is one line for an operator."""


class StartupFault(SandboxdFault):
    """sandboxd cannot run."""


class IdentityFault(SandboxdFault):
    """No uid is available; the text has the reason and the remedy."""


class PathFault(SandboxdFault):
    """A path of sandboxd cannot be made, or belongs to another user."""


class MountMissing(SandboxdFault):
    """A directory that a trust class mounts does not exist on this node."""


class MountFault(SandboxdFault):
    """A directory cannot be mounted in a running sandbox."""


class EngineFault(SandboxdFault):
    """Docker refused a request."""


class EngineUnavailable(EngineFault):
    """Docker does not answer."""


class ImageMissing(EngineFault):
    """The sandbox image does not exist on this node."""


class NameTaken(EngineFault):
    """A container of that name exists."""


class SandboxLost(SandboxdFault):
    """The sandbox ended, or its supervisor does not answer."""


class SandboxWeak(SandboxLost):
    """The sandbox is weaker than configured; the text names rows of ``hardening.TABLE``."""


class LoadRefused(SandboxdFault):
    """A live supervisor refused a command."""
