"""Native storlets: programs, and functions of shared objects.

``runtime``  starts their workers
"""
