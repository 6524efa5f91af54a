"""A block is exported by torch.export as any module."""

import torch

import anydepth as ad


def test_export_gives_a_program_with_the_same_outputs():
    torch.manual_seed(0)
    block = ad.ContinuousBlock(lambda: ad.units.PreactConv(4), steps=2, scheme="euler").eval()
    x = torch.randn(2, 4, 5, 5)
    program = torch.export.export(block, (x,), strict=False)
    with torch.no_grad():
        torch.testing.assert_close(program.module()(x), block(x), rtol=1e-5, atol=1e-5)
