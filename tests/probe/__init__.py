"""Black-box tests that break real processes, connections and disks, and check the answers of
requests."""
