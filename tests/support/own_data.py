"""Data as users have it: photos of many sizes and formats, tables, arrays."""

import csv

import numpy as np
from PIL import Image

CLASSES = ("discs", "rings", "rows", "columns", "checks")
FORMATS = (("png", {}), ("jpg", {"quality": 90}), ("bmp", {}), ("gif", {}), ("webp", {"quality": 90}), ("jpeg", {}))


def scene(kind, random, height, width):
    """A picture of one class: two colours in a pattern of random place and scale, and noise."""
    y, x = np.mgrid[:height, :width] / min(height, width)
    cy, cx = random.uniform(0.3, 0.7, 2) * (y.max(), x.max())
    radius, period, phase = random.uniform(0.2, 0.4), random.uniform(0.2, 0.4), random.uniform(0, 1)
    distance = np.hypot(y - cy, x - cx)
    mask = {
        "discs": distance < radius,
        "rings": np.abs(distance - radius) < radius / 3,
        "rows": (y / period + phase) % 1 < 0.5,
        "columns": (x / period + phase) % 1 < 0.5,
        "checks": ((y / period + phase) % 1 < 0.5) ^ ((x / period + phase) % 1 < 0.5),
    }[kind]
    first = random.uniform(0, 255, 3)
    second = (first + random.uniform(90, 165, 3)) % 255
    pixels = np.where(mask[..., None], first, second) + random.normal(0, 12, (height, width, 3))
    return pixels.clip(0, 255).astype(np.uint8)


def write_photos(folder, count, sides=(40, 160), seed=0):
    """`count` pictures of each of five classes."""
    random = np.random.default_rng(seed)
    for kind in CLASSES:
        (folder / kind).mkdir(parents=True, exist_ok=True)
        for i in range(count):
            height, width = random.integers(sides[0], sides[1], 2)
            suffix, options = FORMATS[i % len(FORMATS)]
            image = Image.fromarray(scene(kind, random, int(height), int(width)))
            mode = ("RGB", "RGBA", "L", "P")[i % 4] if suffix == "png" else "RGB"
            image.convert(mode).save(folder / kind / f"{kind}-{i:03}.{suffix}", **options)  # pyright: ignore[reportArgumentType]
    return folder


def damage(folder):
    """Two files that are no pictures any more: one cut short, one that never was one."""
    cut = sorted((folder / CLASSES[0]).glob("*.jpg"))[0]
    cut.write_bytes(cut.read_bytes()[: cut.stat().st_size // 2])
    never = folder / CLASSES[1] / "notes.png"
    never.write_bytes(b"this is no picture")
    return [cut, never]


def write_table(path, count=600, seed=0, target="class"):
    """Flowers that never grew: two numbers and a category decide the class, or the price."""
    random = np.random.default_rng(seed)
    rows = ["length,width,colour,year,note," + target]
    for _ in range(count):
        length, width = random.uniform(1, 7), random.uniform(0.1, 3)
        colour = str(random.choice(["red", "blue", "white"]))
        score = length - 1.5 * width + {"red": 2, "blue": 0, "white": -2}[colour]
        price = 1000 * (50 + 10 * score + random.normal(0, 2))
        name = "small" if score < 0.5 else "middle" if score < 3 else "large"
        value = name if target == "class" else f"{price:.0f}"
        rows.append(f'{length:.2f},{width:.3f},{colour},{random.integers(1990, 2020)},"a, b",{value}')
    path.write_text("\n".join(rows) + "\n")
    return path


def rows_of(path):
    """The rows of a table that a command wrote."""
    with path.open() as file:
        return list(csv.DictReader(file))
