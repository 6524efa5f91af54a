"""Chromium without a window, driven by selenium; tests are skipped where it is not installed."""

import shutil
import tempfile
from contextlib import contextmanager

import pytest

FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-dev-shm-usage --hide-scrollbars --force-device-scale-factor=1"
)


@contextmanager
def browser(width=1280, height=900, *more):
    """A driver; its page's console is read by `errors_of`."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    places = shutil.which("chromedriver"), shutil.which("chromium") or shutil.which("google-chrome")
    if None in places:
        pytest.skip("no browser is installed: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = places[1]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        for flag in (*FLAGS.split(), f"--user-data-dir={profile}", f"--window-size={width},{height}", *more):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        driver = webdriver.Chrome(options, webdriver.ChromeService(places[0]))
        try:
            yield driver
        finally:
            driver.quit()


def errors_of(driver):
    """What the console said, but for advice."""
    return [entry["message"] for entry in driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]


def show_as(driver, width, height=900, scheme="light"):
    """The size of a window, narrower than browsers' own least too, and light or dark."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
