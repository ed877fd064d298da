"""Break a live prefill/decode pair on purpose, each time at a moment that a server itself shows.

``scene`` watches and talks, ``catalogue`` breaks, ``table`` runs the catalogue and writes what was
seen.  No fault waits for a length of time and hopes: it waits for a counter or a state, and if that
never comes it says that it could not be injected.
"""
