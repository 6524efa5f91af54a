# %% [markdown]
# # First block
#
# A residual network computes x + f(x), layer after layer. A continuous block computes the solution of
# dx/dt = f(x, θ(t)) at t = 1, where the weights θ(t) are functions of depth. This tutorial builds one, trains it on
# digits, and runs the same weights at other depths.

# %%
import torch
from matplotlib import pyplot
from sklearn.datasets import load_digits
from torch import nn

import anydepth as ad

torch.manual_seed(0)
images, labels = load_digits(return_X_y=True)
x, y = torch.tensor(images, dtype=torch.float32) / 16, torch.tensor(labels)
is_test = torch.arange(len(x)) % 4 == 0
x_train, y_train, x_test, y_test = x[~is_test], y[~is_test], x[is_test], y[is_test]

# %% [markdown]
# ## The unit
#
# The unit is the right-hand side f. It is any `nn.Module` that keeps the shape of its input and has **no skip connection of
# its own**: the solver adds the input at every step.


# %%
class Unit(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first, self.second = nn.Linear(width, 48), nn.Linear(48, width)

    def forward(self, x):
        return self.second(self.first(x).tanh())


# %% [markdown]
# `ContinuousBlock` takes a function that makes units, not a unit. It calls it once for every coefficient, so that the initial weights
# at different depths are independent draws of the unit's own initialisation.

# %%
block = ad.ContinuousBlock(
    lambda: Unit(32), basis="linear", size=3, scheme="rk4", steps=4
)
model = nn.Sequential(nn.Linear(64, 32), block, nn.Linear(32, 10))
print(ad.summary(model))

# %% [markdown]
# The parameters are those of the unit with one more axis in front: its 3 coefficients.

# %%
for name, parameter in block.unit.named_parameters():
    print(name, tuple(parameter.shape))

# %% [markdown]
# `theta` gives the weights at one depth, in their usual shapes.

# %%
for name, tensor in block.theta(0.5).items():
    print(name, tuple(tensor.shape))

# %% [markdown]
# ## Training
#
# Nothing changes in a training loop.

# %%
optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
for epoch in range(10):
    for batch in torch.randperm(len(x_train)).split(64):
        optimizer.zero_grad()
        outputs = model(x_train[batch])
        nn.functional.cross_entropy(outputs, y_train[batch]).backward()
        optimizer.step()


def accuracy(net):
    with torch.no_grad():
        return 100 * (net(x_test).argmax(1) == y_test).double().mean().item()


print(f"test accuracy {accuracy(model):.1f} %")
print(f"{block.nfe} evaluations of the unit per pass")

# %% [markdown]
# ## The same weights at other depths
#
# `set_solver` changes the scheme and the number of steps in place. The weights stay as they are.

# %%
for scheme in ("euler", "midpoint", "rk4"):
    counts = [1, 2, 3, 4, 6, 8, 12, 16]
    scores = []
    for steps in counts:
        ad.set_solver(model, scheme=scheme, steps=steps)
        scores.append(accuracy(model))
    pyplot.plot(counts, scores, marker="o", label=scheme)
ad.set_solver(model, scheme="rk4", steps=4)
pyplot.xscale("log", base=2)
pyplot.xlabel("steps"), pyplot.ylabel("test accuracy (%)"), pyplot.legend()
# %% [markdown]
# With enough steps all schemes agree: the network is a function of depth and not of the solver it was trained with.
# [Is it an ODE?](is_it_an_ode.md) makes that a test.
#
# ## The state on its way
#
# `trajectory` gives the state at any times between 0 and 1.

# %%
times = [i / 20 for i in range(21)]
with torch.no_grad():
    path = block.trajectory(model[0](x_test[:1]), times)
pyplot.plot(times, path[:, 0, :8])
pyplot.xlabel("depth t"), pyplot.ylabel("first 8 entries of the state")

# %% [markdown]
# ## Next
#
# [Refine and compress](refine_and_compress.md): change the size of a trained block.
