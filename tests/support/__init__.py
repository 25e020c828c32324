"""Helpers that more than one folder of tests uses.

====================== =========================================================================
:mod:`.accounts`       users, accounts and containers of a test cluster; unique names; ``/info``
:mod:`.brief`          short output of pytest for CI
:mod:`.bundles`        bundles of storlets
:mod:`.children`       child processes of Swift's servers, without the time of their imports
:mod:`.client_package` the client's wheel, and environments with nothing else of the project
:mod:`.code`           Python code as a command of ``forking``, with the client imported
:mod:`.cluster`        a cluster: bring up, attach, configure, stop, kill, logs, ``cluster.json``
:mod:`.error_codes`    error codes that are literals in Python, Java and C
:mod:`.forked_servers` Swift's servers and sandboxd, without the time of their imports
:mod:`.forking`        commands of a package, without the time of its imports
:mod:`.forks`          processes of unit tests, without the time of their imports
:mod:`.freezing`       processes that are stopped, and continue later
:mod:`.host`           the host's view of a cluster: sandboxes, processes, descriptors, logs
:mod:`.http`           the HTTP client: whole requests, and raw connections
:mod:`.imports`        imports of test modules by workers, in shares
:mod:`.keystone`       a real Keystone, and a proxy whose callers it authenticates
:mod:`.local_node`     one ``storlet-local`` for all commands of a module
:mod:`.memory`         a folder for temporary files that no test needs on a disk
:mod:`.native`         shared objects, built from C; ``tested.h`` is what their sources share
:mod:`.once`           a folder that the first worker of pytest makes for all
:mod:`.outcomes`       plugin of pytest: outcomes of a session as JSON, for the repetition of tests
:mod:`.own_cluster`    a cluster that ends with its session
:mod:`.pairs`          values of two parameters for each test, without all pairs
:mod:`.property_tests` profiles of hypothesis: how many examples a property test has
:mod:`.proxies`        further proxies and memcached servers of a cluster
:mod:`.reports`        hook of pytest: a worker sends one report of a test that passes
:mod:`.scheduling`     scheduler of pytest-xdist: which worker takes which module
:mod:`.second_node`    a node of its own for one object server of a cluster
:mod:`.self_tests`     sandboxd, whose start repeats no self-test of an earlier one
:mod:`.sock_diag`      sockets of the host and their peers, from the kernel's table for ``ss``
:mod:`.storlets`       storlets of the tests: build, upload, run, read what they return
:mod:`.streams`        the streams between servers and workers, from the kernel's tables
:mod:`.tenant`         an account with the misbehaving storlet of the probes and an object
:mod:`.waiting`        wait for a condition, with a deadline
====================== =========================================================================
"""
