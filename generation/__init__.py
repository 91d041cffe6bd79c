"""Streams a language model's text, records every stream exactly, and lets people review and replay the records."""
