"""The studies of Stateful ODE-Nets: what they measure, and that they judge what they say."""

import pytest
import torch

from anydepth.nn.models.image import ImageNetwork
from anydepth.reproduce.experiments import derivatives


def test_differences_over_depth_of_known_functions():
    line = torch.linspace(1, 2, derivatives.STEPS)[:, None].expand(-1, 3)
    size = float(line.square().mean().sqrt())
    assert derivatives.roughness([line], 1) == pytest.approx(derivatives.STEPS / (derivatives.STEPS - 1) / size)
    assert derivatives.roughness([line], 2) == pytest.approx(0, abs=1e-4)
    assert derivatives.roughness([torch.ones(8, 2), torch.ones(8, 5)], 1) == 0
    noise = torch.randn(8, 100_000, generator=torch.Generator().manual_seed(0))
    assert derivatives.roughness([noise], 1) == pytest.approx(2**0.5 * 8, rel=0.02)
    assert derivatives.roughness([noise], 2) == pytest.approx(6**0.5 * 64, rel=0.02)


def test_the_field_is_what_euler_steps_along():
    shape = {"basis": "constant", "size": 8, "steps": 8, "scheme": "euler"}
    model = ImageNetwork(channels=(3,), image=(1, 8, 8), pool=4, **shape).double().eval()
    images = torch.randn(2, 1, 8, 8, dtype=torch.float64)
    (field,) = derivatives.fields_of(model, images)
    with torch.no_grad():
        start = model.stitches[0](model.stem(images))
        assert torch.allclose(start + field.mean(0), model.blocks[0](start))
    assert [tuple(kernel.shape) for kernel in derivatives.kernels_of(model)] == [(8, 3, 3, 3, 3)] * 2
