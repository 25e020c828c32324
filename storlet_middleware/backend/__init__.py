"""Data between a proxy server and an object server.

``invocation_header``  the description of an invocation, in headers of the backend request
``frames``             the format of the framed answer
``refusals``           an object node's reasons for not running the storlet, in an answer header
``overflow``           modes of a node without a free slot
"""
