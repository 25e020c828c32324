"""GET, PUT and COPY with a storlet at the proxy server.

In the order of their use by a run:

``run``             one request that runs a storlet, or several
``shared``          objects shared by all requests of a process; the limit of concurrent runs
``requested_steps`` the steps of a run: one storlet each, requested by a client or a rule
``placement``       proxy or object node, with the reason
``plan``            a rule's requirements of a run
``permissions``     checks that the caller may run the storlets and write the result
``resolution``      resolves each storlet to one version, which the request must fit
``source``          the inputs: the source or the client's body, and extra resources
``caller_reads``    reads of objects, as the caller can read them from Swift
``openings``        the limits of opening inputs, by account
``ranged_source``   an object in which a storlet can seek
``object_nodes``    attempts to run the first step on a node that has the object
``circuit_breaker`` object nodes that could not run storlets lately
``execution``       runs the steps, and has their results; knows neither WSGI nor Swift
``run_secrets``     the secrets of the run's storlets
``run_services``    the services of the run's storlets, which request the store
``disclosure``      the facts of source, run and error that the caller sees
``run_headers``     the headers of an answer that describe the run
``output_range``    the range of a result that a client requests, and its check
``response``        the answer to a GET
``store``           the PUT of a result
``stored_outputs``  further outputs and created objects, and the commit of all
``withheld_put``    a PUT whose end is withheld until the run has succeeded
``buffers``         memory of results that wait to be stored, by account
``output_hash``     the hash of an output, for its record
``times``           the timestamps of a run
``ending``          how a run has ended
``completion``      the record of a run
``log_objects``     the requested logs as objects
``reports``         the operator's log lines and metrics
"""
