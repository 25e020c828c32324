"""``storlet doctor``: problems of an account, each with the command that repairs it.

``check``     one result
``account``   login, cluster, client, clock, account; the order of all checks
``storlets``  languages, dependencies, and code that did not load
``grants``    grants without an effect
``places``    containers and objects that the caller names

No check changes anything: each is a request to read.
"""
