"""Helpers that more than one folder of tests uses.

===================== ==========================================================================
:mod:`.accounts`      users, accounts and containers of a test cluster; unique names; ``/info``
:mod:`.brief`         short output of pytest for CI
:mod:`.cluster`       a cluster: bring up, attach, configure, stop, kill, logs, ``cluster.json``
:mod:`.host`          the host's view of a cluster: sandboxes, processes, descriptors, logs
:mod:`.http`          the HTTP client: whole requests, and raw connections
:mod:`.outcomes`      plugin of pytest: outcomes of a session as JSON, for the repetition of tests
:mod:`.proxies`       further proxies and memcached servers of a cluster
:mod:`.storlets`      storlets of the tests: build, upload, run, read what they return
:mod:`.streams`       the streams between servers and workers, from the kernel's tables
:mod:`.tenant`        an account with the misbehaving storlet of the probes and an object
:mod:`.waiting`       wait for a condition, with a deadline
===================== ==========================================================================
"""
