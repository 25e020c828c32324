"""Directories, files and sockets in a temporary directory."""
