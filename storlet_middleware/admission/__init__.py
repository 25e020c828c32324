"""Decides which invocations run on this node now, and which wait in the queue.

``controller``    acquires and releases slots
``queue``         the invocations of this process that wait, and their turns
``refusals``      the errors of invocations that got no slot
``node_counts``   the running and waiting invocations of the node; a decision about them
``groups``        the invocations of this process, by worker group
``fairness``      the account that is served next: a pure decision over counts
``shared_table``  the file in which the processes of a node publish their counts
``table_access``  opens that file, again after a fork and when it was replaced

It knows nothing of Swift or WSGI.
"""
