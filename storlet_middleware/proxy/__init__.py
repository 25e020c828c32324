"""GET, PUT and COPY with a storlet at the proxy server.

``run``             one request that runs a storlet, or several
``placement``       proxy or object node, with the reason
``plan``            what a rule asks of a run
``pipeline``        several storlets on one request
``result``          a storlet's output on its way to a client or into the store
``stored_headers``  headers of a stored result, checked before a PUT begins
"""
