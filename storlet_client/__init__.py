"""The part of the product that users install: it knows a cluster by HTTP only.

``builder``  makes bundles from projects
``bundle``   the format of bundles
"""
