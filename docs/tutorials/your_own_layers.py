# %% [markdown]
# # Bring your own layers
#
# A trained stack of layers, x_n+1 = layer_n(x_n), is Euler's method for an ODE. `ad.from_layers` writes it as one block, exactly; from there
# on it can be compressed, judged and run with other solvers. `ad.to_layers` is the way back.
#
# ## A stage of a ResNet

# %%
import torch
from torch import nn

import anydepth as ad

torch.manual_seed(0)


class BasicBlock(nn.Module):
    def __init__(self, inputs, outputs, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn1, self.bn2 = nn.BatchNorm2d(outputs), nn.BatchNorm2d(outputs)
        self.shortcut = None
        if stride != 1 or inputs != outputs:
            conv = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
            self.shortcut = nn.Sequential(conv, nn.BatchNorm2d(outputs))

    def forward(self, x):
        skip = x if self.shortcut is None else self.shortcut(x)
        return (skip + self.bn2(self.conv2(self.bn1(self.conv1(x)).relu()))).relu()


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(1, 8, 3, padding=1)
        self.layer1 = nn.Sequential(*[BasicBlock(8, 8) for _ in range(4)])
        self.layer2 = nn.Sequential(
            BasicBlock(8, 16, 2), *[BasicBlock(16, 16) for _ in range(4)]
        )
        self.head = nn.Linear(16, 10)

    def forward(self, x):
        return self.head(self.layer2(self.layer1(self.stem(x))).mean((2, 3)))


resnet = ResNet().eval()
x = torch.randn(4, 1, 16, 16)

# %% [markdown]
# `where` names the lists to replace in a copy of the model. Of `layer2`, the first layer changes the shape, so it stays in front of the block.

# %%
model = ad.from_layers(resnet, where="layer*").eval()
print(ad.summary(model))
with torch.no_grad():
    print("same outputs:", torch.equal(model(x), resnet(x)))

# %% [markdown]
# ## Compress a stage
#
# Four layers become two, projected together. These weights are random, so the change is large; layers of a trained network that vary slowly over
# depth change less. Measure it on your data, and fine-tune if needed.

# %%
small = ad.compress(model, size={"layer1.0": 2}, steps={"layer1.0": 2})
print(ad.summary(small))
print(*ad.history(small)["layer1.0"], sep="\n")

# %% [markdown]
# ## Back to plain layers
#
# The result is an `nn.Module` with ordinary layers: no block is left.

# %%
plain = ad.to_layers(small).eval()
with torch.no_grad():
    print(f"largest difference: {(plain(x) - small.eval()(x)).abs().max().item():.1e}")
print("blocks left:", sum(isinstance(m, ad.ContinuousBlock) for m in plain.modules()))

# %% [markdown]
# ## A transformer's encoder
#
# Masks and other arguments reach every layer.

# %%
layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
encoder = nn.TransformerEncoder(layer, 6, enable_nested_tensor=False).eval()
block = ad.from_layers(encoder).eval()
tokens = torch.randn(2, 5, 16)
padding = torch.tensor([[False, False, False, True, True], [False] * 5])
with torch.no_grad():
    wanted = encoder(tokens, src_key_padding_mask=padding)
    gap = (block(tokens, src_key_padding_mask=padding) - wanted).abs().max()
print(f"largest difference: {gap.item():.1e}")

# %% [markdown]
# ## A layer of your own as a unit
#
# A unit has no skip connection. `ad.branch(layer)` takes it off: it computes layer(x) - x.


# %%
class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x):
        return x + self.linear(x).tanh()


block = ad.ContinuousBlock(
    lambda: ad.branch(Residual(8)), size=4, scheme="euler", steps=4, scale=4
)
block(torch.randn(2, 8)).shape

# %% [markdown]
# [Existing layers](../layers.md) has the details: which layers count as alike, hooks, caches, optimisers, averages. A trained stack does not become a proper ODE by being written as a block:
# [check it](is_it_an_ode.md).
