"""One sandbox.

``sandbox``        its life, from start or adoption to removal
``container``      its container in Docker
``supervisor``     its process 1: hello, connection, pid
``worker_groups``  its loaded storlets: load, publish, unload
``process``        process 1, killed before Docker removes the container
"""
