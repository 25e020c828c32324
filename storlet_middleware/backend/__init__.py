"""What travels between a proxy server and an object server.

``invocation_header``  the description of an invocation, in headers of the backend request
``frames``             the format of the framed answer
``refusals``           why an object node did not run the storlet, in a header of the answer
``overflow``           what a node without a free slot does with an invocation
"""
