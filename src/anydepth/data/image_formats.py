"""Formats of image files that are read: those that Pillow decodes itself, each with the suffixes it goes by."""

IMAGE_FORMATS = {
    "PNG": (".png",),
    "JPEG": (".jpg", ".jpeg"),
    "BMP": (".bmp",),
    "GIF": (".gif",),
    "WEBP": (".webp",),
    "PPM": (".ppm", ".pgm"),
}
"""By Pillow's names. It knows many more, some of which start other programs (EPS runs Ghostscript), so that an image is
always opened with `formats=PILLOW_FORMATS`, whatever its suffix promises."""

PILLOW_FORMATS = tuple(IMAGE_FORMATS)
IMAGE_SUFFIXES = tuple(suffix for suffixes in IMAGE_FORMATS.values() for suffix in suffixes)
