from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.nn import functional

from generation.engine.packed_linear import PackedLinear, SameRows, SharedLinear, agreeing_rows, compute_in_blocks


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("has_bias", [False, True], ids=["plain", "bias"])
def test_result_is_the_usual_one_when_applied(dtype: torch.dtype, has_bias: bool) -> None:
    generator = torch.Generator().manual_seed(1)
    weight = torch.randn(48, 32, generator=generator).to(dtype)
    bias = torch.randn(48, generator=generator).to(dtype) if has_bias else None
    x = torch.randn(5, 32, generator=generator).to(dtype)
    tolerance = 0.1 if dtype is torch.bfloat16 else 1e-4
    torch.testing.assert_close(
        PackedLinear(weight, bias)(x), functional.linear(x, weight, bias), atol=tolerance, rtol=0
    )


@pytest.mark.parametrize(("outputs", "inputs"), [(960, 576), (576, 1536), (3072, 576), (265, 32)])
def test_row_is_the_same_to_the_last_bit_when_others_are_computed_with_it(outputs: int, inputs: int) -> None:
    generator = torch.Generator().manual_seed(1)
    linear = PackedLinear(torch.randn(outputs, inputs, generator=generator))
    x = torch.randn(300, inputs, generator=generator)
    alone = linear(x[:1])
    for rows in (2, 3, 4, 5, 8, 16, 17, 64, 300):
        assert torch.equal(linear(x[:rows])[:1], alone), f"{rows} rows"
        assert torch.equal(linear(x[:rows].flip(0))[-1:], alone), f"last of {rows} rows"


def by_kernel(kernel: Callable[[int], float]) -> Callable[[torch.Tensor], torch.Tensor]:
    """A layer with one output, the sum of the inputs; ``kernel`` says by how much it is off for a number of rows."""
    return lambda x: x.sum(1, keepdim=True) + kernel(len(x))


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        pytest.param(lambda rows: 0.0, SameRows(least=1, most=512), id="one kernel"),
        pytest.param(lambda rows: float(rows == 1), SameRows(least=2, most=512), id="another for one row"),
        pytest.param(lambda rows: float(rows > 16), SameRows(least=1, most=16), id="another from 17 rows"),
        pytest.param(lambda rows: float((rows > 3) + (rows > 33)), SameRows(least=4, most=33), id="three"),
        pytest.param(lambda rows: float(rows), SameRows(least=1, most=1), id="one for each number"),
    ],
)
def test_longest_range_is_found_when_kernels_differ(kernel: Callable[[int], float], expected: SameRows) -> None:
    assert agreeing_rows(by_kernel(kernel), torch.arange(3.0)) == expected


def test_number_of_rows_is_avoided_when_its_rows_differ_among_themselves() -> None:
    def compute(x: torch.Tensor) -> torch.Tensor:
        return x.sum(1, keepdim=True) + (torch.arange(len(x)) // 8).unsqueeze(1)

    assert agreeing_rows(compute, torch.arange(3.0)) == SameRows(least=1, most=8)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [(1, [2]), (2, [2]), (5, [5]), (6, [5, 2]), (7, [5, 2]), (9, [5, 4]), (11, [5, 5, 2])],
)
def test_rows_are_cut_and_padded_when_only_2_to_5_agree(rows: int, expected: list[int]) -> None:
    computed = []

    def compute(x: torch.Tensor) -> torch.Tensor:
        computed.append(len(x))
        return 10 * x

    result = compute_in_blocks(compute, torch.arange(float(rows)).unsqueeze(1), SameRows(least=2, most=5))
    assert result.flatten().tolist() == [10.0 * row for row in range(rows)]
    assert computed == expected


@pytest.mark.parametrize(
    ("rows", "expected"),
    [(1, [1]), (15, [15]), (16, [16]), (17, [32]), (33, [40]), (40, [40]), (41, [40, 1]), (62, [40, 32])],
)
def test_many_rows_are_few_different_numbers(rows: int, expected: list[int]) -> None:
    computed = []

    def compute(x: torch.Tensor) -> torch.Tensor:
        computed.append(len(x))
        return 10 * x

    result = compute_in_blocks(compute, torch.arange(float(rows)).unsqueeze(1), SameRows(least=1, most=40))
    assert result.flatten().tolist() == [10.0 * row for row in range(rows)]
    assert computed == expected


@pytest.mark.parametrize("has_bias", [False, True], ids=["plain", "bias"])
def test_few_rows_are_computed_with_int8_weights_when_asked_for(has_bias: bool) -> None:
    generator = torch.Generator().manual_seed(1)
    weight = torch.randn(50, 48, generator=generator).bfloat16()
    bias = torch.randn(50, generator=generator).bfloat16() if has_bias else None
    x = torch.randn(5, 48, generator=generator).bfloat16()
    linear, plain = PackedLinear(weight, bias, int8_rows=4), PackedLinear(weight, bias)
    expected = functional.linear(x, weight, bias)
    # Of 127 steps to each side a weight is off by at most half of one.
    torch.testing.assert_close(linear(x[:4]), expected[:4], atol=0.2, rtol=0.02)
    assert not torch.equal(linear(x[:4]), plain(x[:4]))
    assert torch.equal(linear(x), plain(x))


def test_weights_stay_as_they_are_when_their_shape_does_not_fit_the_int8_kernel() -> None:
    weight = torch.randn(32, 40, generator=torch.Generator().manual_seed(1)).bfloat16()
    x = torch.ones(1, 40).bfloat16()
    assert torch.equal(PackedLinear(weight, int8_rows=4)(x), PackedLinear(weight)(x))


def test_output_is_zero_when_all_its_weights_are() -> None:
    linear = PackedLinear(torch.zeros(16, 32).bfloat16(), int8_rows=1)
    assert linear(torch.ones(1, 32).bfloat16()).tolist() == [[0.0] * 16]


@pytest.mark.parametrize("rows", [1, 2, 5, 16])
def test_shared_weight_gives_the_plain_product_when_rows_are_few_or_many(rows: int) -> None:
    generator = torch.Generator().manual_seed(1)
    weight = torch.randn(70, 48, generator=generator).bfloat16()
    x = torch.randn(rows, 48, generator=generator).bfloat16()
    result = SharedLinear(weight)(x)
    assert result.is_contiguous()
    torch.testing.assert_close(result, functional.linear(x, weight))
