"""A KV connector to learn from: prefill keeps blocks under a lease, decode pulls them over TCP.

``wire`` is what goes over the socket, ``leases`` is who may still ask, ``connector`` is the half
that vLLM calls.  Only the last needs vLLM.  Start a server with it by

    {"kv_connector": "TcpConnector", "kv_connector_module_path": "pdlab.live.tcpkv.connector",
     "kv_role": "kv_producer", "kv_connector_extra_config": {"port": 5800}}
"""
