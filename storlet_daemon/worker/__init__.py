"""One resident Python worker: load a storlet once, run it for one connection after another.

================== ==========================================================================
``run_loop``       take connections, run the storlet, report each run; ``serve``, ``refuse``
``config``         the parameters of a worker: its descriptors, the storlet, its limits
``loader``         import the storlet's file and find its class
``streams``        the inputs, the output and the log of one run
``services``       requests to the store and its replies during a run
``stdio``          printed text: into the invocation's log during a run, discarded otherwise
``process_state``  restore the process after a run, or detect that it cannot be restored
``failure``        error code, summary and traceback of a failed run, for the storlet's author
================== ==========================================================================

A worker runs untrusted code in its own process. It guarantees only this: it reports success only if
the storlet returned and its output was closed without an error. The supervisor and the filter
enforce everything that must hold even against a hostile storlet: limits, deadlines, and the end of
its processes.
"""
