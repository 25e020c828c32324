"""The execution of steps; most tests run it through the filter."""
