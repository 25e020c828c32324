"""Which invocations may run on this node now, and which wait.

``controller``     admits, queues and releases invocations
``shared_table``   the file in which all processes of a node count together
``fairness``       which account is served next: a pure decision over counts
"""
