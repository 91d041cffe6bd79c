"""Corpora of prompts through a backend, and stored streams played again; what the shell commands are made of.

A corpus: `corpus` reads it, `runner` carries it out, `progress` and `summary` tell of it. A stored stream:
`stored_frames` reads it, `pacing` gives it its time back.
"""
