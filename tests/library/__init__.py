"""Storlets of the system library, in the process of the test; most are compared with a slow
reference of their own.  Without Docker, Java or network.
"""
