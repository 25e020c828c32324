"""sandboxd over its real sockets, with real processes as supervisors; only Docker is a double."""
