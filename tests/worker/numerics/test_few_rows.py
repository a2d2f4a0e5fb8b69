import torch

from weir_worker.linear import PackedLinear


def test_rows_that_would_get_another_kernel_are_filled_up() -> None:
    weight = torch.randn(24, 96, generator=torch.Generator().manual_seed(0))
    linear = PackedLinear(weight)
    honest = linear._product
    x = torch.randn(20, 96, generator=torch.Generator().manual_seed(1))
    whole = linear(x)

    def dependent(rows: torch.Tensor) -> torch.Tensor:
        return honest(rows) * (1 + 1e-6 * (rows.shape[0] < 3))

    linear._product = dependent  # type: ignore[method-assign, assignment]
    assert not torch.equal(linear(x[:1]), whole[:1])
    linear._least_rows = linear._find_least_rows(96)
    assert linear._least_rows == 3
    for rows in (1, 2, 3, 4, 20):
        assert torch.equal(linear(x[:rows]), whole[:rows])


def test_wide_inputs_give_equal_rows_with_the_widest_instructions() -> None:
    generator = torch.Generator().manual_seed(2)
    for out, width in ((576, 1536), (64, 4096)):
        linear = PackedLinear(torch.randn(out, width, generator=generator))
        x = torch.randn(70, width, generator=generator)
        whole = linear(x)
        for rows in (1, 2, 3, 4, 5, 8, 16, 33, 64):
            assert torch.equal(linear(x[:rows]), whole[:rows])
