"""Live: real servers, the router and the load client.  Engines are started only when asked."""

LOOPBACK = "127.0.0.1"  # where everything listens that nobody elsewhere has to reach
