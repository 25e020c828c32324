"""``storlet-sandboxd``: the one process of a node that owns every sandbox and talks to Docker.

``server``     the node's control socket: requests of the filters (prepare, load, status) and their answers
``pool``       tenants -> sandboxes: started once, evicted, stopped when idle, backed off, adopted, swept
``sandbox``    one sandbox: its container, its sockets, its groups; from start or adoption to the end
``gate``       which trust classes may be used: the result of a self-test in a sandbox of each
``control``    the connection to one supervisor: hello, numbered requests, loss
``places``     every path on the node that sandboxd makes, with owner and mode
``plan``       what a sandbox is made from: key, uid, the body of Docker's ``create``; what may be adopted
``process``    process 1 of a sandbox, killed: its memory is free before Docker has removed the container
``backoff``    how long to leave a sandbox alone that ends again and again
``checks``     names that filters send, before they become paths, arguments and labels
``identity``   (account, trust class) -> uid and gid, persistent, never given to another
``hardening``  the ordered table of Docker arguments; each row says against what
``docker``     the only import of docker-py
``errors``     what can go wrong below the answers to filters
``keys``, ``threads``, ``wording``   names by hash; blocking calls beside the loop; other people's text in our log

It is not on the path of a warm invocation: filters keep the path of a storlet's socket and connect to it directly.
When sandboxd dies, running sandboxes go on serving; the next sandboxd adopts them.

One asyncio loop owns all state, so there are no locks between threads; only Docker's blocking calls and ``fsync`` run in
a few helper threads, and they return values and touch nothing.
"""

from __future__ import annotations
