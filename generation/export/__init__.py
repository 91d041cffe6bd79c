"""Streams as files: a queryset in, chunks of whole lines out (CSV, JSON lines, deltas, messages)."""

from generation.export.reading import Chunk, ExportFormat, chunks, read_in_threads

__all__ = ["Chunk", "ExportFormat", "chunks", "read_in_threads"]
