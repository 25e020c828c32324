"""Turns an invocation into a result; independent of Swift and WSGI.

``task``             the description of an invocation: inputs, parameters, deadlines, limits
``limits``           the four levels of limits, and the limits of one invocation
``launcher``         starts an invocation: slot, code, sandbox, worker
``storlet_version``  one exact version of a storlet and its dependencies
``code_cache``       copies of storlet code on the node
``fetch_lock``       the lock of one fetch of code
``unpack_process``   the child process that unpacks a bundle
``sandbox_client``   requests sandboxes from sandboxd and connects to worker groups
``invocation``       one run: start and cancel
``events``           the events of the worker, and waits until deadlines
``connection``       the socket to the worker
``handover``         the message that starts a run, and the descriptors that travel with it
``inputs``           files and sources that the storlet reads
``feed``             green tasks that copy a source into a stream that a storlet reads
``services``         the seam to the services of a run
``output``           the bytes of all outputs, and the check of their metadata
``output_stream``    a stream that the storlet writes, and the pace of all readers of a run
``first_output``     the reader of the first output
``further_outputs``  outputs after the first, each with a task that gives it to its receiver
``run_log``          the log of a run, in a memory file
``log_pieces``       the log in pieces, for callers that follow a run
``failure``          the first failure of a task of an invocation
``progress``         deadlines, and the time that counts for them
``start_times``      the parts of the time until a worker has begun

The same engine serves a filter inside Swift and a storlet that is run against a local file.
"""
