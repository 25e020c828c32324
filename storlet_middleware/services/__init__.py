"""Services: requests of a running storlet to the store, in the caller's name.

``channel``     the socket to the worker: reads requests, bounds them, and has each one performed
``replies``     sends replies, also of failures, on the same socket
``reply_streams``  the streams of bytes that the storlet reads
``quota``       counts operations and bytes, and bounds them
``operations``  the request to the store, and the reply, for each kind of message
``changes``     of these, the requests that change an object
``calls``       of these, the requests that run another storlet
``call_input``  the input of a called storlet, which the calling one writes
``facts``       the facts about an object in an answer of the store
``creations``   of these, the objects that are stored when the run succeeds
``requests``    one request to the store, which enters at the filter like the caller's own
``identity``    the caller of a run, and whether the run may have services
``nesting``     runs inside each other: cycles, depth, pace, and their end with the outer run

Every operation is a WSGI request with the identity of the caller of the run.  It enters the proxy's
filter again, so authorization, rules and the guards of large objects and links are those of a
client's request, by the same code.  No credential enters a sandbox, and no grant of the outer run
holds for the operation.  See ``docs/decisions/0033-services.rst`` and ``0036-calls.rst``.
"""
