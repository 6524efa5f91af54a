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
# On the command line: `anydepth train ./photos --epochs 4 --set data.options.size=8`.

# %%
from anydepth.recipes.own import recipe_for
from anydepth.runs.override import override
from anydepth.train.shorten import with_epochs
from anydepth.train.training import train

config = with_epochs(recipe_for(folder / "photos"), 4)
settings = ["data.options.size=8", "data.flip=false", "training.batch=32"]
run = train(override(config, settings), folder / "run")
for line in run.metrics():
    if line["kind"] in ("epoch", "test"):
        print({key: value for key, value in line.items() if key.endswith("accuracy")})

# %% [markdown]
# ## Predict
#
# On the command line: `anydepth predict runs/photos ./holiday --top 3 --csv holiday.csv`. It takes files and whole folders.

# %%
import anydepth as ad

model = run.model()
print("classes:", run.facts.labels)
print(ad.summary(model))

# %% [markdown]
# ## What is checked for you
#
# - Images that cannot be read are all named before training begins; `data.options.damaged=skip` leaves them out.
# - A part of every class is held out as test data, and a part of the rest as validation data. Folders `train`, `val` and `test` are used if they are there.
# - The test part is read once, after the model is saved.
#
# Tables (`.csv`), arrays (`.npz`) and all options: [your own data](../data.md). Data of any other kind: write a
# [source](../extending.md#a-dataset).
