"""The part of the product that users install: it knows a cluster by HTTP only.

``bundle``  the format of bundles
"""
