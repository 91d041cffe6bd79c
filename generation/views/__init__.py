"""HTTP endpoints: parse, call, respond."""
