"""Everything that runs beside Swift: the filter, its engine, the node's sandbox daemon, the
all-in-one cluster.

From the request down to the sandbox; a package imports from the lines below it only, and the
import-linter contract ``storlet_middleware in layers`` checks that:

``filter``          paste entry point; the way of a request through all of this
``routes``          what the filter itself does with a request
``error_answers``   the one place that turns errors into answers
``enforcement``     what an account's rules do to a request
``proxy``           GET, PUT and COPY with a storlet, at the proxy server
``object_server``   GET with a storlet, at the object server that holds the data
``ruleset``         how rules come into force, and where they are kept
``catalog``         storlets and dependencies as objects of the account
``backend``         what travels between a proxy server and an object server
``wsgi``            requests, callers, authorization, bodies and answers
``engine``          turns an invocation into a result; knows nothing of Swift
``sandboxd``        the one process of a node that talks to Docker
``admission``       which invocations may run on this node now, and which wait

Shared by all of them: ``config``, ``names``, ``errors`` and ``metrics`` are the tables of options,
headers, errors and metrics; ``concurrency`` is the only import of eventlet; ``keys`` names
sandboxes and accounts by hashes; ``node_memory`` and ``self_test`` read facts of the node.

Beside them: ``cli``, the operator's commands, and ``aio``, the cluster behind ``make demo`` and
``make test``.

Importing this package does nothing.
"""
