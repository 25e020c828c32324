"""What travels between a proxy server and an object server.

``invocation_header``   the description of an invocation in the backend request
``frames``              the framed answer
"""
