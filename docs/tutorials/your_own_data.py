# %% [markdown]
# # Your own data
#
# A folder of images, a table or arrays can be named where a recipe is expected: `anydepth train ./photos`. This tutorial
# makes a small folder of images and does so from Python; the command line does the same.

# %%
import tempfile
from pathlib import Path

from PIL import Image
from sklearn.datasets import load_digits

folder = Path(tempfile.mkdtemp())
images, labels = load_digits(return_X_y=True)
for number, (pixels, label) in enumerate(zip(images[:600], labels[:600])):
    if label in (0, 1, 2):
        place = folder / "photos" / ("zero", "one", "two")[label]
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray((pixels.reshape(8, 8) * 15.9).astype("uint8")).save(
            place / f"{number}.png"
        )
print(
    {
        path.name: len(list(path.iterdir()))
        for path in sorted((folder / "photos").iterdir())
    }
)

# %% [markdown]
# A folder with a folder of images for every class is all that is needed. Names of the folders are the classes.
#
# ## Train
#
# The default for images is 24 epochs with batches of 32. Here are few images, so more epochs and smaller batches, which make more optimiser steps. The
# images are 8 by 8 pixels; and a mirrored digit is no digit, so mirroring is off. On the command line:
#
# ```
# anydepth train ./photos --epochs 30 --batch 16 --set data.options.size=8 --set data.flip=false
# ```

# %%
from anydepth.recipes.own import recipe_for
from anydepth.runs.override import override
from anydepth.train.shorten import with_epochs
from anydepth.train.training import train

config = with_epochs(recipe_for(folder / "photos"), 30)
settings = ["data.options.size=8", "data.flip=false", "training.batch=16"]
run = train(override(config, settings), folder / "runs" / "photos")
lines = [line for line in run.metrics() if line["kind"] in ("epoch", "test")]
for line in [*lines[:-1:6], *lines[-2:]]:  # every sixth epoch, the last one, the test
    print({key: value for key, value in line.items() if key.endswith("accuracy")})

# %% [markdown]
# ## Predict
#
# Images that the model has not seen: the digits 600 and later. They may have any size, since they are prepared as in training.

# %%
from anydepth.deploy.predict import predict
from anydepth.deploy.predictor import open_predictor

(folder / "holiday").mkdir()
for number in [number for number in range(600, 700) if labels[number] < 3][:6]:
    picture = Image.fromarray((images[number].reshape(8, 8) * 15.9).astype("uint8"))
    picture.save(folder / "holiday" / f"{number}-is-{labels[number]}.png")

predictor = open_predictor(folder / "runs" / "photos")
found, failed = predict(predictor, sorted((folder / "holiday").iterdir()), top=2)
for file, (entry,) in found.items():
    print(Path(file).name, entry["top"])

# %% [markdown]
# On the command line, where the run is in `runs/photos`; files and whole folders can be given:
#
# ```
# anydepth predict runs/photos ./holiday --top 2 --csv holiday.csv
# ```
#
# The run also has the model itself:

# %%
import anydepth as ad

print("classes:", run.facts.labels)
print(ad.summary(run.model()))

# %% [markdown]
# ## What is checked for you
#
# - Images that cannot be read are all named before training begins; `data.options.damaged=skip` leaves them out.
# - A part of every class is held out as test data, and a part of the rest as validation data. Folders `train`, `val` and `test` are used if they are there.
# - The test part is read once, after the model is saved.
#
# Tables (`.csv`), arrays (`.npz`) and all options: [your own data](../data.md). Data of any other kind: write a
# [source](../extending.md#a-dataset).
