"""Data between a proxy server and an object server.

``invocation_header``  the description of an invocation, in headers of the backend request
``frames``             the format of the framed answer
``framed_etag``        the ETag of a framed answer: its node and its source
``refusals``           an object node's reasons for not running the storlet, in an answer header
``overflow``           modes of a node without a free slot
"""
