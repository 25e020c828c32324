"""``storlet-sandboxd``: owns every sandbox of a node; the only process that talks to Docker.

``server``       the node's control socket: requests of the filters (prepare, load, status)
``checks``       validation of names before they become paths, arguments and labels
``pool``         the sandboxes of the node: starts, spares, eviction, adoption, endings
``self_test``    trust classes are closed until their self-test has passed
``sandbox``      one sandbox: container, supervisor, worker groups

A sandbox, before it runs and from outside:

``plan``         its key, uid, and the body of Docker's ``create``
``hardening``    the table of Docker arguments; each row names the attack it prevents
``seccomp``      the system calls that it may make
``readback``     the report of its kernel, compared with the plan
``mounting``     a tenant's code directory, mounted in a running pre-warmed sandbox
``control``      the protocol with its supervisor: numbered requests, loss
``cpu_share``    the CPU time that its messages may take

The node:

``node``         the context of all sandboxes
``directories``  every path that sandboxd makes
``identity``     (account, trust class) -> uid and gid, persistent, never reused
``cgroups``      control groups: totals of the node, limits of single storlets
``docker``       the only import of docker-py
``acceptor``     accepts connections, also after descriptors ran out
``statsd``       counters and timers over UDP
``background``, ``threads``   tasks beside the requests; blocking calls beside the loop
``errors``, ``wording``       faults below the answers to filters; untrusted text in the log

It is not on the path of a warm invocation: filters keep the path of a storlet's socket and connect
to it directly.  When sandboxd dies, running sandboxes keep serving; the next sandboxd adopts them.

One asyncio loop owns all state, so there are no locks between threads.  Only blocking calls
(Docker, ``fsync``, control groups) run in threads; they return values and share no state.
"""

from __future__ import annotations
