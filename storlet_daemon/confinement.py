"""The restrictions of a worker process, applied before it loads code, if the kernel has them."""

from __future__ import annotations

import dataclasses

from storlet_daemon import homes, kernel, landlock
from storlet_daemon.protocol.values import dataclass


@dataclass(frozen=True)
class Confinement:
    """Restrictions of the workers of a sandbox.

    ``landlock``: the kernel's version of Landlock, with which workers are separated from each
    other; 0 for none. ``descriptors``: workers can send descriptors to the supervisor only, because
    the kernel's sockets cannot refuse them. ``homes``: where each worker group has a folder of its
    own; empty outside of a sandbox. ``home``: the folder of this group.
    """

    landlock: int = 0
    descriptors: bool = False
    homes: str = ""
    home: str = ""

    @classmethod
    def of_this_kernel(cls, *, descriptors: bool, homes: str = "") -> Confinement:
        """The restrictions that this kernel supports and needs, or more with ``descriptors``."""
        needs_filter = descriptors or not kernel.can_refuse_descriptors()
        return cls(landlock.interface(), needs_filter, homes)

    def of_group(self, version: str) -> Confinement:
        """The restrictions of the workers of one storlet version."""
        if not self.homes:
            return self
        return dataclasses.replace(self, home=homes.path_of(self.homes, version))

    def apply(self, channel: int) -> int:
        """Restrict this process for good; the number of the ``channel`` to the supervisor then."""
        if self.home:
            homes.move_in(self.home)
        landlock.separate(self.landlock, self.homes, self.home)
        if not self.descriptors:
            return channel
        # An idle supervisor does without the module.
        from storlet_daemon import descriptor_filter  # noqa: PLC0415

        return descriptor_filter.confine(channel)
