"""A person's work in the app: labels that last, fits, maps, accuracy, files; many at once."""

import http.client
import json
import shlex
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

pytest.importorskip("starlette", reason="the app is a Starlette application")
pytest.importorskip("uvicorn", reason="the app is served by Uvicorn")
pytest.importorskip("geopandas", reason="labels are written by geopandas")
pytest.importorskip("rasterio", reason="scenes are read by rasterio")
pytest.importorskip("jinja2", reason="the report needs Jinja2")
pytest.importorskip("skops", reason="models are saved by skops")

import geopandas
import rasterio
from typer.testing import CliRunner

from app_client import Session, Started, ask, box
from jplay.app import AppSettings, create_app
from jplay.cli._app import app as command_line
from jplay.persistence import load_model
from jplay.raster import open_labels, open_scene
from raster_files import make_image, write_cube, write_envi


@pytest.fixture(scope="module")
def image():
    return make_image(height=60, width=52, n_bands=30, n_classes=3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, image):
    place = tmp_path_factory.mktemp("given")
    write_cube(place / "scene.tif", image)
    write_envi(place, image)
    rng = np.random.default_rng(0)
    rows = ["id,width,height,remark,batch,kind"]
    for number in range(90):
        kind = number % 3
        width, height = rng.normal(3 * kind, 0.6), rng.normal(kind, 0.4)
        known = f"kind {kind}" if number < 84 else ""
        rows.append(f"r{number},{width:.3f},{height:.3f},text,b{number // 6},{known}")
    (place / "table.csv").write_text("\n".join(rows))
    return place


@pytest.fixture(scope="module")
def app(folder, tmp_path_factory):
    workspace = tmp_path_factory.mktemp("work")
    made = create_app(AppSettings(folders=[folder], workspace=workspace, n_workers=2))
    yield made
    made.state.home.close()


def sender(app):
    return lambda *request: ask(app, *request)


def repeat_commands(place, monkeypatch):
    """Run every command of the script that an export wrote, in its folder."""
    monkeypatch.chdir(place)
    lines = (place / "commands.sh").read_text().splitlines()
    commands = [shlex.split(line)[1:] for line in lines if line.startswith("jplay ")]
    assert len(commands) == 2
    commands[0] += ["--cv", "0"]  # the accuracy has tests of its own
    for command in commands:
        result = CliRunner().invoke(command_line, command)
        assert result.exit_code == 0, result.output


def squares(image, size=5):
    """Squares of pixels of one class, for every class two that are apart."""
    found = {}
    truth = image.ground_truth
    for top in range(0, truth.shape[0] - size, size):
        for left in range(0, truth.shape[1] - size, size):
            codes = np.unique(truth[top : top + size, left : left + size])
            if len(codes) == 1 and codes[0] > 0 and len(found.setdefault(int(codes[0]), [])) < 2:
                found[int(codes[0])].append((left, top))
    assert all(len(places) == 2 for places in found.values())
    return found


@pytest.fixture
def session(app):
    opened = Session(sender(app), {"path": "scene.tif"})
    opened.call("PUT", "/settings", {"auto": False})
    return opened


def draw_all(session, image, size=5):
    for code, places in sorted(squares(image, size).items()):
        state = session.call("POST", "/classes", {"name": f"cover {code}"})
        number = state["classes"][-1]["id"]
        for place, (left, top) in enumerate(places):
            state = session.draw(f"c{code}-{place}", number, box(left, top, size))
    return state


def tile(session, number, level=0, row=0, column=0):
    answer = session.try_to("GET", f"/map/{number}/{level}/{row}/{column}")
    assert answer.status == 200, answer.content
    shape = int(answer.headers["x-height"]), int(answer.headers["x-width"])
    return np.frombuffer(answer.content, dtype=np.uint8).reshape(3, *shape)


@pytest.mark.parametrize("name", ["scene.tif", "scene.hdr"])
def test_opened_scene_tells_its_facts_and_shows_its_bands(app, image, name):
    session = Session(sender(app), {"path": name})
    facts = session.state["scene"]
    assert (facts["height"], facts["width"], facts["n_bands"]) == image.counts.shape
    assert facts["crs"] == "EPSG:32632"
    assert len(facts["good"]) == (~image.absorption_bands).sum()
    answer = session.try_to("GET", "/image/0/0/0?bands=20,10,2&percent=0")
    from io import BytesIO

    from PIL import Image

    shown = np.array(Image.open(BytesIO(answer.content)))
    assert shown.shape == (60, 52, 4)
    for place, band in enumerate((20, 10, 2)):
        values = image.counts[..., band].astype(float)
        scaled = 255 * (values - values.min()) / (values.max() - values.min())
        assert np.abs(shown[..., place] - scaled).max() <= 1
    assert (shown[..., 3] == 255).all()


@pytest.mark.parametrize(
    "query", ["", "?bands=1,2", "?bands=1,2,30", "?bands=a,b,c", "?bands=-1,1,2"]
)
def test_wrong_bands_are_refused(session, query):
    assert session.try_to("GET", f"/image/0/0/0{query}").status == 400


@pytest.mark.parametrize("place", ["0/1/0", "0/0/1", "31/0/0"])
def test_tiles_outside_the_image_are_refused(session, place):
    assert session.try_to("GET", f"/image/{place}?bands=1,2,3").status == 400


def test_polygon_counts_the_pixels_whose_centres_it_covers(session):
    number = session.call("POST", "/classes", {"name": "wheat"})["classes"][-1]["id"]
    state = session.draw("a", number, [[2.4, 3.4], [6.6, 3.4], [6.6, 5.6], [2.4, 5.6]])
    assert state["counts"][str(number)] == {"pixels": 5 * 3, "fields": 1}
    state = session.call(
        "PUT", "/shapes/p", {"class": number, "kind": "point", "rings": [[[9.9, 9.1]]]}
    )
    assert state["counts"][str(number)] == {"pixels": 16, "fields": 2}
    state = session.draw("a", number, box(2, 3, 2))
    assert state["counts"][str(number)] == {"pixels": 5, "fields": 2}
    assert state["notes"] == ["wheat: too few pixels (5). Draw more."]
    assert session.call("DELETE", "/shapes/a")["counts"][str(number)]["pixels"] == 1
    assert session.call("DELETE", f"/classes/{number}")["shapes"] == []


def test_notes_tell_of_single_fields_and_overlaps(session):
    first = session.call("POST", "/classes", {"name": "wheat"})["classes"][-1]["id"]
    second = session.call("POST", "/classes", {"name": "maize"})["classes"][-1]["id"]
    session.draw("a", first, box(0, 0, 6))
    state = session.draw("b", second, box(4, 4, 6))
    assert state["counts"][str(first)]["pixels"] == 36 - 4
    assert state["counts"][str(second)]["pixels"] == 36
    assert any("wheat: one field only" in text for text in state["notes"])
    assert any("wheat and maize overlap in 4 pixels" in text for text in state["notes"])
    assert session.try_to("POST", "/classes", {"name": "wheat"}).status == 400
    assert session.try_to("PUT", f"/classes/{second}", {"name": "wheat"}).status == 400
    renamed = session.call("PUT", f"/classes/{second}", {"name": "corn"})
    assert [one["name"] for one in renamed["classes"]] == ["wheat", "corn"]


def test_fit_maps_the_scene_and_pixels_agree_with_it(session, image):
    state = draw_all(session, image)
    job = session.work("fit")
    assert job["state"] == "done", job
    fit = session.call("GET", "")["fit"]
    assert fit["class_names"] == [one["name"] for one in state["classes"]]
    codes, confidence, labels = tile(session, fit["number"])
    known = image.ground_truth > 0
    names = np.array(["", *fit["class_names"]])
    right = names[codes[known]] == np.char.add("cover ", image.ground_truth[known].astype(str))
    assert right.mean() > 0.9
    assert (labels > 0).sum() == sum(one["pixels"] for one in state["counts"].values())
    pixel = session.call("GET", "/pixel/30/20")
    assert np.argmax(pixel["probabilities"]) + 1 == codes[30, 20]
    assert confidence[30, 20] == round(255 * max(pixel["probabilities"]))
    good = ~image.absorption_bands
    np.testing.assert_allclose(pixel["spectrum"], image.counts[30, 20, good], rtol=1e-4)
    looks = session.call("GET", "/looks")
    place = 7
    row, column = looks["rows"][place], looks["columns"][place]
    assert labels[row, column] == fit["classes"][looks["labels"][place]]
    there = session.call("GET", f"/pixel/{row}/{column}")["planes"]
    shown = [plane[place] for plane in looks["planes"]]
    np.testing.assert_allclose(there, shown, rtol=1e-3, atol=1e-3)
    assert session.try_to("GET", f"/map/{fit['number'] + 1}/0/0/0").status == 404


def test_fit_follows_a_polygon_at_once_and_reports_from_the_start(session, image):
    draw_all(session, image)
    session.call("PUT", "/settings", {"auto": True})
    state = session.draw("more", 1, box(*squares(image)[1][0], 6))
    assert state["jobs"]["fit"]["state"] == "running"
    assert session.wait("fit")["state"] == "done"
    first = session.call("GET", "")["fit"]["number"]
    session.call("DELETE", "/shapes/more")
    assert session.wait("fit")["state"] == "done"
    assert session.call("GET", "")["fit"]["number"] > first


def wait_for_fitting(session):
    """Wait until a worker process is at the fit itself."""
    job = session.call("GET", "/progress")["jobs"]["fit"]
    while not job["text"].startswith("Fitting"):
        assert job["state"] == "running", job
        time.sleep(0.02)
        job = session.call("GET", "/progress")["jobs"]["fit"]


def test_slow_fit_is_cancelled_and_nothing_is_lost(session, image):
    state = draw_all(session, image)
    session.call("PUT", "/settings", {"model": "committee"})
    session.call("POST", "/fit")
    wait_for_fitting(session)
    session.call("POST", "/cancel/fit")
    job = session.wait("fit")
    assert job["state"] == "cancelled"
    assert "labels are kept" in job["message"]
    after = session.call("GET", "")
    assert after["shapes"] == state["shapes"]
    assert after["fit"] is None
    session.call("PUT", "/settings", {"model": "lda"})
    job = session.work("fit")
    assert job["state"] == "done", job


def test_worker_that_dies_is_told_and_replaced(app, session, image):
    draw_all(session, image)
    session.call("PUT", "/settings", {"model": "committee"})
    session.call("POST", "/fit")
    wait_for_fitting(session)
    for process, _ in list(app.state.home.pool._live):
        process.kill()
    job = session.wait("fit")
    assert job["state"] == "failed"
    assert "Your labels are kept" in job["message"]
    session.call("PUT", "/settings", {"model": "jplay"})
    job = session.work("fit")
    assert job["state"] == "done", job


@pytest.mark.parametrize("request_", ["fit", "accuracy", "export"])
def test_work_without_labels_is_a_message(session, request_):
    answer = session.try_to("POST", f"/{request_}", {"models": ["jplay"]})
    if answer.status == 200:
        job = session.wait(request_)
        assert job["state"] == "failed"
        assert job["message"] == "Draw at least two classes first."
    else:
        assert answer.json["error"] == "Fit a model first."


def test_accuracy_leaves_fields_out_or_warns(session, image):
    draw_all(session, image)
    assert session.work("accuracy", {"models": ["jplay", "lda"]})["state"] == "done"
    rows = session.call("GET", "")["accuracy"]
    assert [row["model"] for row in rows] == ["jplay", "lda"]
    for row in rows:
        assert row["folds"] == "groups"
        assert row["low"] <= row["accuracy"] <= row["high"]
        confusion = np.array(row["confusion"])
        assert row["accuracy"] == pytest.approx(np.trace(confusion) / confusion.sum())
    for code in squares(image):
        session.call("DELETE", f"/shapes/c{code}-1")
    session.work("accuracy", {"models": ["lda"]})
    assert session.call("GET", "")["accuracy"][0]["folds"] == "random"


def test_results_hold_what_was_shown(app, session, image, folder, monkeypatch):
    state = draw_all(session, image)
    session.work("fit")
    session.work("accuracy", {"models": ["jplay"]})
    job = session.work("export")
    assert job["state"] == "done", job
    place = app.state.home.settings.workspace / session.id / "results"
    number = session.call("GET", "")["fit"]["number"]
    codes, confidence, labels = tile(session, number)
    with rasterio.open(place / "map.tif") as written:
        np.testing.assert_array_equal(written.read(1), codes)
        assert written.crs.to_epsg() == 32632
        palette = written.colormap(1)
        names = json.loads(written.tags()["class_names"])
    for one in state["classes"]:
        assert palette[one["id"]][:3] == tuple(bytes.fromhex(one["color"][1:]))
        assert names[str(one["id"])] == one["name"]
    with rasterio.open(place / "confidence.tif") as written:
        np.testing.assert_allclose(written.read(1), confidence / 255, atol=0.0025)
    scene = open_scene(folder / "scene.tif")
    from jplay.raster import Block

    again = open_labels(place / "labels.tif", scene).read(Block(0, 60, 0, 52))
    np.testing.assert_array_equal(again, labels)
    polygons = geopandas.read_file(place / "polygons.gpkg")
    assert polygons.crs.to_epsg() == 32632
    assert len(polygons) == len(state["shapes"])
    assert polygons["class"].value_counts().to_dict() == {
        one["name"]: 2 for one in state["classes"]
    }
    model = load_model(place / "model.skops")
    X, _ = scene.read(Block(0, 1, 0, 52))
    np.testing.assert_array_equal(model.predict(X.astype(float)), codes[0])
    assert "<h1" in (place / "report.html").read_text()
    files = {one["name"] for one in session.call("GET", "/results")["files"]}
    assert {"map.tif", "everything.zip", "commands.sh", "report.html"} <= files
    repeat_commands(place, monkeypatch)
    with rasterio.open(place / "repeated.tif") as repeated:
        again = repeated.read(1)
        names_again = json.loads(repeated.tags()["class_names"])
    words = [np.array([n[str(k)] for k in range(len(n))]) for n in (names, names_again)]
    np.testing.assert_array_equal(words[1][again], words[0][codes])


def test_exported_polygons_come_back_the_same(app, session, image):
    state = draw_all(session, image)
    session.work("fit")
    session.work("export")
    place = app.state.home.settings.workspace / session.id / "results"
    for name in ("polygons.gpkg", "polygons.geojson"):
        other = Session(sender(app), {"path": "scene.hdr"})
        other.call("PUT", "/settings", {"auto": False})
        back = other.call("PUT", f"/import/{name}", (place / name).read_bytes())
        assert back["n_outside"] == 0
        assert [one["name"] for one in back["classes"]] == [one["name"] for one in state["classes"]]
        assert [one["color"] for one in back["classes"]] == [
            one["color"] for one in state["classes"]
        ]
        assert list(back["counts"].values()) == list(state["counts"].values())
        for mine, theirs in zip(back["shapes"], state["shapes"], strict=True):
            a, b = np.array(mine["rings"][0]), np.array(theirs["rings"][0])
            assert {tuple(point) for point in a.round(2)} == {tuple(point) for point in b.round(2)}


def test_shapes_outside_the_image_are_counted_and_left_out(session):
    collection = {
        "type": "FeatureCollection",
        "crs": {"type": "name", "properties": {"name": "EPSG:32632"}},
        "features": [
            {
                "type": "Feature",
                "properties": {"class": "a"},
                "geometry": {"type": "Point", "coordinates": [x, 5_399_990.0]},
            }
            for x in (500_010.0, 900_000.0)
        ],
    }
    state = session.call("PUT", "/import/p.geojson", json.dumps(collection).encode())
    assert state["n_outside"] == 1
    assert len(state["shapes"]) == 1
    collection["features"] = collection["features"][1:]
    answer = session.try_to("PUT", "/import/p.geojson", json.dumps(collection).encode())
    assert "lies inside the image" in answer.json["error"]
    assert len(session.call("GET", "")["shapes"]) == 1


def test_scene_that_cannot_be_read_is_a_message(app, folder):
    (folder / "broken.tif").write_bytes(b"II*\0 nothing of use")
    (folder / "broken.csv").write_text('a,b\n"1,2\n')
    session = Session(sender(app))
    for name in ("broken.tif", "broken.csv"):
        answer = session.try_to("POST", "/open", {"path": name})
        assert answer.status == 400
        assert "cannot be" in answer.json["error"]
    assert session.call("POST", "/open", {"path": "scene.tif"})["kind"] == "scene"


def test_table_is_fitted_judged_and_predicted(app, monkeypatch):
    session = Session(sender(app), {"path": "table.csv"})
    assert session.state["roles"]["target"] == "kind"
    assert session.try_to("PUT", "/roles", {"target": "nothing"}).status == 400
    assert session.try_to("PUT", "/roles", {"target": "kind", "groups": "kind"}).status == 400
    session.call("PUT", "/roles", {"target": "kind", "groups": "batch", "id": "id"})
    job = session.work("fit")
    assert job["state"] == "done", job
    assert session.work("accuracy", {"models": ["jplay"]})["state"] == "done"
    state = session.call("GET", "")
    assert state["fit"]["n_samples"] == 84
    assert state["accuracy"][0]["folds"] == "groups"
    assert state["accuracy"][0]["accuracy"] > 0.9
    looks = session.call("GET", "/looks")
    assert looks["features"] == ["width", "height"]
    assert np.shape(looks["relevance"]) == (3, 2)
    assert session.work("export")["state"] == "done"
    place = app.state.home.settings.workspace / session.id / "results"
    import pandas

    predicted = pandas.read_csv(place / "predictions.csv")
    assert len(predicted) == 90
    assert predicted["id"].tolist()[:2] == ["r0", "r1"]
    known = predicted["kind"].notna()
    assert (predicted["prediction"] == predicted["kind"])[known].mean() > 0.9
    assert predicted["prediction"][~known].tolist() == ["kind 0", "kind 1", "kind 2"] * 2
    assert predicted["prediction_left_out"].notna().sum() == 84
    assert list(load_model(place / "model.skops").metadata.feature_names) == ["width", "height"]
    repeat_commands(place, monkeypatch)
    repeated = pandas.read_csv(place / "repeated.csv")
    assert repeated["prediction"].tolist() == predicted["prediction"][known].tolist()


def test_twenty_at_once_do_not_mix(app, image):
    places = squares(image)

    def person(number):
        session = Session(sender(app), {"path": "scene.tif"})
        session.call("PUT", "/settings", {"auto": False, "model": "lda"})
        codes = list(places)[: 2 + number % 2]
        for code in codes:
            state = session.call("POST", "/classes", {"name": f"person {number} class {code}"})
            for place, (left, top) in enumerate(places[code]):
                size = 3 + (number + place) % 3
                session.draw(f"s{place}", state["classes"][-1]["id"], box(left, top, size))
                session.draw(f"{code}-{place}", state["classes"][-1]["id"], box(left, top, size))
        for place in (0, 1):
            session.call("DELETE", f"/shapes/s{place}")
        job = session.work("fit", seconds=200)
        assert job["state"] == "done", job
        return number, codes, session

    with ThreadPoolExecutor(20) as pool:
        people = list(pool.map(person, range(20)))
    assert len({session.id for _, _, session in people}) == 20
    for number, codes, session in people:
        state = session.call("GET", "")
        names = [f"person {number} class {code}" for code in codes]
        assert [one["name"] for one in state["classes"]] == names
        assert state["fit"]["class_names"] == names
        assert [one["id"] for one in state["shapes"]] == [f"{c}-{p}" for c in codes for p in (0, 1)]
        sizes = [(3 + number % 3) ** 2, (3 + (number + 1) % 3) ** 2]
        assert {one["pixels"] for one in state["counts"].values()} == {sum(sizes)}
        assert set(np.unique(tile(session, state["fit"]["number"])[0])) <= {0, 1, 2, 3}


def test_no_polygon_is_missing_after_a_kill(folder, tmp_path, image):
    arguments = ("--folder", folder, "--workspace", tmp_path)
    server = Started(*arguments)
    session = Session(server.send, {"path": "scene.tif"})
    number = session.call("POST", "/classes", {"name": "wheat"})["classes"][-1]["id"]
    answered = 0
    with ThreadPoolExecutor(1) as pool:

        def draw():
            nonlocal answered
            for place in range(1000):
                session.draw(f"s{place}", number, box(place % 40, place // 40, 3))
                answered = place + 1

        drawing = pool.submit(draw)
        while answered < 12:
            assert not drawing.done(), drawing.result()
            time.sleep(0.01)
        server.kill()
        with pytest.raises((OSError, http.client.HTTPException)):
            drawing.result()
    with Started(*arguments) as again:
        recent = again.send("POST", "/api/start", {}).json["recent"]
        assert [one["id"] for one in recent] == [session.id]
        state = Session(again.send, identifier=session.id).state
    kept = [one["id"] for one in state["shapes"]]
    assert len(kept) in (answered, answered + 1)  # the last may be saved but not answered
    assert kept == [f"s{place}" for place in range(len(kept))]
    assert state["classes"][0]["name"] == "wheat"


def test_large_scene_stays_small_in_memory(tmp_path):
    psutil = pytest.importorskip("psutil", reason="tells the memory of a process")
    header = tmp_path / "large.hdr"
    header.write_text(
        "ENVI\nsamples = 4000\nlines = 4000\nbands = 200\nheader offset = 0\n"
        "file type = ENVI Standard\ndata type = 2\ninterleave = bil\nbyte order = 0\n"
    )
    with (tmp_path / "large.img").open("wb") as file:  # mostly holes: takes no room on the disk
        file.truncate(4000 * 4000 * 200 * 2)
        rng = np.random.default_rng(0)
        for line in range(0, 4000, 16):
            file.seek(line * 200 * 4000 * 2)
            file.write(rng.integers(1, 3000, size=4000 * 60, dtype=np.int16).tobytes())
    with Started("--folder", tmp_path) as server:
        session = Session(server.send, {"path": "large.hdr"})
        facts = session.state["scene"]
        assert (facts["height"], facts["levels"]) == (4000, 4)
        for place in ("4/0/0", "2/1/1", "0/7/7"):
            answer = session.try_to("GET", f"/image/{place}?bands=50,30,10")
            assert answer.headers["content-type"] == "image/png"
        process = psutil.Process(server.process.pid)
        family = [process, *process.children(recursive=True)]
        assert sum(one.memory_info().rss for one in family) < 2**30
        assert process.memory_info().rss < 2**29


def test_random_forest_is_taken_away_without_a_model_file(session, image):
    draw_all(session, image)
    session.call("PUT", "/settings", {"model": "forest", "min_confidence": 0.9})
    assert session.work("fit")["state"] == "done"
    assert session.work("export")["state"] == "done"
    files = {one["name"] for one in session.call("GET", "/results")["files"]}
    assert "no-model.txt" in files
    assert "model.skops" not in files
    commands = session.try_to("GET", "/results/commands.sh").content.decode()
    assert "RandomForestClassifier(200, random_state=0)" in commands
    assert "threshold=0.9" in commands
