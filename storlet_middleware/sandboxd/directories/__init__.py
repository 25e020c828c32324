"""The directories and files that sandboxd makes on a node.

``paths``         every path
``sandbox_dirs``  of these, the directory of a sandbox, with its sockets
``code_dirs``     and the storlet code of a tenant
``code_space``    eviction of storlet code
``filesystem``    directories and listening sockets with a fixed owner and mode
``lock``          one sandboxd per node
"""
