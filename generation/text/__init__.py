"""Token ids, bytes or text in, deltas out: nothing lost, nothing taken back, and a note of everything that waited."""

from generation.text.detokenizer import Tier, Vocabulary
from generation.text.holds import HoldLedger, HoldTotals
from generation.text.pipeline import BytesPipeline, PiecesPipeline, Pipeline, TextPipeline
from generation.text.proof import Proof, Verdict, prove
from generation.text.stop_strings import check_stops

__all__ = [
    "BytesPipeline",
    "HoldLedger",
    "HoldTotals",
    "PiecesPipeline",
    "Pipeline",
    "Proof",
    "TextPipeline",
    "Tier",
    "Verdict",
    "Vocabulary",
    "check_stops",
    "prove",
]
