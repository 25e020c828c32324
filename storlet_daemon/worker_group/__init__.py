"""The worker group of one storlet version, as the supervisor sees it.

================== =============================================================================
``group``          the group: commands of the node daemon, the clock, the end of a worker process
``reports``        the reports of workers on their channels, and their handling
``cancellation``   runs that last, filters that disconnect, workers that are stopped and killed
``scaling``        when one more worker is started, and when an idle one is retired
``starting``       start a worker: fork, placement into control groups, release
``policing``       limits that the kernel does not enforce: scratch space, CPU use while idle
``exit_cause``     the cause of a worker's death: the error code and text for its invocation
``group_state``    the state that these modules share
``worker_process`` one worker process and its state
================== =============================================================================

The states of a worker::

    WAITING --placed, or PLACE_SECONDS--> LOADING
    LOADING --ready--> IDLE <--begin / end--> BUSY
    LOADING --load_failed--> REFUSING (answers every invocation with the reason)
    IDLE, BUSY --end(recycle), hang-up, load too long, ...--> ENDING --exit--> removed

Independent of its state a worker may be retiring: its channel is shut down, and it exits when it
has nothing to do.

A worker is not trusted: a report can harm no other storlet. A connection that a worker reports must
be new and must be the filter's. A worker that uses CPU time while it reports to be idle is killed.
"""
