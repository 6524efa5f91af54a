# %% [markdown]
# # Is it an ODE?
#
# A network that was trained with one solver may have learnt that solver instead of an ODE. Its accuracy then falls with any
# other one, also with a *more accurate* one. `ad.check` runs a trained model with solvers of equal or smaller error and says whether
# the predictions survive.
#
# ## A task that no flow can do
#
# On a line, solutions of an ODE cannot cross. So no ODE can map -1 to +1 and +1 to -1. Euler's method with one large step can: it jumps.

# %%
import torch
from matplotlib import pyplot

import anydepth as ad

torch.manual_seed(0)
x = torch.cat([torch.randn(150, 1) * 0.2 - 1, torch.randn(150, 1) * 0.2 + 1])
target = -x


def train(steps, rounds=150):
    torch.manual_seed(1)
    block = ad.ContinuousBlock(
        lambda: ad.units.MLP(1, hidden=32), size=1, scheme="euler", steps=steps
    )
    optimizer = torch.optim.Adam(block.parameters(), lr=0.01)
    for _ in range(rounds):
        optimizer.zero_grad()
        loss = (block(x) - target).square().mean()
        loss.backward()
        optimizer.step()
    return block, loss.item()


tied, loss = train(steps=1)
print(f"Euler with 1 step: loss {loss:.4f}")

# %% [markdown]
# The loss is small. But the task is impossible for an ODE, so the network must be tied to its step:

# %%
verdict = ad.check(tied, [x], classes=False)
print(verdict)

# %% [markdown]
# The trajectories show it. With 64 steps, which follow the true solution closely, they do not cross and end elsewhere.

# %%
figure, axes = pyplot.subplots(1, 2, figsize=(8, 3), sharey=True)
for axis, steps in zip(axes, (1, 64)):
    times = torch.linspace(0, 1, steps + 1).tolist()
    with torch.no_grad():
        path = ad.set_solver(tied, scheme="euler", steps=steps).trajectory(
            x[::15], times
        )
    axis.plot(times, path[..., 0], color="tab:blue", alpha=0.6)
    axis.set_title(f"Euler, steps: {steps}"), axis.set_xlabel("depth t")
ad.set_solver(tied, scheme="euler", steps=1)
axes[0].set_ylabel("state")
# %% [markdown]
# ## A task that a flow can do
#
# Shrinking every point to half its size is a gentle flow. The same kind of network, trained with 16 steps, is a proper ODE.

# %%
target = x / 2
proper, loss = train(steps=16, rounds=60)
print(f"Euler with 16 steps: loss {loss:.4f}")
verdict = ad.check(proper, [x], classes=False)
print(verdict.proper, verdict.reason)
print(
    f"observed order of convergence {verdict.order:.2f}, Euler's is {verdict.scheme_order}"
)
print(f"critical step {verdict.critical_step}")

# %% [markdown]
# ## What to do about a tied network
#
# - Train with more steps or a scheme of higher order.
# - Draw another number of steps for every pass: `training.vary_steps=0.4` in a config.
# - Let a step controller choose: `control.name=steady`, see [step control](../training.md#step-control).
#
# A tied network is not wrong. It is an ordinary network of fixed depth: deploy it with the solver it was trained with.
#
# [The verdict in detail](../check.md): the rule, the table, and its limits. On the command line it is `anydepth check RUN`, with exit code 1 for "not proper".
