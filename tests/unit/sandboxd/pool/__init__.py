"""The sandboxes of a node, with real processes as supervisors."""
