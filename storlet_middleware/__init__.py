"""The parts that run beside Swift: filter, engine, sandbox daemon of the node, all-in-one cluster.

From the request down to the sandbox; a package imports from the lines below it only.  The
import-linter contract ``storlet_middleware in layers`` checks that.

``filter``          paste entry point; the path of a request through the packages
``routes``          the filter's own handling of a request
``error_answers``   the one place that turns errors into answers
``enforcement``     applies the rules of accounts to requests
``flows``           several storlets that one request of a client names
``proxy``           GET, PUT and COPY with a storlet, at the proxy server
``object_server``   GET with a storlet, at the object server that holds the data
``services``        requests of a running storlet to the store, in the name of its caller
``ruleset``         how rules come into force, and where they are kept
``catalog``         storlets and dependencies as objects of the account
``records``         one record for each run, in the log container of the account
``account_secrets`` values that storlets of an account use, and no caller reads
``backend``         the protocol between a proxy server and an object server
``wsgi``            requests, callers, authorization, bodies and answers
``engine``          turns an invocation into a result; knows nothing of Swift
``sandboxd``        the one process of a node that talks to Docker
``admission``       slots for invocations on this node, and the queue for them

``bundle``          the format of bundles; a link to ``storlet_client/bundle``

Shared by all of them: ``config``, ``names``, ``errors`` and ``metrics`` are the tables of options,
headers, errors and metrics.  ``concurrency`` imports eventlet; ``keys`` names sandboxes and
accounts by hashes, and ``code_folders`` the folders of their code.  ``child``, ``child_limits`` and
``check_slots`` bound work on hostile input, and ``shared_bytes`` what an account uses of a process.
``lru_cache`` is a cache with a bound in bytes.  ``node_memory``, ``self_test`` and ``trial_host``
read facts of the node, and ``recon`` publishes some for monitoring.

``s3select`` is Swift's filter of the S3 API with S3 Select, a filter of its own.

Beside them: ``cli``, the operator's commands; ``local``, sandboxes on the machine of an author;
``aio``, the cluster behind ``make demo`` and ``make test``; and ``reference``, which writes the
reference pages.

Importing this package does nothing.
"""
