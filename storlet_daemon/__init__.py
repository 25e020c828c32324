"""Everything that runs inside a sandbox, with Python's standard library only.

====================== ============================================================================
``protocol``           the messages between filter, sandbox and node daemon; both sides import it
``supervisor``         process 1 of a sandbox: dispatches commands, signals and the clock
``control_connection`` the supervisor's connection to the node daemon
``worker_groups``      all worker groups of the sandbox, and the room that they share
``worker_group``       the workers of one storlet version: started, cancelled, replaced, retired
``worker``             one resident Python worker: load once, run many times, report each run
``runtimes``           the table of languages, and how the workers of each are started
``author``             the classes that the author of a Python storlet uses
``launch``             fork a worker with a separate descriptor table
``confinement``        the restrictions of workers: the kernel's Landlock, and fewer system calls
``homes``              the private folder of each worker group
``landlock``           separate the processes and private folders of workers from each other
``descriptor_filter``  confine the sending of descriptors, on older kernels
``budget``             the number of workers that fit into a sandbox
``idle``               CPU use of workers that report to be idle
``sweeper``            kill leftover processes of dead workers
``cleaner``            when shared folders are emptied, and of what
``scratch``            empty the scratch space
``assignment``         assign a pre-warmed sandbox: drop all privileges
``attempts``           run the self-test in a child process
``selftest``           the tests that try to break out of a sandbox
``inspection``         the files that show the actual limits and mounts of the sandbox
``control_groups``     the kernel's counters of the sandbox and of each worker group
``poller``             one epoll, with a handler per descriptor
``kernel``             kernel interfaces that Python's library does not have
``deferred``           modules that are imported on first use, to keep an idle sandbox small
====================== ============================================================================

Importing this package has no side effects.
"""
