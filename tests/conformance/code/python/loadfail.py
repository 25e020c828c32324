"""Cannot be imported."""

print("about to fail")

raise ImportError("no such luck")
