"""The report in a real browser: quiet, offline, usable, accessible."""

import base64
import json
import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("selenium", reason="the browser is driven by selenium")
pytest.importorskip("axe_core_python", reason="accessibility is judged by axe-core")
pytest.importorskip("jinja2", reason="the report needs Jinja2")
pytest.importorskip("matplotlib", reason="the report takes its colours from matplotlib")

import axe_core_python
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from jplay import JPlay
from jplay.datasets import load_digits, make_hyperspectral_scene
from jplay.report import record_run, write_report

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")

pytestmark = [
    pytest.mark.xdist_group("browser"),  # one browser for all
    pytest.mark.skipif(
        not (CHROMIUM and DRIVER), reason="needs the programs chromium and chromedriver"
    ),
]

WIDTHS = {"desktop": (1400, 900), "phone": (390, 844)}
AXE = (Path(axe_core_python.__file__).parent / "axe.min.js").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def scene_page(tmp_path_factory):
    """The report of a simulated scene, with every section."""
    scene = make_hyperspectral_scene(40, 56, n_bands=60, n_classes=4, snr_db=20, random_state=0)
    X, y, train, test = scene.data, scene.target, scene.train_indices, scene.test_indices
    model = JPlay(n_components=4, n_layers=2).fit(X[train], y[train])
    accuracy = float(model.score(X[test], y[test]))
    run = record_run(
        model,
        X,
        y,
        train=train,
        test=test,
        title="A scene with <b>markup</b> in its name",
        class_names=scene.target_names,
        scores=[
            {
                "features": "J-Play",
                "n_features": 4,
                "classifier": "built-in",
                "overall_accuracy": accuracy,
                "average_accuracy": accuracy,
                "kappa": None,
            }
        ],
        depth=[{"n_layers": 1, "built-in": 0.9}, {"n_layers": 2, "built-in": accuracy}],
        scene=scene,
        class_map=model.predict(scene.cube.reshape(-1, 60)).reshape(scene.ground_truth.shape),
    )
    return write_report(run, tmp_path_factory.mktemp("report") / "scene.html"), scene, run


@pytest.fixture(scope="module")
def digits_page(tmp_path_factory):
    """A report without a map: features are pixels."""
    digits = load_digits()
    X, y, train, test = digits.data, digits.target, digits.train_indices, digits.test_indices
    model = JPlay(n_components=10, n_layers=2).fit(X[train] / 16, y[train])
    run = record_run(
        model, X / 16, y, train=train, test=test, title="Digits", image_shape=digits.image_shape
    )
    return write_report(run, tmp_path_factory.mktemp("report") / "digits.html")


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        f"--user-data-dir={tmp_path_factory.mktemp('profile')}",
    ):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    service = webdriver.ChromeService(executable_path=DRIVER)
    driver = webdriver.Chrome(options=options, service=service)
    yield driver
    driver.quit()


def open_page(browser, path, width="desktop", scheme="light"):
    size = dict(zip(("width", "height"), WIDTHS[width], strict=True))
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {**size, "deviceScaleFactor": 1, "mobile": width == "phone"},
    )
    features = [
        {"name": "prefers-color-scheme", "value": scheme},
        {"name": "prefers-reduced-motion", "value": "reduce"},
    ]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": features})
    browser.get(path.as_uri())


def open_map(browser, path, **kwargs):
    open_page(browser, path, **kwargs)
    stage = browser.find_element(By.ID, "stage")
    WebDriverWait(browser, 60).until(lambda _: stage.get_attribute("data-ready") == "true")
    return stage


def keep_screenshot(browser, name):
    """Save the whole page where JPLAY_SCREENSHOTS names a folder, for people to look at."""
    folder = os.environ.get("JPLAY_SCREENSHOTS")
    if folder:
        height = browser.execute_script("return document.documentElement.scrollHeight")
        width = browser.execute_script("return window.innerWidth")
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        picture = browser.execute_cdp_cmd(
            "Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip}
        )
        Path(folder, f"{name}.png").write_bytes(base64.b64decode(picture["data"]))


def visible_layers(browser):
    images = browser.find_elements(By.CSS_SELECTOR, "#sheet img")
    return [i.get_attribute("data-layer") for i in images if i.is_displayed()]


def hover(browser, stage, row, column, scene):
    """Point at the middle of a pixel of the map."""
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", stage)
    box = stage.rect
    height, width = scene.ground_truth.shape
    right = (column + 0.5) / width * box["width"] - box["width"] / 2
    down = (row + 0.5) / height * box["height"] - box["height"] / 2
    actions = webdriver.ActionChains(browser)
    actions.move_to_element_with_offset(stage, round(right), round(down)).perform()


def test_page_is_quiet_and_offline(browser, scene_page):
    path, _, _ = scene_page
    browser.get("about:blank")
    browser.get_log("browser"), browser.get_log("performance")
    open_map(browser, path)
    filters(browser)[1].click()
    assert browser.get_log("browser") == []
    entries = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    requests = [
        entry["params"]["request"]["url"]
        for entry in entries
        if entry["method"] == "Network.requestWillBeSent"
    ]
    assert path.as_uri() in requests
    assert [url for url in requests if not url.startswith(("file:", "data:"))] == []
    resources = browser.execute_script(
        "return performance.getEntriesByType('resource').map((entry) => entry.name)"
    )
    assert [url for url in resources if not url.startswith("data:")] == []


def test_layers_switch(browser, scene_page):
    open_map(browser, scene_page[0])
    assert visible_layers(browser) == ["color", "prediction"]
    for layer in ("truth", "errors"):
        browser.find_element(By.CSS_SELECTOR, f"input[value={layer}]").click()
        assert visible_layers(browser) == ["color", layer]
    assert browser.find_element(By.ID, "legend-errors").is_displayed()
    browser.find_element(By.CSS_SELECTOR, "input[value=color]").click()
    assert visible_layers(browser) == ["color"]
    browser.find_element(By.CSS_SELECTOR, "input[value=color]").send_keys(Keys.ARROW_RIGHT)
    assert visible_layers(browser) == ["color", "truth"]


def test_hover_shows_class_and_spectrum_of_the_pixel(browser, scene_page):
    path, scene, run = scene_page
    stage = open_map(browser, path)
    wrong = (scene.ground_truth > 0) & (run.scene.prediction != scene.ground_truth)
    right = (scene.ground_truth > 0) & ~wrong
    for pixels in (wrong, right):
        row, column = (int(n) for n in np.argwhere(pixels & (run.scene.training == 0))[0])
        hover(browser, stage, row, column, scene)
        text = browser.find_element(By.ID, "readout").text
        truth = scene.target_names[scene.ground_truth[row, column] - 1]
        prediction = scene.target_names[run.scene.prediction[row, column] - 1]
        assert f"Row {row}, column {column}." in text
        assert f"Truth: {truth}." in text
        assert f"Prediction: {prediction} ({'right' if truth == prediction else 'wrong'})" in text
        curve = browser.find_element(By.CSS_SELECTOR, "#spectrum path.series-0").get_attribute("d")
        drawn = np.array(
            [point.split(" ")[1] for point in re.split("[ML]", curve)[1:]], dtype=float
        )
        # Heights on the screen fall where values rise.
        assert np.corrcoef(drawn, scene.cube[row, column])[0, 1] < -0.999


def test_keyboard_moves_and_zooms(browser, scene_page):
    path, scene, _ = scene_page
    stage = open_map(browser, path)
    stage.send_keys(Keys.ARROW_RIGHT)
    before = browser.find_element(By.ID, "readout").text
    assert before.startswith("Row 20, column 29.")
    stage.send_keys(Keys.ARROW_UP)
    assert browser.find_element(By.ID, "readout").text.startswith("Row 19, column 29.")
    stage.send_keys("+", "+")
    assert "scale(2.25)" in browser.find_element(By.ID, "sheet").get_attribute("style")
    hover(browser, stage, 0, 0, scene)
    assert not browser.find_element(By.ID, "readout").text.startswith("Row 0, column 0.")
    stage.send_keys("0")
    assert "scale(1)" in browser.find_element(By.ID, "sheet").get_attribute("style")


def filters(browser):
    return browser.find_elements(By.CSS_SELECTOR, "#legend-classes .filter")


def test_legend_shows_chosen_classes_alone_on_map_and_panels(browser, scene_page):
    path, _, run = scene_page
    open_map(browser, path)
    veil = browser.find_element(By.ID, "veil")
    assert not veil.is_displayed()
    filters(browser)[1].click()
    chosen = browser.find_elements(By.CSS_SELECTOR, ".point.chosen")
    assert [path.get_attribute("data-class") for path in chosen] == ["2", "2", "2"]
    pressed = browser.find_elements(By.CSS_SELECTOR, ".filter[aria-pressed=true]")
    assert [button.get_attribute("data-class") for button in pressed] == ["2", "2"]
    assert veil.is_displayed()
    opacity = browser.execute_script(
        "const c = arguments[0]; const sheet = c.getContext('2d');"
        "const p = sheet.getImageData(0, 0, c.width, c.height);"
        "return Array.from(p.data).filter((v, i) => i % 4 === 3)",
        veil,
    )
    shown = np.reshape(opacity, run.scene.prediction.shape) == 0
    np.testing.assert_array_equal(shown, run.scene.prediction == 2)
    filters(browser)[1].click()
    assert not veil.is_displayed()
    assert not browser.find_elements(By.CSS_SELECTOR, ".point.off")


def test_legend_of_a_chart_filters_its_lines(browser, scene_page):
    open_page(browser, scene_page[0])
    figure = browser.find_element(By.CSS_SELECTOR, "#convergence figure:nth-of-type(2)")
    figure.find_elements(By.CSS_SELECTOR, ".filter")[2].click()
    dimmed = figure.find_elements(By.CSS_SELECTOR, "path.off")
    assert [path.get_attribute("data-series") for path in dimmed] == ["0", "1", "3"]


def test_tables_are_sorted_by_a_click_on_their_headings(browser, scene_page):
    open_page(browser, scene_page[0])
    table = browser.find_element(By.CSS_SELECTOR, "[aria-label='Class by class'] table")

    def column(k):
        cells = table.find_elements(By.CSS_SELECTOR, f"tbody tr > :nth-child({k})")
        return [cell.text.split()[-1 if k == 1 else 0] for cell in cells]

    names, found = column(1), [float(text) for text in column(4)]
    button = table.find_element(By.CSS_SELECTOR, "th:nth-child(4) button")
    button.click()
    assert [float(text) for text in column(4)] == sorted(found, reverse=True)
    heading = table.find_element(By.CSS_SELECTOR, "th:nth-child(4)")
    assert heading.get_attribute("aria-sort") == "descending"
    button.click()
    assert [float(text) for text in column(4)] == sorted(found)
    table.find_element(By.CSS_SELECTOR, "th:nth-child(1) button").click()
    assert column(1) == sorted(names)


def test_navigation_stays_and_marks_the_section(browser, scene_page):
    open_page(browser, scene_page[0])
    browser.find_element(By.CSS_SELECTOR, "nav a[href='#confusion']").click()
    current = "nav a[aria-current]"
    WebDriverWait(browser, 60).until(
        lambda _: browser.find_element(By.CSS_SELECTOR, current).text == "Confusion"
    )
    navigation = browser.find_element(By.TAG_NAME, "nav")
    top = browser.execute_script("return arguments[0].getBoundingClientRect().top", navigation)
    assert top == 0


def test_wide_tables_say_on_a_phone_that_they_scroll(browser, scene_page):
    hints = "return [...document.querySelectorAll('.scroll-hint')].length"
    open_page(browser, scene_page[0], width="phone")
    assert browser.execute_script(hints) > 0
    open_page(browser, scene_page[0])
    assert browser.execute_script(hints) == 0


def test_first_screen_has_the_figures_and_the_map(browser, scene_page):
    path, _, run = scene_page
    stage = open_map(browser, path)
    numbers = browser.find_elements(By.CSS_SELECTOR, ".headlines .number")
    assert len(numbers) == 4
    share = np.trace(run.confusion) / run.confusion.sum()
    assert numbers[0].text == f"{100 * share:.1f} %"
    assert all(limits.text for limits in browser.find_elements(By.CSS_SELECTOR, ".limits"))
    assert stage.rect["y"] + 0.7 * stage.rect["height"] < WIDTHS["desktop"][1]


def test_markup_in_names_is_text(browser, scene_page):
    open_page(browser, scene_page[0])
    heading = browser.find_element(By.TAG_NAME, "h1")
    assert heading.text == "A scene with <b>markup</b> in its name"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", list(WIDTHS))
def test_pages_are_accessible_and_fit_the_screen(browser, scene_page, digits_page, width, scheme):
    for name, path in (("scene", scene_page[0]), ("digits", digits_page)):
        open_page(browser, path, width=width, scheme=scheme)
        if name == "scene":
            stage = open_map(browser, path, width=width, scheme=scheme)
            hover(browser, stage, 5, 5, scene_page[1])
        browser.execute_script("document.querySelector('details').open = true")
        overflow = "return document.documentElement.scrollWidth - window.innerWidth"
        assert browser.execute_script(overflow) <= 0
        browser.execute_script(AXE)
        found = browser.execute_async_script(
            "const done = arguments[0]; axe.run().then((r) => done(r.violations))"
        )
        problems = [(v["id"], [n["html"][:200] for n in v["nodes"][:3]]) for v in found]
        assert problems == []
        keep_screenshot(browser, f"{name}-{width}-{scheme}")


def test_printed_page_shows_every_layer(browser, scene_page):
    open_map(browser, scene_page[0])
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    assert visible_layers(browser) == ["color", "truth", "prediction", "errors"]
    assert not browser.find_element(By.TAG_NAME, "nav").is_displayed()
    keep_screenshot(browser, "scene-print")
