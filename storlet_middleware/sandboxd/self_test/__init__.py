"""The self-test of a node: a trust class is closed until a sandbox of it has passed.

``gate``        the state of each class, and the load that waits for it
``self_tests``  runs the self-test in a sandbox that is made for it
``plans``       the plans of these sandboxes

The test itself runs in the sandbox (:mod:`storlet_daemon.selftest`).
"""
