"""Flows: several storlets that one request of a client names.

``caller_requests``  requests in the caller's name, through the whole filter
``sequence``         ``std:sequence``: the steps of a request, one after the other
``distributed``      ``std:distributed``: a storlet on many objects
``distribution``     the body of such a request, parsed
``selection``        its objects
``parts``            objects, or their parts, that a split reads
``splits``           its storlet on each object, a few at a time
``merges``           a storlet over the outputs of the splits, as a tree
``spool``            its intermediate results
``stored_result``    its result as an object

A flow is code of the proxy.  It handles no data itself, and its storlets run in sandboxes like all
others.
"""
