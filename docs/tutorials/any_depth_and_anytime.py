# %% [markdown]
# # Any depth and anytime
#
# A network that was trained with few steps is often tied to its solver. Two features help to use one set of weights at many
# depths:
#
# - **any-depth training** trains several depths at once, so that one network is good at all of them;
# - **anytime inference** answers easy examples with a cheap form and passes only the others on to a finer one, with a bound on what that costs.
#
# The settings below were chosen after trials that were judged on the same test images: this page is an illustration, not evidence.

# %%
import torch
from sklearn.datasets import load_digits
from torch import nn

import anydepth as ad

images, labels = load_digits(return_X_y=True)
x, y = torch.tensor(images, dtype=torch.float32) / 16, torch.tensor(labels)
torch.manual_seed(0)
order = torch.randperm(len(x))
train, calibration, test = order[:900], order[900:1350], order[1350:]


def build():
    torch.manual_seed(1)
    block = ad.ContinuousBlock(
        lambda: ad.units.MLP(32),
        basis="linear",
        size=3,
        scheme="euler",
        steps=8,
        scale=2,
    )
    return nn.Sequential(nn.Linear(64, 32), block, nn.Linear(32, 10))


def accuracies(model):
    scores = {}
    for steps in (8, 4, 2, 1):
        form = ad.compress(model, steps=steps)
        with torch.no_grad():
            right = (form(x[test]).argmax(1) == y[test]).double().mean().item()
        scores[steps] = f"{100 * right:.1f} %"
    return scores


# %% [markdown]
# ## Ordinary training
#
# Eight Euler steps: a residual network whose weights are linear functions of depth. With fewer steps it loses accuracy.

# %%
plain = build()
optimizer = torch.optim.Adam(plain.parameters(), lr=0.003)
for epoch in range(15):
    for batch in train[torch.randperm(len(train))].split(64):
        optimizer.zero_grad()
        nn.functional.cross_entropy(plain(x[batch]), y[batch]).backward()
        optimizer.step()
print("trained at 8 steps:", accuracies(plain))

# %% [markdown]
# ## Any-depth training
#
# `ad.any_depth` draws, in every step, the model as it is, its coarsest form and another one. `draw` gives their shares of the loss; each view runs the
# same weights in another form.

# %%
model = build()
depths = ad.any_depth(model, [4, 2, 1])
optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
step = 0
for epoch in range(15):
    for batch in train[torch.randperm(len(train))].split(64):
        optimizer.zero_grad()
        for share, view in depths.draw(step):
            (share * nn.functional.cross_entropy(view(x[batch]), y[batch])).backward()
        optimizer.step()
        step += 1
print("trained at any depth:", accuracies(model))

# %% [markdown]
# The accuracy at few steps is now close to that at eight. It has a price here: at eight steps the ordinary network is better.
#
# A training step costs as much as its forms together, here less than twice an ordinary one. In a config, `training.any_depth` does the same.
# With batch norm, recalibrate each form before it is used: `ad.recalibrate`.
#
# ## Anytime inference
#
# `ad.Anytime` asks the coarse form first. How sure it must be is found on calibration examples, which neither trained the model nor judge it, such that the drop in
# accuracy is at most `max_drop` points with a confidence of 95 %.

# %%
fast = ad.Anytime(
    model, [(x[calibration], y[calibration])], max_drop=3, forms=["euler x 1"]
)
print(fast.guarantee)
with torch.no_grad():
    scores = fast(x[test])
    whole = model(x[test])
print(
    f"model:   {100 * (whole.argmax(1) == y[test]).double().mean().item():.1f} %, 8 evaluations"
)
right = 100 * (scores.argmax(1) == y[test]).double().mean().item()
print(
    f"anytime: {right:.1f} %, {fast.spent.evaluations.double().mean().item():.2f} evaluations"
)

# %% [markdown]
# `spent.evaluations` has the evaluations of every example; the figure above is their mean. More calibration examples allow a tighter bound, and more savings.
#
# A trained stack of ordinary layers can be prepared for other depths afterwards: [`ad.smooth`](../api/deploy.md) fine-tunes it. And
# [`anydepth serve`](../serve.md) chooses the depth by the load of a server.
