"""Flows: several storlets that one request of a client names.

``caller_requests``  requests in the caller's name, through the whole filter
``sequence``         ``std:sequence``: the steps of a request, one after the other

A flow is code of the proxy.  It handles no data itself, and its storlets run in sandboxes like all
others.
"""
