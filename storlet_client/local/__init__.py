"""Runs the storlet of a Python project here, without a cluster and without a sandbox.

``author``  the interface of authors: the same code that runs in sandboxes
``run``     one run in this process, for debuggers
``cases``   the cases of ``storlet.toml``, each in a process of its own
"""
