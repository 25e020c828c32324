"""Everything that runs beside Swift: the filter, its engine, the node's sandbox daemon, the all-in-one tooling.

``filter``      paste entry point and routing: not ours -> pass through; ours -> one handler; error -> one answer
``request``     client headers and query -> a frozen value, with all faults at once
``placement``   proxy or object node, and why
``proxy``       GET, PUT and COPY with a storlet, at the proxy server
``object``      GET with a storlet, at the object server that holds the data
``backend``     what the proxy tells the object node about an invocation
``frames``      the framed answer between those two
``result``      a storlet's output, wherever it ran; ``sources``: the inputs that come through Swift
``access``      asks Swift's own authorisation; ``grants``: who may read only through a storlet
``catalog``     storlets as objects of the tenant: upload checks, resolution to one exact version
``manifest``    what a tenant declares about a storlet or a dependency
``code``        one exact version of a storlet, and its copy on a node; ``launch``: starts an invocation here
``admission``   who may run on this node now, and who waits; ``shares``: whose turn it is; ``admission_table``: the file in which
                a node's processes count together
``engine``      turns an invocation into a result; knows nothing of Swift
``sandboxd``    the one process of a node that talks to Docker
``aio``         the all-in-one cluster behind ``make demo`` and ``make test``

``config``, ``names``, ``errors`` and ``metrics`` are the tables that all share; ``concurrency`` is the only import of eventlet,
``client_watch`` notices clients that have left.

Importing this package does nothing.
"""
