"""The app in a real browser: a person opens, draws, looks and takes away."""

import io
import json
import zipfile

import numpy as np
import pytest

pytest.importorskip("starlette", reason="the app is a Starlette application")
pytest.importorskip("uvicorn", reason="the app is served by Uvicorn")
pytest.importorskip("rasterio", reason="scenes are read by rasterio")
pytest.importorskip("skops", reason="models are saved by skops")

import rasterio
from selenium import webdriver
from selenium.common.exceptions import TimeoutException
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

import test_report_browser
from app_client import Started
from test_report_browser import AXE, WIDTHS, keep_screenshot

pytestmark = test_report_browser.pytestmark
browser = test_report_browser.browser

STATE = """
const text = (id) => document.getElementById(id)?.textContent;
return {
  tool: document.querySelector("[data-tool][aria-checked=true]")?.dataset.tool,
  focus: document.activeElement?.id || document.activeElement?.tagName,
  classes: [...document.querySelectorAll("#classes li")].map((one) => one.innerText),
  pixel: text("pixel-text"), hint: text("hint"), messages: text("messages"), jobs: text("jobs"),
  fit: document.getElementById("map")?.dataset.fit, address: location.href,
};
"""
"""What the page shows, for the message of a wait that was in vain."""
HOSTILE = "<img src=x onerror=document.title='hacked'>"
PINES = 145
FIELDS = {"corn": (30, 25, 12), "woods": (88, 116, 20), "soybean": (50, 80, 14)}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("given")
    rng = np.random.default_rng(0)
    rows = [f"width,height,batch,{HOSTILE}"]
    for number in range(60):
        kind = number % 3
        width, height = rng.normal(3 * kind, 0.6), rng.normal(kind, 0.4)
        rows.append(f"{width:.3f},{height:.3f},b{number // 6},kind {kind}")
    (folder / "<b>table.csv").write_text("\n".join(rows))
    with Started("--folder", folder) as started:
        yield started


def screen(browser, width="desktop", scheme="light"):
    size = dict(zip(("width", "height"), WIDTHS[width], strict=True))
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {**size, "deviceScaleFactor": 1, "mobile": width == "phone"},
    )
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": features})


def until(browser, condition, seconds=120):
    try:
        return WebDriverWait(browser, seconds, poll_frequency=0.05).until(lambda _: condition())
    except TimeoutException as error:
        error.msg = json.dumps(browser.execute_script(STATE), indent=1)
        raise


def find(browser, name):
    return browser.find_element(By.ID, name)


def open_start(browser, server):
    screen(browser)
    browser.get("about:blank")
    browser.get(server.address)
    until(browser, lambda: find(browser, "files").text)


def point(browser, column, row):
    """Actions that have moved to the middle of a pixel of Indian Pines on the whole map."""
    map_, box = find(browser, "map"), find(browser, "map").rect
    scale = 0.96 * min(box["width"], box["height"]) / PINES
    right, down = ((place + 0.5 - PINES / 2) * scale for place in (column, row))
    actions = webdriver.ActionChains(browser, duration=20)
    return actions.move_to_element_with_offset(map_, round(right), round(down))


def draw(browser, left, top, size):
    """Click the corners of a square of whole pixels, the last one twice."""
    left, top = left - 0.5, top - 0.5
    corners = [(left, top), (left + size, top), (left + size, top + size), (left, top + size)]
    for corner in corners[:-1]:
        point(browser, *corner).click().perform()
    point(browser, *corners[-1]).double_click().perform()


def add_class(browser, name):
    n_before = len(browser.find_elements(By.CSS_SELECTOR, "#classes li"))
    find(browser, "add-class").click()
    until(browser, lambda: len(browser.find_elements(By.CSS_SELECTOR, "#classes li")) > n_before)
    until(browser, lambda: browser.switch_to.active_element.get_attribute("class") == "name")
    field = browser.switch_to.active_element
    field.send_keys(Keys.CONTROL + "a")
    field.send_keys(name + Keys.TAB)
    until(browser, lambda: f"Delete class {name}" in class_buttons(browser))


def choose_tool(browser, name):
    """Click a tool, and again if the page moved under the mouse."""
    button = browser.find_element(By.CSS_SELECTOR, f"[data-tool={name}]")

    def chosen():
        if button.get_attribute("aria-checked") != "true":
            button.click()
        return button.get_attribute("aria-checked") == "true"

    until(browser, chosen)


def class_buttons(browser):
    buttons = browser.find_elements(By.CSS_SELECTOR, "#classes button")
    return [button.get_attribute("aria-label") for button in buttons]


def mapped_after(browser, before):
    map_ = find(browser, "map")
    until(browser, lambda: map_.get_attribute("data-fit") not in (None, before))
    return map_.get_attribute("data-fit")


def problems(browser):
    browser.execute_script(AXE)
    found = browser.execute_async_script(
        "const done = arguments[0]; axe.run().then((r) => done(r.violations))"
    )
    return [(v["id"], [n["html"][:200] for n in v["nodes"][:3]]) for v in found]


def download(browser, link):
    """Fetch what a link of the page leads to, with the page's own means."""
    answer = browser.execute_async_script(
        "const done = arguments[1]; fetch(arguments[0].href).then((r) => r.arrayBuffer())"
        ".then((b) => done(Array.from(new Uint8Array(b))))",
        link,
    )
    return bytes(answer)


@pytest.fixture(scope="module")
def drawn(browser, server):
    """Indian Pines with three classes drawn by the mouse, and its map."""
    browser.get_log("browser"), browser.get_log("performance")
    open_start(browser, server)
    find(browser, "open-example").click()
    map_ = find(browser, "map")
    until(browser, lambda: map_.is_displayed() and map_.get_attribute("data-loading") == "0")
    fit = None
    for number, (name, field) in enumerate(FIELDS.items()):
        add_class(browser, name)
        draw(browser, *field)
        if number:
            fit = mapped_after(browser, fit)
    until(browser, lambda: not browser.find_elements(By.CSS_SELECTOR, ".job"))
    return map_


def test_drawn_polygons_become_a_map(browser, drawn):
    counts = [one.text for one in browser.find_elements(By.CSS_SELECTOR, "#classes .count")]
    assert counts == [f"{size * size} pixels, 1 field" for _, _, size in FIELDS.values()]
    assert "3 classes" in find(browser, "fit-facts").text
    assert browser.get_log("browser") == []
    keep_screenshot(browser, "app-drawn")


def test_page_asks_nobody_else(browser, drawn, server):
    entries = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = [
        entry["params"]["request"]["url"]
        for entry in entries
        if entry["method"] == "Network.requestWillBeSent"
        # What the browser's own start page asks for is none of the app's doing.
        and not entry["params"]["documentURL"].startswith("chrome://")
    ]
    assert asked
    assert [url for url in asked if not url.startswith((server.address, "blob:", "about:"))] == []


def test_pointing_tells_the_pixel_and_finds_it_in_the_subspace(browser, drawn):
    find(browser, "tab-pixel").click()
    choose_tool(browser, "move")
    left, top, size = FIELDS["woods"]
    row, column = top + size // 2, left + size // 2
    point(browser, column, row).perform()
    until(browser, lambda: f"Row {row}, column {column}." in find(browser, "pixel-text").text)
    until(browser, lambda: "Drawn: woods." in find(browser, "pixel-text").text)
    first = browser.find_element(By.CSS_SELECTOR, "#probabilities li").text
    assert first.startswith("woods")
    assert "What woods relies on" in find(browser, "relies").text
    assert len(browser.find_elements(By.CSS_SELECTOR, "#spectrum path.line")) == 4
    find(browser, "tab-subspace").click()
    scatter = browser.find_element(By.CSS_SELECTOR, "#pane-subspace canvas")
    for x in range(-120, 121, 8):
        actions = webdriver.ActionChains(browser, duration=0)
        actions.move_to_element_with_offset(scatter, x, 0).perform()
        if "row" in browser.find_element(By.CSS_SELECTOR, "#pane-subspace p").text:
            break
    text = browser.find_element(By.CSS_SELECTOR, "#pane-subspace p").text
    assert text.split(",")[0] in FIELDS


def test_shapes_are_edited_and_deleted(browser, drawn):
    fit = drawn.get_attribute("data-fit")
    choose_tool(browser, "edit")
    left, top, size = FIELDS["corn"]
    point(browser, left + 6, top + 6).click().perform()
    until(browser, lambda: find(browser, "shape-panel").is_displayed())
    actions = point(browser, left - 0.5, top - 0.5).click_and_hold()
    point_to = point(browser, left + 6, top)
    actions.perform()
    point_to.release().perform()
    fit = mapped_after(browser, fit)
    count = browser.find_element(By.CSS_SELECTOR, "#classes .count").text
    assert int(count.split()[0]) < size * size
    drawn.send_keys(Keys.DELETE)
    until(browser, lambda: not find(browser, "shape-panel").is_displayed())
    mapped_after(browser, fit)
    assert browser.find_element(By.CSS_SELECTOR, "#classes .count").text == "nothing drawn"
    choose_tool(browser, "polygon")
    browser.find_element(By.CSS_SELECTOR, "#classes li").click()
    fit = drawn.get_attribute("data-fit")
    draw(browser, left, top, size)
    mapped_after(browser, fit)


def test_exported_map_is_the_one_on_the_screen(browser, drawn):
    until(browser, lambda: not browser.find_elements(By.CSS_SELECTOR, ".job"))
    choose_tool(browser, "move")
    find(browser, "tab-take").click()
    find(browser, "pane-take-write").click()
    until(browser, lambda: browser.find_elements(By.LINK_TEXT, "everything.zip"))
    archive = zipfile.ZipFile(
        io.BytesIO(download(browser, browser.find_element(By.LINK_TEXT, "everything.zip")))
    )
    names = set(archive.namelist())
    assert {"map.tif", "confidence.tif", "polygons.gpkg", "model.skops", "report.html"} <= names
    assert "jplay fit" in browser.find_element(By.CSS_SELECTOR, "#pane-take pre").text
    with rasterio.MemoryFile(archive.read("map.tif")) as memory:
        with pytest.warns(rasterio.errors.NotGeoreferencedWarning):
            dataset = memory.open()
        codes = dataset.read(1)
        named = {int(k): v for k, v in json.loads(dataset.tags()["class_names"]).items()}
        dataset.close()
    find(browser, "tab-pixel").click()
    for row, column in ((12, 20), (70, 70), (120, 100), (140, 5)):
        point(browser, column, row).perform()
        told = f"Row {row}, column {column}. On the map: {named[codes[row, column]]} ("
        until(browser, lambda told=told: told in find(browser, "pixel-text").text)


def test_work_is_there_again_after_the_page_was_closed(browser, drawn, server):
    address = browser.current_url
    browser.get("about:blank")
    browser.get(address)
    until(browser, lambda: len(browser.find_elements(By.CSS_SELECTOR, "#classes li")) == 3)
    browser.get("about:blank")
    browser.get(server.address)
    until(browser, lambda: browser.find_elements(By.CSS_SELECTOR, "#recent button"))
    entry = browser.find_element(By.CSS_SELECTOR, "#recent button")
    assert entry.text.startswith("Indian Pines")
    assert "3 shapes" in entry.text
    entry.click()
    until(browser, lambda: len(browser.find_elements(By.CSS_SELECTOR, "#classes li")) == 3)
    until(browser, lambda: find(browser, "map").get_attribute("data-loading") == "0")


def test_keyboard_draws_a_point(browser, drawn):
    find(browser, "tab-pixel").click()
    browser.find_element(By.CSS_SELECTOR, "#classes li").click()
    choose_tool(browser, "point")
    point(browser, 70, 70).perform()
    until(browser, lambda: "Row 70, column 70." in find(browser, "pixel-text").text)
    before = browser.find_elements(By.CSS_SELECTOR, "#classes .count")[0].text
    find(browser, "map").send_keys(Keys.ARROW_RIGHT, Keys.ARROW_DOWN)
    until(browser, lambda: "Row 71, column 71." in find(browser, "pixel-text").text)
    find(browser, "map").send_keys(Keys.ENTER)
    until(
        browser,
        lambda: browser.find_elements(By.CSS_SELECTOR, "#classes .count")[0].text != before,
    )
    choose_tool(browser, "move")


def test_resting_mouse_leaves_the_cursor_to_the_keyboard(browser, drawn):
    """A browser repeats the last movement of the mouse when the page under it changes."""
    map_ = find(browser, "map")
    browser.execute_script(
        "arguments[0].addEventListener('pointermove', (event) => {"
        " window.lastMovement = { clientX: event.clientX, clientY: event.clientY }; })",
        map_,
    )
    point(browser, 60, 60).perform()
    until(browser, lambda: "Row 60, column 60." in find(browser, "pixel-text").text)
    map_.send_keys(Keys.ARROW_RIGHT)
    until(browser, lambda: "Row 60, column 61." in find(browser, "pixel-text").text)
    browser.execute_script(
        "arguments[0].dispatchEvent(new PointerEvent('pointermove', window.lastMovement))", map_
    )
    map_.send_keys(Keys.ARROW_RIGHT)
    until(browser, lambda: "Row 60, column 62." in find(browser, "pixel-text").text)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", list(WIDTHS))
def test_scene_is_accessible_and_fits_the_screen(browser, drawn, width, scheme):
    screen(browser, width, scheme)
    overflow = "return document.documentElement.scrollWidth - window.innerWidth"
    tabs = {"light": ("pixel", "subspace"), "dark": ("trust", "take")}[scheme]
    for tab in tabs:
        find(browser, f"tab-{tab}").click()
        assert browser.execute_script(overflow) <= 0
        assert problems(browser) == []
        keep_screenshot(browser, f"app-{tab}-{width}-{scheme}")


def test_table_is_compared_and_its_predictions_taken_away(browser, server):
    open_start(browser, server)
    assert problems(browser) == []
    entry = browser.find_element(By.CSS_SELECTOR, "#files button")
    assert "<b>table.csv" in entry.text
    entry.click()
    until(browser, lambda: find(browser, "table").is_displayed())
    assert find(browser, "title").text == "<b>table.csv"
    assert Select(find(browser, "role-target")).first_selected_option.text == HOSTILE
    Select(find(browser, "role-groups")).select_by_visible_text("batch")
    find(browser, "table-fit").click()
    until(browser, lambda: "3 classes" in find(browser, "table-fit-facts").text)
    until(browser, lambda: "width" in find(browser, "importance").text)
    find(browser, "table-trust-estimate").click()
    until(browser, lambda: browser.find_elements(By.CSS_SELECTOR, "#table-trust .big"))
    assert "whole groups" in find(browser, "table-trust").text
    assert len(browser.find_elements(By.CSS_SELECTOR, "#table-trust tbody tr")) == 3
    find(browser, "table-take-write").click()
    until(browser, lambda: browser.find_elements(By.LINK_TEXT, "predictions.csv"))
    link = browser.find_element(By.LINK_TEXT, "predictions.csv")
    lines = download(browser, link).decode().splitlines()
    assert len(lines) == 61
    assert lines[0] == f"row,{HOSTILE},prediction,confidence,prediction_left_out"
    assert browser.title.startswith("<b>table.csv")
    for width in WIDTHS:
        screen(browser, width, "dark")
        assert problems(browser) == []
        keep_screenshot(browser, f"app-table-{width}")
    screen(browser)
