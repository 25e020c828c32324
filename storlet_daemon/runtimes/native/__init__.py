"""Native storlets: programs, and functions of shared objects."""
