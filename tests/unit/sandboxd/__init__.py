"""sandboxd over its real sockets, with real processes as supervisors and a double in the place of Docker only."""
