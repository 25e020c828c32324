"""``storlet-local``: runs storlets in real sandboxes on one machine, without a cluster.

``storlet run``, ``storlet test`` and ``storlet check`` of the client start it.  The sandbox comes
from :mod:`storlet_middleware.sandboxd` and the run from :mod:`storlet_middleware.engine`, so
supervisor, worker, limits, isolation and texts of errors are those of a node of a cluster.

::

    client --requests--> __main__ (owner) ---- storlet-sandboxd ---- Docker
                             |
                             '---------------- session (engine) ---- sandbox

``requests``  the lines of JSON between the client and this package
``node``      a node of its own: directories, options, ``storlet-sandboxd``, removal of everything
``bundles``   a bundle in a file, as one storlet version
``session``   the process that answers requests: one run after the other
``__main__``  the owner of both processes

Each start has a node of its own, which exists as long as the owner; the code of runs is deleted
with it.  The next start removes the leftovers of a killed owner.
"""
