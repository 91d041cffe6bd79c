"""A linear layer whose result for a row never depends on the other rows, and that is fast for a few rows.

Kernels pick their way by the number of rows, so a sequence's last bits would change with its neighbours; packed weights
mostly do not, and are read up to twice as fast at 2 to 16 rows. Which numbers of rows agree differs from CPU to CPU
(for one row of 1,536 inputs AVX-512 sums in another order than for two, AVX2 does not), so it is tried out at load.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby
from typing import cast

import torch
from torch.nn import functional

#: Numbers of rows that are tried: all of a decode's, then what a prefill's may be cut into.
TRIED_ROWS = (*range(1, 18), 24, 32, 33, 64, 65, 128, 256, 257, 512)
#: Above this the number of rows is a multiple of it. Each number has kernels of its own, compiled at first use and
#: kept: 220 MB of them after prompts of 83 different lengths. CPUs multiply 16 rows at once, so zeros cost little.
ROWS_TOGETHER = 16
#: Multiply-adds of the biggest trial, so that a vocabulary's worth of outputs does not take seconds.
MOST_TRIED = 64 * 50_000 * 600

Compute = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True, slots=True, kw_only=True)
class SameRows:
    """Between ``least`` and ``most`` rows at once a row's result is always the same."""

    least: int
    most: int


#: Where the number of rows does not matter.
ANY_ROWS = SameRows(least=1, most=sys.maxsize)

#: What was tried out, by kind of weights, shape, type and number of threads.
_tried: dict[tuple[bool, torch.Size, torch.dtype, int], SameRows] = {}


class PackedLinear:
    """``x @ weight.T + bias`` for x of shape (rows, inputs). Packed where this CPU can, plain elsewhere.

    At most ``int8_rows`` are computed with int8 weights instead, one scale for each output. ``is_packed``: the weight
    that was given is not kept.
    """

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None = None, *, int8_rows: int = 0) -> None:
        self.is_packed = _can_pack(weight)
        self._weight = torch.ops.mkldnn._reorder_linear_weight(weight, None) if self.is_packed else weight
        self._bias = bias
        self._rows = _same_rows(self._compute, weight, is_packed=self.is_packed)
        # The kernel reads past its memory when the inputs are no multiple of 16.
        self._int8_rows = int8_rows if weight.shape[1] % 16 == 0 else 0
        if self._int8_rows:
            self._int8, self._scales = _quantised(weight)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        if len(x) <= self._int8_rows:
            result = torch._weight_int8pack_mm(x, self._int8, self._scales)
            return result if self._bias is None else result + self._bias
        return compute_in_blocks(self._compute, x, self._rows)

    @property
    def memory(self) -> list[tuple[int, int]]:
        """Where the weights lie: addresses and numbers of bytes."""
        weight = self._weight
        if self.is_packed:
            areas = [(torch.ops.mkldnn.data_ptr(weight), torch.ops.mkldnn._nbytes(weight))]
        else:
            areas = [(weight.data_ptr(), weight.nbytes)]
        if self._int8_rows:
            areas.append((self._int8.data_ptr(), self._int8.nbytes))
        return areas

    def _compute(self, x: torch.Tensor) -> torch.Tensor:
        if self.is_packed:
            result = torch.ops.mkldnn._linear_pointwise(x, self._weight, self._bias, "none", [], "")
            return cast("torch.Tensor", result)
        return functional.linear(x, self._weight, self._bias)


class SharedLinear:
    """``x @ weight.T`` with a weight that stays as it is, because others read it too. For bf16 on CPUs with AMX.

    Computed the other way round, which from 2 rows on takes the time of packed weights. Milliseconds of the bundled
    model's head on one core, packed, turned and plain: 1 row 5.5, 9.1 and 9.6; 2 rows 5.5, 5.5 and 9.5.
    """

    is_packed = False

    def __init__(self, weight: torch.Tensor) -> None:
        self._weight = weight

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        rows = functional.pad(x, (0, 0, 0, 1)) if len(x) == 1 else x
        return (self._weight @ rows.t()).t()[: len(x)].contiguous()

    @property
    def memory(self) -> list[tuple[int, int]]:
        """Where the weights lie: addresses and numbers of bytes."""
        return [(self._weight.data_ptr(), self._weight.nbytes)]


def can_share(weight: torch.Tensor) -> bool:
    """Whether `SharedLinear` is as fast as `PackedLinear` for this weight."""
    return weight.device.type == "cpu" and weight.dtype is torch.bfloat16 and torch.cpu._is_amx_tile_supported()


def compute_in_blocks(compute: Compute, x: torch.Tensor, rows: SameRows) -> torch.Tensor:
    """Compute at most ``rows.most`` rows at once, and never fewer than ``rows.least``: zeros are put below.

    Many rows are filled up to a multiple of `ROWS_TOGETHER` as well.
    """
    blocks = [_filled_up(block, rows) for block in torch.split(x, rows.most)]
    if len(blocks) == 1:
        return compute(blocks[0])[: len(x)]
    return torch.cat([compute(block) for block in blocks])[: len(x)]


def _filled_up(block: torch.Tensor, rows: SameRows) -> torch.Tensor:
    count = max(len(block), rows.least)
    if count > ROWS_TOGETHER:
        count = min(-(-count // ROWS_TOGETHER) * ROWS_TOGETHER, rows.most)
    return block if count == len(block) else functional.pad(block, (0, 0, 0, count - len(block)))


def agreeing_rows(compute: Compute, row: torch.Tensor) -> SameRows:
    """Try out for which numbers of rows ``compute`` gives ``row``, of shape (inputs,), the same result at every place.

    Several ranges may agree, each in itself: the longest is taken, counted in numbers that were tried.
    """
    outputs = compute(row.unsqueeze(0)).shape[-1]
    tried = [rows for rows in TRIED_ROWS if rows == 1 or rows * outputs * len(row) <= MOST_TRIED]
    results = {rows: _common_result(compute(row.repeat(rows, 1))) for rows in tried}
    ranges = [list(group) for _, group in groupby(tried, key=lambda rows: results[rows])]
    longest = max((group for group in ranges if results[group[0]] is not None), key=len)
    return SameRows(least=longest[0], most=longest[-1])


def _same_rows(compute: Compute, weight: torch.Tensor, *, is_packed: bool) -> SameRows:
    if weight.device.type != "cpu" or weight.dtype is torch.bfloat16:
        # The promise is for f32. With 8 bits of mantissa the attention's sums are not the same either.
        return ANY_ROWS
    key = (is_packed, weight.shape, weight.dtype, torch.get_num_threads())
    if key not in _tried:
        row = torch.randn(weight.shape[1], generator=torch.Generator().manual_seed(0)).to(weight.dtype)
        _tried[key] = agreeing_rows(compute, row)
    return _tried[key]


def _quantised(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Weights from -127 to 127 and a bf16 scale for each output, rounded before it is divided by."""
    wide = weight.float()
    scales = (wide.abs().amax(1).clamp_min(1e-30) / 127).bfloat16()
    return (wide / scales.float().unsqueeze(1)).round_().clamp_(-127, 127).to(torch.int8), scales


def _common_result(result: torch.Tensor) -> bytes | None:
    """What every row is, bit for bit; None if they differ."""
    first = result[0].contiguous()
    return bytes(first.view(torch.uint8).numpy()) if bool((result == first).all()) else None


def _can_pack(weight: torch.Tensor) -> bool:
    if weight.device.type != "cpu" or not torch._C._has_mkldnn:
        return False
    if weight.dtype is torch.bfloat16:
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    return weight.dtype is torch.float32
