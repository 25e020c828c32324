"""The control groups of the node: one above all sandboxes, and one per storlet in each sandbox.

::

    /storlets-<node id>         all sandboxes together: memory, CPU weight and quota, processes
    │                           ([node] options)
    └── <container>             made and limited by Docker (hardening.py)
        └── storlet-<32 digits> the workers of one group: limits of the storlet, written by root

``hierarchy``  the trees of this host, version 1 or 2; files of a group: read, write, kill, remove
``limits``     limits as files and values, in the words of either version
``node``       the group above all sandboxes: make, remove, and remove what ended sandboxes left
``systemd``    the same group as a slice, where Docker uses systemd
``workers``    the groups of storlets: move workers into them, remove unused ones

Version 1 has one tree per controller, version 2 one tree for all.  On a *hybrid* host, which has
both, the controllers are those of version 1.  In version 2 a group has either processes or
children with controllers.  So before the first storlet's group is made, the container's own
processes are moved into a child ``init``; process 1 then forks new processes there.

A sandbox sees its own groups read-only, with its own group as the root.  Nothing inside can leave
a group or change a limit.

Where sandboxd runs in a container of its own, it sees neither the host's groups nor its pids
(:func:`hierarchy.in_sight`).  The sandboxes then have their own limits only, without totals and
without groups for storlets; sandboxd logs that once.
"""

from __future__ import annotations
