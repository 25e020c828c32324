"""GET with a storlet at the object server that stores the data; answers the proxy in frames.

``node``          WSGI filter: decides between frames, plain data and a refusal
``framed_run``    one invocation on an object's file, and its framed answer
``plain_object``  which answers of the object server are plain objects, and their files
``health``        the reports of a node that cannot run storlets: log, metrics, recon
``code_fetcher``  fetches storlet code with Swift's internal client
"""
