"""How a model's weights are kept in memory, and what was measured before int8 ones may be chosen by themselves.

``int8`` is a hybrid: few rows at once are computed with int8 weights, which halves the memory that a step reads, more
rows with bf16 ones. Its figures lie in a file of the model's folder. Imports no torch.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

QUALITY_FILE = "int8_quality.json"
TEXT_FILE = Path(__file__).parent / "data" / "quality_text.txt"
#: What int8 weights may cost at most on the fixed text, in nats a token against bf16 and against f32 …
MOST_KL = 0.02
#: … and in how many of 100 places they must name the same most likely token.
LEAST_AGREEMENT = 0.9


class Weights(StrEnum):
    """What STREAMSITE_WEIGHTS may be."""

    AUTO = "auto"
    BF16 = "bf16"
    INT8 = "int8"
    F32 = "f32"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How far int8 weights are from others: mean KL divergence in nats a token, and the share of equal top tokens."""

    kl: float
    agreement: float

    @property
    def is_small(self) -> bool:
        """Whether people may be given int8 weights without having asked for them."""
        return self.kl <= MOST_KL and self.agreement >= LEAST_AGREEMENT

    def __str__(self) -> str:
        return f"KL {self.kl:.4f}, same top token {self.agreement:.1%}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Int8Quality:
    """What was measured on the first ``tokens`` of the fixed text, every token computed with int8 weights."""

    tokens: int
    to_bf16: Difference
    to_f32: Difference

    @property
    def passes(self) -> bool:
        """Whether `Weights.AUTO` may be int8."""
        return self.to_bf16.is_small and self.to_f32.is_small

    def __str__(self) -> str:
        verdict = "good enough" if self.passes else "not good enough to be the default"
        return f"{self.to_bf16} against bf16; {self.to_f32} against f32 ({self.tokens} tokens): {verdict}"


def is_measured(folder: Path) -> bool:
    """Whether the folder has figures, or the note that there are none to be had."""
    return (folder / QUALITY_FILE).is_file()


def read_quality(folder: Path) -> Int8Quality | None:
    """The folder's figures; None where nothing was measured, or cannot be for this kind of model."""
    try:
        values = json.loads((folder / QUALITY_FILE).read_text(encoding="utf-8"))
        if values is None:
            return None
        return Int8Quality(
            tokens=values["tokens"], to_bf16=Difference(**values["to_bf16"]), to_f32=Difference(**values["to_f32"])
        )
    except (OSError, ValueError, TypeError, KeyError):
        # Figures that cannot be read are as good as none: bf16 is then the default.
        return None


def write_quality(folder: Path, quality: Int8Quality | None) -> None:
    """Put the figures into the folder, whole or not at all."""
    draft = folder / f"{QUALITY_FILE}.{os.getpid()}"
    draft.write_text(json.dumps(None if quality is None else asdict(quality), indent=2) + "\n", encoding="utf-8")
    draft.replace(folder / QUALITY_FILE)
