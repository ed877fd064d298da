"""Ray Serve LLM: a plan as the configuration of its two application builders, deployed and held to account."""
