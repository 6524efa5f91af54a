"""The playground and a run's report in a real browser; skipped where there is none."""

import importlib.util
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import anydepth as ad
from anydepth.data.images import normalised
from anydepth.deploy.sweeps.sweep import sweep
from anydepth.measure.crossings import crossing_rate
from anydepth.report import html
from anydepth.report.budgets import budgets
from anydepth.runs.folder import open_run
from anydepth.runs.override import override
from anydepth.train.training import train
from browsing import browser, errors_of, show_as
from small_runs import tiny

ROOT = Path(__file__).parents[2]
_SPEC = importlib.util.spec_from_file_location("playground_build", ROOT / "playground" / "build.py")
build = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(build)

HATS = ("model.options.basis=linear", "model.options.size=5", "model.options.steps=4", "model.options.scheme=rk4")
CONSTANTS = ("model.options.size=4", "model.options.steps=4", "model.options.scheme=euler", "model.options.scale=4")


@pytest.fixture(scope="module")
def driver():
    with browser() as found:
        yield found


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("playground")
    flow = override(build.config_of("coarse"), ["training.epochs=1", "data.options.train=64"])
    configs = {"continuous": tiny(*HATS), "resnet": tiny(*CONSTANTS), "coarse": flow, "fine": flow}
    for name, config in configs.items():
        train(config, folder / name)
    return {name: open_run(folder / name) for name in configs}


@pytest.fixture(scope="module")
def page(runs, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "playground.html"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "STEPS", (1, 2, 3, 16))
        patch.setattr(build, "SIZES", (1, 2, 5, 9))
        path.write_text(build.page(build.contents(runs, examples=40)))
    return path


@pytest.fixture(scope="module")
def opened(driver, page):
    show_as(driver, 1280)
    driver.get(page.as_uri())
    return driver


@pytest.fixture
def shown(opened):
    yield opened
    assert not errors_of(opened)


def probabilities(run, pixels, scheme, steps, size):
    """What Python says of 64 pixels."""
    model = ad.compress(run.model(), size=size, steps=steps, scheme=scheme).double().eval()
    with torch.no_grad():
        inputs = normalised(torch.tensor(pixels, dtype=torch.float64).view(1, 1, 8, 8), run.facts)
        return model(inputs).softmax(-1)[0].numpy()


@pytest.mark.parametrize(("scheme", "steps"), [("euler", 3), ("midpoint", 2), ("rk4", 16)])
def test_digits_in_the_browser_are_those_of_python(shown, runs, scheme, steps):
    pixels = np.random.default_rng(steps).integers(0, 17, 64).tolist()
    for name, sizes in (("continuous", (1, 2, 5)), ("resnet", (1, 2, 4))):
        for size in sizes:
            settings = {"scheme": scheme, "steps": steps, "size": size}
            call = (
                "return [...playground.digitsAlongDepth(playground.CONTENT.digits.nets[arguments[0]], ...arguments[1])"
            )
            found = shown.execute_script(f"{call}.at(-1).probabilities]", name, [pixels, settings])
            assert found == pytest.approx(probabilities(runs[name], pixels, scheme, steps, size), abs=1e-4)


def test_paths_in_the_browser_are_those_of_python(shown, runs):
    model, point = runs["coarse"].model().double().eval(), [0.2, -0.3]
    ad.set_solver(model, scheme="rk4", steps=16)
    call = (
        "const net = playground.CONTENT.flow.nets.coarse, [path] = playground.trajectories(playground.flowField(net), "
    )
    path, scores = shown.execute_script(
        f"{call}[arguments[0]], 'rk4', 16); return [path, [...playground.flowScores(net, path.at(-1))]]", point
    )
    with torch.no_grad(), ad.fast_paths(False):
        start = torch.tensor([point], dtype=torch.float64)
        wanted = model.block.trajectory(start, [k / 16 for k in range(17)])[:, 0]
        assert np.array(path) == pytest.approx(wanted.numpy(), abs=1e-4)
        assert scores == pytest.approx(model(start)[0].numpy(), abs=1e-4)


def test_crossings_in_the_browser_are_those_of_python(shown):
    call = """const net = playground.CONTENT.flow.nets.coarse, points = playground.CONTENT.flow.points;
        const paths = playground.trajectories(playground.flowField(net), points, "euler", 6);
        return [paths, playground.crossings(paths).length]"""
    paths, crossed = shown.execute_script(call)
    pairs = len(paths) * (len(paths) - 1) / 2
    assert crossed / pairs == pytest.approx(crossing_rate(torch.tensor(paths).transpose(0, 1)), abs=1e-9)


def test_a_drawn_digit_is_answered_at_the_depth_of_the_sliders(shown, runs):
    from selenium.webdriver import ActionChains, Keys
    from selenium.webdriver.common.by import By

    pad = shown.find_element(By.ID, "pad")
    hand = ActionChains(shown, duration=20).move_to_element_with_offset(pad, 0, -60).click_and_hold()
    hand.move_by_offset(4, 60).move_by_offset(-2, 55).release().perform()
    shown.find_element(By.CSS_SELECTOR, "#steps input").send_keys(Keys.ARROW_LEFT)
    shown.find_element(By.CSS_SELECTOR, "#scheme button[data-value=midpoint]").click()
    wait = "requestAnimationFrame(() => requestAnimationFrame(arguments[arguments.length - 1]))"
    shown.execute_async_script(wait)
    pixels, settings = shown.execute_script("return [playground.DIGITS.pixels(), playground.DIGITS.settings]")
    assert sum(pixels) > 20
    assert settings == {"scheme": "midpoint", "steps": 3, "size": 9}
    wanted = probabilities(runs["continuous"], pixels, "midpoint", 3, 5)
    told = shown.find_element(By.CSS_SELECTOR, "#continuous .answer").text.split()
    assert int(told[0]) == wanted.argmax()
    assert float(told[1]) == pytest.approx(100 * wanted.max(), abs=0.06)


def assert_fits(driver):
    wide = "[...document.querySelectorAll('html, .scroll, .panel')].filter(e => e.scrollWidth > e.clientWidth + 1)"
    assert driver.execute_script(f"return {wide}.map(e => e.outerHTML.slice(0, 300))") == []


def test_the_playground_fits_a_phone_light_and_dark(driver, page):
    backs = set()
    for scheme in ("light", "dark"):
        show_as(driver, 375, scheme=scheme)
        driver.get(page.as_uri())
        assert_fits(driver)
        backs.add(driver.execute_script("return getComputedStyle(document.body).backgroundColor"))
    assert len(backs) == 2
    assert not errors_of(driver)


def test_in_a_frame_the_playground_is_the_digits_alone(driver, page, tmp_path):
    (tmp_path / "front.html").write_text(f'<iframe src="{page.as_uri()}" style="width: 100%; height: 900px"></iframe>')
    show_as(driver, 900)
    driver.get((tmp_path / "front.html").as_uri())
    driver.switch_to.frame(0)
    shown = "return ['header', '#pad', '#chosen', 'footer'].map(e => document.querySelector(e).offsetParent !== null)"
    assert driver.execute_script(shown) == [False, True, False, False]
    driver.switch_to.default_content()
    assert not errors_of(driver)


def test_the_playground_is_one_small_file(page):
    text = page.read_text()
    assert len(text) < 2e6
    assert "http://" not in text
    assert "https://" not in text
    content = text.split('type="application/json">')[1].split("</script>")[0]
    assert json.loads(content)["steps"] == [1, 2, 3, 16]


def test_a_report_shows_its_forms_fits_a_phone_and_needs_no_script(driver, runs, tmp_path):
    run = runs["continuous"]
    found = sweep(run, sizes=[5, 2], steps=[4, 1], schemes=["rk4"], rounds=1, out=run.folder)
    part = budgets(SimpleNamespace(unswept="", sweep=found))
    counts = [str(count) for count in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)]
    grid = html.table(["steps", *counts], [[html.tag("th", "midpoint"), *["97.53"] * 10]] * 3, "numbers tiled")
    path = tmp_path / "report.html"
    path.write_text(html.page("a run", part, html.section("Solvers", "solvers", grid)))
    assert "<script" not in path.read_text()
    show_as(driver, 1280)
    driver.get(path.as_uri())
    hidden = "return [...document.querySelectorAll('.told')].map(e => getComputedStyle(e).display)"
    assert set(driver.execute_script(hidden)) == {"none"}
    driver.execute_script("document.querySelector('.spot.front').focus()")
    told = driver.execute_script("return document.querySelector('.spot.front .told').innerText")
    assert "parameters" in told
    assert "block" in driver.execute_script(hidden)
    assert_spots_lie_on_points(driver)
    assert_words_fit(driver)
    for scheme in ("light", "dark"):
        show_as(driver, 375, scheme=scheme)
        assert_fits(driver)
    assert not errors_of(driver)


def assert_words_fit(driver):
    """Of every place that the mouse points at: its words break into lines inside their box."""
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.by import By

    for spot in driver.find_elements(By.CSS_SELECTOR, ".spot.front"):
        ActionChains(driver, duration=0).move_to_element(spot).perform()
        told = spot.find_element(By.CSS_SELECTOR, ".told")
        assert told.is_displayed()
        assert driver.execute_script("return arguments[0].scrollWidth <= arguments[0].clientWidth", told)


def assert_spots_lie_on_points(driver):
    """Inside their drawing, every one."""
    outside = """return [...document.querySelectorAll('.spot')].filter(spot => {
        const a = spot.getBoundingClientRect(), b = spot.parentElement.getBoundingClientRect();
        return a.left < b.left || a.right > b.right || a.top < b.top || a.bottom > b.bottom; }).length"""
    assert driver.execute_script(outside) == 0
