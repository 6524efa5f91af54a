# %% [markdown]
# # Weights that evolve
#
# Instead of a basis expansion, a weight can have dynamics of its own (ANODEV2): the block stores w(0), and an evolution
# dw/dt = q(w; p) makes w(t) of it. The parameters p are trained together with w(0).

# %%
import torch
from matplotlib import pyplot
from torch import nn

import anydepth as ad

# %% [markdown]
# ## Reaction, diffusion, advection
#
# `"rda"` treats a convolution kernel as an image whose pixels react, diffuse and move: dw/dt = τ Δw + v·∇w + ρ w. It is solved exactly, by FFT.

# %%
torch.manual_seed(0)
block = ad.ContinuousBlock(
    lambda: ad.units.PostactConv(4),
    # kernels evolve; batch norms have a constant per step
    weights={"conv*": ad.Evolved("rda"), "*": ("constant", 5)},
    scheme="euler",
    steps=5,
)
images = torch.randn(2, 4, 8, 8)
print(block(images).shape)
print(ad.summary(block))

# %% [markdown]
# The parameters p of each kernel are a module. Give it an advection by hand, and look at one kernel over depth.

# %%
evolution = block.evolution("conv1.weight")
print({name: tuple(p.shape) for name, p in evolution.named_parameters()})
with torch.no_grad():
    evolution.advection.fill_(1.0)
figure, axes = pyplot.subplots(1, 5, figsize=(9, 2))
for axis, t in zip(axes, (0, 0.25, 0.5, 0.75, 1)):
    axis.imshow(
        block.theta(t)["conv1.weight"][0, 0].detach().numpy(),
        cmap="RdBu",
        vmin=-0.5,
        vmax=0.5,
    )
    axis.set_title(f"t = {t}"), axis.set_axis_off()

# %% [markdown]
# ## Train it
#
# Gradients reach w(0) and p by back-propagation.

# %%
model = nn.Sequential(block, nn.Flatten(), nn.Linear(4 * 64, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
x = torch.randn(64, 4, 8, 8)
y = (x[:, 0].mean((1, 2)) > 0).long()
for step in range(20):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}; mean advection {evolution.advection.mean().item():.3f}")

# %% [markdown]
# ## Other evolutions
#
# | name | dw/dt |
# | --- | --- |
# | `"none"` | 0: the weights of a Neural ODE |
# | `"rda"` | reaction, diffusion, advection |
# | `"linear"` | A w, exact by the matrix exponential |
# | `"network"` | a small MLP |
# | `"conv"` | a small convolutional block on the kernel's pixels |
# | a function | any module w -> dw/dt of yours |
#
# ## Back to a basis
#
# An evolved weight is a function of depth like any other. It can be projected onto a basis; q is gone then.

# %%
small = ad.compress(model, basis="linear", size=3)
with torch.no_grad():
    change = (small.eval()(x) - model.eval()(x)).abs().max().item()
print(f"largest change of an output: {change:.3f}")
print(ad.summary(small))

# %% [markdown]
# More on grids of the weights, kernels in time and the paper's configurations: [guide](../guide.md#evolving-weights).
