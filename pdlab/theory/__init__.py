"""Theory: KV sizes, links and rooflines.  Pure functions; no input or output."""
