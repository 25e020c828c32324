"""Black-box tests that break real processes, clients and disks, and look at what requests see of it."""
