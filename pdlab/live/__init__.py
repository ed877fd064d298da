"""Live: real servers, the router and the load client.  Engines are started only when asked."""
