"""The benchmark as typed data: conversations and probes. Only `gold`, `loading` and `probes` reach gold."""
