"""The sandboxes of a node: which there are, and every way in which one begins or ends.

``pool``       answers the requests of filters, and connects the parts below
``table``      which sandboxes there are: one entry per key, and those that drain
``starts``     a sandbox for a tenant: a pre-warmed one, else a new container
``spares``     pre-warmed sandboxes: started ahead, assigned once
``eviction``   idle sandboxes: evicted when the node is full, stopped after a while
``endings``    lost, failed and retired sandboxes; removals
``backoff``    delay before a sandbox that ended repeatedly is started again
``adoption``   sandboxes that an earlier sandboxd left running
``sweep``      removal of containers and control groups that no sandbox owns
``code_use``   which storlet code is in use
"""
