"""GET, PUT and COPY with a storlet at the proxy server.

In the order in which a run uses them:

``run``             one request that runs a storlet, or several
``shared``          what all requests of a process share, and the limit of concurrent runs
``steps``           the storlets of a run
``placement``       proxy or object node, with the reason
``plan``            what a rule wants of a run
``permissions``     may the caller run the storlets and write the result
``source``          the inputs, as Swift gives them to the caller
``object_nodes``    the attempt to run the first step where the object is
``execution``       runs the steps; knows neither WSGI nor Swift
``pipeline``        the result of several steps
``result``          a storlet's output on its way to a client or into the store
``disclosure``      which facts of source, run and error the caller sees
``response``        the answer to a GET
``store``           the PUT of a result
``stored_headers``  headers of a stored result, checked before the PUT begins
``completion``      log objects, the operator's log line, metrics
"""
