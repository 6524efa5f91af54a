"""Defaults for data of your own: minutes on two cores for some hundred images, or some thousand rows."""

from pathlib import Path
from typing import get_type_hints

from anydepth.data.images import Images
from anydepth.data.own_source import Own
from anydepth.data.sentences import Sentences
from anydepth.data.source import SOURCES
from anydepth.data.sources.imagefolder import is_image_folder
from anydepth.data.sources.npz import Npz
from anydepth.data.tables import SUFFIXES
from anydepth.errors import ConfigError, DataError
from anydepth.recipes import RECIPES
from anydepth.runs.config import (
    AdamW,
    Cosine,
    DataSettings,
    ModelSettings,
    RefineSettings,
    RunConfig,
    TrainingSettings,
)


@RECIPES.register("image")
def image() -> RunConfig:
    """Your own images, or any dataset of images: 8-16-32 channels, midpoint, grown from 1 to 3 hats and 4 steps."""
    options = {"channels": [8, 16, 32], "pool": None, "first_stitch": False}
    depth = {"basis": "linear", "size": 1, "steps": 1, "scheme": "midpoint"}
    return RunConfig(
        data=DataSettings(name="imagefolder", crop=3, flip=True),
        model=ModelSettings(name="image", options=options | depth),
        optimizer=AdamW(lr=0.004, weight_decay=0.02, decay="weights"),
        schedule=Cosine(warmup=20),
        training=TrainingSettings(epochs=24, batch=32),
        refine=RefineSettings(at=(6, 14)),
    )


@RECIPES.register("tabular")
def tabular() -> RunConfig:
    """Your own table, or any dataset of vectors: a state of width 32, RK4, grown from 1 to 3 hats and 4 steps."""
    depth = {"basis": "linear", "size": 1, "steps": 1, "scheme": "rk4"}
    return RunConfig(
        data=DataSettings(name="csv"),
        model=ModelSettings(name="tabular", options={"width": 32, "options": {"hidden": 32, "layers": 1}, **depth}),
        optimizer=AdamW(lr=0.004, weight_decay=0.02, decay="weights"),
        schedule=Cosine(warmup=20),
        training=TrainingSettings(epochs=40, batch=32),
        refine=RefineSettings(at=(10, 20)),
    )


@RECIPES.register("series")
def series() -> RunConfig:
    """Your own windows of series: convolutions over time on a state of width 24, midpoint, grown from 1 to 3 hats."""
    depth = {"basis": "linear", "size": 1, "steps": 1, "scheme": "midpoint"}
    return RunConfig(
        data=DataSettings(name="npz"),
        model=ModelSettings(name="series", options={"width": 24, **depth}),
        optimizer=AdamW(lr=0.004, weight_decay=0.02, decay="weights"),
        schedule=Cosine(warmup=20),
        training=TrainingSettings(epochs=30, batch=32),
        refine=RefineSettings(at=(8, 16)),
    )


def looks_like_data(text: str) -> bool:
    """Whether a word is meant to be a path of data: it is one, or has its endings or slashes."""
    lower = text.lower()
    return lower.endswith((*SUFFIXES, ".npz")) or "/" in text or "\\" in text or Path(text).is_dir()


def recipe_for(path: Path) -> RunConfig:
    """The default recipe for a folder of class folders, a table or arrays."""
    lower, place = path.name.lower(), str(path.expanduser().absolute())
    if not path.exists():
        raise DataError(f"no file or folder {path}; expected a recipe's name, a folder of images, a .csv or a .npz")
    if path.is_dir():
        if not is_image_folder(path):
            raise DataError(f"{path} holds no folders; expected a folder for every class, with images in it")
        return with_data(image(), "imagefolder", {"folder": place})
    if lower.endswith(SUFFIXES):
        return with_data(tabular(), "csv", {"file": place})
    if lower.endswith(".npz"):
        source = Npz(path.parent, place)
        return with_data(RECIPES[source.default_recipe](), "npz", {"file": place})
    raise ConfigError(
        f"{path} is neither a recipe nor data; expected a folder of images, {', '.join(SUFFIXES)} or .npz"
    )


def with_data(config: RunConfig, name: str, options: dict[str, object]) -> RunConfig:
    return config.model_copy(update={"data": config.data.model_copy(update={"name": name, "options": options})})


def fixed_places(config: RunConfig) -> RunConfig:
    """The config with paths of the user's own data made absolute, so that they hold anywhere."""
    source = SOURCES[config.data.name]
    if not issubclass(source, Own):
        return config
    options = dict(config.data.options)
    for name in {source.place, "test_file"} & options.keys():
        given = options[name]
        if isinstance(given, str) and given.strip() and "\0" not in given and Path(given).expanduser().exists():
            options[name] = str(Path(given).expanduser().absolute())
    return with_data(config, config.data.name, options)


def advice_for(name: str) -> str:
    """How a dataset is trained on, for people who took its name for a recipe."""
    named = [recipe for recipe in RECIPES if recipe not in ("image", "series", "tabular")]
    mine = [recipe for recipe in named if RECIPES[recipe]().data.name == name]
    source = SOURCES[name]
    if issubclass(source, Own):
        return f"{name!r} is a kind of data, not a recipe; train with: anydepth train PATH"
    told = f"{name!r} is a dataset, not a recipe; "
    if mine:
        return told + f"recipes for it: {', '.join(mine[:8])}{' and others' if len(mine) > 8 else ''}"
    recipe = {Images: "image", Sentences: "gum"}.get(get_type_hints(source.read).get("return"), "tabular")
    return told + f"train on it with: anydepth train {recipe} --set data.name={name}"
