"""The all-in-one cluster: ``make demo``, ``make up``, ``down``, ``status``, ``check``, ``test``.

Run as ``python3 -m storlet_middleware.aio COMMAND`` by any Python from 3.11 on, before anything is
installed: standard library only.  Only :mod:`~storlet_middleware.aio.rings` and
:mod:`~storlet_middleware.aio.serve` run in the cluster's Python environment, because they need
Swift.

Commands:

``cluster``      ``up``, ``down``, ``status``, ``start``, ``stop``
``demo``         the sample storlets, run and shown; ``client`` is its HTTP client;
                 ``demo_library``: SQL over a prefix, and a picture
``checks``       ``make check`` and ``make test``; ``sessions``: runs pytest, repeats failed tests
``release``      ``make release``: version, notes, commit and tag
``box``          the one-box image, and its main process; ``build``: the parts in it
``progress``     "step n of m", and the errors that end a command

The parts of a cluster:

``parts``        installs and builds all of them
``packages``     system packages
``venv``         the Python environment: pinned requirements, then this checkout as a thin layer
``engine``       the Docker engine: the running one, else one of our own; ``docker_api``: its calls
``java``         the Java parts
``native``       the native parts
``image``        the sandbox image: base, Java parts, our daemon
``cache``        parts that all clusters of a machine share
``matrix``       unit and library tests with each supported version of Python and Swift

A cluster:

``home``         its directories and short names; ``mounts``: bind mounts for these names
``settings``     its identity and remembered choices; ``ports``: its ports
``configs``      the text of every configuration file
``rings``        rings and ports
``programs``     its processes as a table; ``description``: ``cluster.json``
``startup``      directories, rings and processes, in order
``teardown``     removes everything that it left on the machine
``processes``    start, find and stop the cluster's processes, and no others
``keeper``       restarts sandboxd and the engine when they die, as systemd does in production
``serve``        a Swift server with a ``swift.conf`` of its own

Crash safety: ``/proc`` is the only record of running processes.  Every process of a cluster has
``STORLETS_AIO=<node id>/<name>`` in its environment.  So ``down`` finds what a killed ``up`` left,
a pid from before a reboot is never mistaken for a process of the cluster, and a cluster never
touches another one's processes.
"""
