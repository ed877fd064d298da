"""Six KV connectors, each asked to do the same work, and a table of what they did.

``kinds`` says how each is configured and asked, ``measure`` runs one pair, ``run`` runs them all in
a network namespace of their own, ``table`` turns the stored rows into what is printed and shown in
``labs/connectors``.  ``env`` is the layer with the packages that only some of them need; ``mooncake``
is the half that runs inside vLLM.
"""
