"""Theory: what arithmetic alone says.  Pure functions and small frozen dataclasses."""
