"""Turns an invocation into a result; knows nothing of Swift.

``invocation``      one run: descriptors and their owners, events, deadlines, cancel
``feed``            green tasks that copy a source into a pipe that a storlet reads
``sandbox_client``  asks sandboxd for a sandbox and connects to a worker group

The same engine serves a filter inside Swift and a function that is run against a local file.
"""
