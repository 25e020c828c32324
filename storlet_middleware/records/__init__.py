"""One record for each run of a storlet, kept in the account that the run belongs to.

``record``      the record, the one table of its fields, and the part of it that a caller sees
``wish``        the runs of which an account, or a storlet, requires records
``batches``     the objects that hold records: their names and their content
``queue``       records that wait to be written, bounded for each account
``store``       requests to Swift for these objects
``writer``      writes the queued records of a process every few seconds
``protection``  no client changes these objects, and only the owner reads them
``query``       the parameters of a request for records
``reader``      finds records, newest first, with bounded work
``follow``      records as they are written, and log lines of running storlets
``followed``    the mark of an account whose log lines are followed
``lines``       stores the log lines of such an account while its storlets run
``answers``     ``GET /v1/ACCOUNT?storlet-runs``

The data path only makes a record and queues it::

    proxy.completion --> Record --> writer --> <log_container>/.runs/<time>-<random>.jsonl
                            |
                            '--> the operator's log line

A record holds what was known about the run when it ended; the operator's log line is made from the
same value.
"""
