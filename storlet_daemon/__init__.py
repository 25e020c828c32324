"""Everything that runs inside a sandbox; Python's standard library and nothing else.

============== ======================================================================================
``protocol``   the messages between filter, sandbox and node daemon; imported by both sides
``supervisor`` process 1 of a sandbox: the control connection, signals and the clock
``groups``     the resident workers of each storlet version: started, cancelled, replaced, retired
``budget``     how many workers fit into a sandbox
``launch``     a worker is forked, with a descriptor table of its own
``poller``     one epoll, and a function for each descriptor in it
``runtimes``   a file and a table row per language: what it takes to start a worker
``worker``     one resident Python worker: load once, run many, report the outcome of each
``author``     what the author of a Python storlet sees
``kernel``     the few kernel facilities that Python's library does not wrap
``deferred``   modules that an idle sandbox does not hold, because nothing needed them yet
============== ======================================================================================

Importing this package does nothing.
"""
