"""Black-box tests over HTTP: real Swift, real Docker, the sample storlets and storlets of the
tests."""
