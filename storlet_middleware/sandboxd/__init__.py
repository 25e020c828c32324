"""``storlet-sandboxd``: owns every sandbox of a node; the only process that talks to Docker.

Requests:

``server``         the node's control socket: requests of the filters (prepare, load, status)
``pool``           answers them, and connects the parts below
``checks``         validation of names before they become paths, arguments and labels

The sandboxes of the node:

``table``          which sandboxes there are: one entry per key, and those that drain
``starts``         a sandbox for a tenant: a pre-warmed one, else a new container
``spares``         pre-warmed sandboxes: started ahead, assigned once
``eviction``       idle sandboxes: evicted when the node is full, stopped after a while
``endings``        lost, failed and retired sandboxes; removals
``backoff``        delay before a sandbox that ended repeatedly is started again
``adoption``       sandboxes that an earlier sandboxd left running
``sweep``          removal of containers and control groups that no sandbox owns
``gate``           trust classes are closed until their self-test has passed
``self_tests``     runs the self-test of a trust class in a sandbox that is made for it
``self_test_plans``  the plans of these sandboxes

One sandbox:

``plan``           its key, uid, and the body of Docker's ``create``
``hardening``      the table of Docker arguments; each row names the attack it prevents
``seccomp``        the system calls that it may make
``sandbox``        its life, from start or adoption to removal
``container``      its container in Docker
``supervisor``     its process 1: hello, connection, pid
``control``        the protocol of that connection: numbered requests, loss
``cpu_share``      the CPU time that its messages may take
``worker_groups``  its loaded storlets: load, publish, unload
``readback``       the report of its kernel, compared with the plan
``mounting``       a tenant's code directory, mounted in a running pre-warmed sandbox
``process``        process 1, killed before Docker removes the container

The node:

``node``           the context of all sandboxes
``paths``          every path that sandboxd makes; ``sandbox_dirs`` and ``code_dirs``: parts of it
``filesystem``     directories and listening sockets with a fixed owner and mode
``lock``           one sandboxd per node
``acceptor``       accepts connections, also after descriptors ran out
``identity``       (account, trust class) -> uid and gid, persistent, never reused
``cgroups``        control groups: totals of the node, limits of single storlets
``code_space``     eviction of storlet code; ``code_use``: which code is in use
``docker``         the only import of docker-py
``statsd``         counters and timers over UDP
``background``, ``threads``   tasks beside the requests; blocking calls beside the loop
``errors``, ``wording``       faults below the answers to filters; untrusted text in the log

It is not on the path of a warm invocation: filters keep the path of a storlet's socket and connect
to it directly.  When sandboxd dies, running sandboxes keep serving; the next sandboxd adopts them.

One asyncio loop owns all state, so there are no locks between threads.  Only blocking calls
(Docker, ``fsync``, control groups) run in threads; they return values and share no state.
"""

from __future__ import annotations
