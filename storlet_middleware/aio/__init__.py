"""The all-in-one cluster: everything behind ``make demo``, ``make up``, ``make down``, ``make status`` and ``make test``.

Run as ``python3 -m storlet_middleware.aio COMMAND`` by any Python from 3.11 on, before anything is installed: standard
library only.  :mod:`~storlet_middleware.aio.rings` alone runs inside the virtual environment, because it needs Swift.

``home``        where a cluster lives (``STORLETS_HOME``, ``STORLETS_CONF``), its identity, its ports
``packages``    the system packages it needs
``venv``        the Python environment: pinned requirements, then our own code as a thin layer on top
``engine``      the Docker engine: use the one that answers, else start one
``docker_api``  the few calls of the engine's HTTP interface that are needed here
``image``       the sandbox image: base, Java parts, our daemon
``configs``     the text of every configuration file
``rings``       rings and ports
``processes``   start, find and stop the cluster's processes, and no others
``keeper``      restarts sandboxd and the engine when they die, as systemd does in production; bounds the logs
``cluster``     ``up``, ``down``, ``status``, ``start``, ``stop``
``demo``        the sample storlets, run and shown
``checks``      ``make check`` and ``make test``
``progress``    step n of m, and the errors that end a command

How a crash is survived: nothing is believed that ``/proc`` can tell.  Every process of a cluster carries
``STORLETS_AIO=<node id>/<name>`` in its environment, so ``down`` finds what a killed ``up`` left, after a reboot no stale
number can be mistaken for a process of ours, and a cluster never touches another one's.
"""
