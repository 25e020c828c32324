"""Black-box tests over HTTP: real Swift, real Docker, the samples and storlets of their own."""
