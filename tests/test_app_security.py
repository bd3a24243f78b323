"""Whom the app answers, and which files it never touches."""

import socket
import zipfile

import numpy as np
import pytest

pytest.importorskip("starlette", reason="the app is a Starlette application")
pytest.importorskip("uvicorn", reason="the app is served by Uvicorn")
pytest.importorskip("rasterio", reason="scenes are read by rasterio")

from app_client import OWN_PAGE, Session, Started, ask, box
from jplay.app import AppSettings, create_app, serve
from raster_files import make_image, write_cube, write_envi

SECRET = "a-secret-of-the-owner"
TOKEN = "twenty-one-characters"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a scene, and a secret beside it that a link in the folder points to."""
    place = tmp_path_factory.mktemp("given")
    outside = tmp_path_factory.mktemp("outside")
    image = make_image(height=24, width=20, n_bands=8)
    write_cube(place / "scene.tif", image)
    write_cube(outside / "secret.tif", image)
    (outside / "secret.csv").write_text(f"{SECRET},y\n1,2\n3,4\n")
    (place / "link.csv").symlink_to(outside / "secret.csv")
    (place / "linked").symlink_to(outside)
    (place / "outer.vrt").write_text(
        f"<VRTDataset rasterXSize='20' rasterYSize='24'><VRTRasterBand dataType='UInt16' band='1'>"
        f"<SimpleSource><SourceFilename>{outside}/secret.tif</SourceFilename></SimpleSource>"
        "</VRTRasterBand></VRTDataset>"
    )
    (place / "vrt.tif").write_text((place / "outer.vrt").read_text())
    return place, outside


@pytest.fixture(scope="module")
def app(folder, tmp_path_factory):
    workspace = tmp_path_factory.mktemp("work")
    made = create_app(AppSettings(folders=[folder[0]], workspace=workspace, n_workers=0))
    yield made
    made.state.home.close()


@pytest.fixture
def session(app):
    return Session(lambda *request: ask(app, *request), {"path": "scene.tif"})


def test_page_loads_nothing_from_elsewhere_and_cannot_be_framed(app):
    answer = ask(app, "GET", "/")
    assert answer.status == 200
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert b"http://" not in answer.content.replace(b"http://www.w3.org", b"")
    assert b"https://" not in answer.content
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8765", "127.0.0.1.evil.example", ""]
)
def test_names_that_point_here_are_refused(app, host):
    for path in ("/", "/api/files", "/static/app.js"):
        assert ask(app, "GET", path, host=host).status == 421


@pytest.mark.parametrize("host", ["localhost:8765", "127.0.0.1", "[::1]:8765"])
def test_own_names_are_answered(app, host):
    assert ask(app, "GET", "/", host=host).status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"x-jplay": "0"},
        {**OWN_PAGE, "origin": "http://evil.example"},
        {**OWN_PAGE, "origin": "null"},
        {**OWN_PAGE, "origin": "http://127.0.0.1:9999"},
        {**OWN_PAGE, "sec-fetch-site": "cross-site"},
        {**OWN_PAGE, "sec-fetch-site": "same-site"},
    ],
)
def test_other_sites_cannot_change_anything(app, headers):
    n_before = len(list(app.state.home._sessions))
    answer = ask(app, "POST", "/api/sessions", {}, headers)
    assert answer.status == 403
    assert len(list(app.state.home._sessions)) == n_before


def test_own_page_can_change(app):
    headers = {**OWN_PAGE, "origin": "http://127.0.0.1:8765", "sec-fetch-site": "same-origin"}
    assert ask(app, "POST", "/api/sessions", {}, headers).status == 200


@pytest.mark.parametrize(
    "path",
    [
        *("/", "/static/app.js", "/static/nothing", "/api/start", "/api/files", "/api/sessions"),
        *("/api/sessions/0123", "/?token=", "/?token=wrong", "/?token=twenty-one-character"),
        "/static/../_server.py",
    ],
)
def test_shared_app_answers_nothing_without_its_token(shared, path):
    for method in ("GET", "POST", "PUT", "DELETE"):
        for headers in (OWN_PAGE, OWN_PAGE | {"authorization": "Bearer wrong"}):
            answer = ask(shared, method, path, {}, headers, host="machine.example")
            assert answer.status == 401
            assert answer.content.startswith(b"A token is needed")


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    settings = AppSettings(
        folders=[tmp_path_factory.mktemp("given")], host="0.0.0.0", token=TOKEN, n_workers=0
    )
    made = create_app(settings)
    yield made
    made.state.home.close()


def test_token_becomes_a_cookie_that_scripts_and_other_sites_do_not_get(shared):
    answer = ask(shared, "GET", f"/?token={TOKEN}", host="machine.example")
    assert answer.status == 303
    assert answer.headers["location"] == "/"
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    with_cookie = OWN_PAGE | {"cookie": cookie.partition(";")[0]}
    assert ask(shared, "GET", "/", None, with_cookie, host="machine.example").status == 200
    bearer = OWN_PAGE | {"authorization": f"Bearer {TOKEN}"}
    assert ask(shared, "GET", "/api/files", None, bearer, host="machine.example").status == 200


def test_shared_app_lists_only_what_the_client_knows(tmp_path):
    home = create_app(AppSettings(folders=[tmp_path], host="0.0.0.0", n_workers=0)).state.home
    (tmp_path / "t.csv").write_text("a,y\n1,b\n2,c\n")
    session = home.create()
    session.open({"path": "t.csv"})
    assert home.recent() == []
    assert [one["id"] for one in home.recent([session.identifier])] == [session.identifier]
    home.close()


def test_token_is_made_up_for_other_interfaces_and_may_not_be_short(tmp_path):
    assert len(AppSettings(folders=[tmp_path], host="0.0.0.0").token) >= 24
    assert AppSettings(folders=[tmp_path]).token is None
    with pytest.raises(ValueError, match="at least 12 characters"):
        AppSettings(folders=[tmp_path], host="0.0.0.0", token="short")


def test_command_listens_on_loopback_only(tmp_path):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            outer = probe.getsockname()[0]
        except OSError:
            outer = "127.0.0.1"
    with Started("--folder", tmp_path) as server:
        assert server.parts.hostname == "127.0.0.1"
        assert server.send("GET", "/").status == 200
        if outer.startswith("127."):
            pytest.skip("this machine has no other interface")
        with pytest.raises(OSError), socket.create_connection((outer, server.parts.port), 2):
            pass


@pytest.mark.parametrize(
    "name",
    [
        *("../outside", "/etc/passwd", "/etc/hosts", "..", "scene.tif/../../x", "a\0b", "~", ""),
        *("link.csv", "linked/secret.csv", "linked/secret.tif", "%2e%2e/x", "no.tif"),
        "file:///etc/passwd",
        "/vsicurl/http://127.0.0.1/x.tif",
    ],
)
def test_files_outside_the_folders_are_not_opened(app, name):
    session = Session(lambda *request: ask(app, *request))
    answer = session.try_to("POST", "/open", {"path": name})
    assert answer.status == 400
    assert SECRET not in answer.content.decode()
    assert session.call("GET", "")["kind"] is None


def test_what_is_absent_and_what_is_elsewhere_get_the_same_answer(app, folder):
    session = Session(lambda *request: ask(app, *request))
    texts = []
    for name in (f"{folder[1]}/secret.csv", f"{folder[1]}/nothing.csv"):
        error = session.try_to("POST", "/open", {"path": name}).json["error"]
        texts.append(error.replace(name, "NAME"))
    assert texts[0] == texts[1]


@pytest.mark.parametrize("folder_name", ["/", "..", "linked", "/etc"])
def test_other_folders_are_not_listed(app, folder_name):
    assert ask(app, "GET", f"/api/files?folder={folder_name}").status == 400


def test_listing_names_what_can_be_opened(app):
    found = ask(app, "GET", "/api/files").json
    assert "scene.tif" in [one["name"] for one in found["files"]]
    assert found["above"] is None


@pytest.mark.parametrize("name", ["outer.vrt", "vrt.tif"])
def test_files_that_name_other_files_are_refused(app, name):
    answer = Session(lambda *request: ask(app, *request)).try_to("POST", "/open", {"path": name})
    assert answer.status == 400
    assert "not of a kind" in answer.json["error"] or "refers to other" in answer.json["error"]


@pytest.mark.parametrize("how", ["link", "storage"])
def test_hdf5_that_reaches_into_other_files_is_refused(app, folder, how):
    h5py = pytest.importorskip("h5py", reason="writes the HDF5 file")
    path = folder[0] / f"{how}.h5"
    with h5py.File(path, "w") as file:
        if how == "link":
            file["cube"] = h5py.ExternalLink(str(folder[1] / "other.h5"), "/cube")
        else:
            shape, source = (2, 2, 2), str(folder[1] / "secret.csv")
            file.create_dataset("cube", shape, "u1", external=[(source, 0, 8)])
    answer = Session(lambda *request: ask(app, *request)).try_to(
        "POST", "/open", {"path": str(path)}
    )
    assert answer.status == 400
    assert "refers to other files" in answer.json["error"]


def test_labels_that_make_gdal_open_other_files_are_refused(session, folder):
    trick = (
        f"<OGRVRTDataSource><OGRVRTLayer name='a'><SrcDataSource>{folder[1]}/secret.csv"
        "</SrcDataSource></OGRVRTLayer></OGRVRTDataSource>"
    ).encode()
    for name in ("labels.geojson", "labels.gpkg", "labels.vrt"):
        answer = session.try_to("PUT", f"/import/{name}", trick)
        assert answer.status == 400
        assert "neither a GeoPackage nor GeoJSON" in answer.json["error"]


@pytest.mark.parametrize(
    "path", ["/static/../_server.py", "/static/..%2f_server.py", "/static/", "/static/nothing.js"]
)
def test_only_own_static_files_are_sent(app, path):
    assert ask(app, "GET", path).status == 404


@pytest.mark.parametrize("name", ["session.json", "../session.json", "..", "%2e%2e%2fsession.json"])
def test_only_results_are_sent(session, name):
    assert session.try_to("GET", f"/results/{name}").status == 404


@pytest.mark.parametrize("identifier", ["0" * 32, "..", "../x", "a" * 31, "A" * 32, "z" * 32])
def test_unknown_sessions_are_not_found(app, identifier):
    assert ask(app, "GET", f"/api/sessions/{identifier}").status == 404


def test_upload_has_a_limit_and_leaves_nothing_behind(folder, tmp_path):
    settings = AppSettings(folders=[folder[0]], workspace=tmp_path, max_upload=1000, n_workers=0)
    app = create_app(settings)
    session = Session(lambda *request: ask(app, *request))
    answer = session.try_to("PUT", "/upload/big.tif", b"x" * 1001)
    assert answer.status == 400
    assert "the limit" in answer.json["error"]
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
    assert session.try_to("PUT", "/upload/small.tif", b"x" * 1000).status == 200
    app.state.home.close()


@pytest.mark.parametrize(
    "name", ["..%2f..%2fevil.csv", "%2fetc%2fevil.csv", ".hidden.csv", "a%5cb.csv"]
)
def test_upload_stays_in_its_folder(app, name):
    session = Session(lambda *request: ask(app, *request))
    kept = session.call("PUT", f"/upload/{name}", b"a,y\n1,b\n2,c\n")["upload"]
    assert "/" not in kept
    assert not kept.startswith(".")
    folder = app.state.home.settings.workspace / session.id / "uploads"
    assert [path.name for path in folder.iterdir()] == [kept]
    assert session.call("POST", "/open", {"upload": kept})["kind"] == "table"
    other = Session(lambda *request: ask(app, *request))
    for trick in (kept, f"../{session.id}/uploads/{kept}", f"../../{session.id}/uploads/{kept}"):
        assert other.try_to("POST", "/open", {"upload": trick}).status == 400


def test_archive_cannot_write_outside_its_folder(app, tmp_path):
    with zipfile.ZipFile(tmp_path / "trick.zip", "w") as archive:
        archive.writestr("../../evil.csv", "a,y\n1,b\n")
    session = Session(lambda *request: ask(app, *request))
    session.call("PUT", "/upload/trick.zip", (tmp_path / "trick.zip").read_bytes())
    assert session.try_to("POST", "/open", {"upload": "trick.zip"}).status == 400
    assert not list(app.state.home.settings.workspace.rglob("evil.csv"))


def test_archive_of_an_envi_scene_is_opened(app, tmp_path):
    write_envi(tmp_path, make_image(height=12, width=10, n_bands=5))
    with zipfile.ZipFile(tmp_path / "scene.zip", "w") as archive:
        for name in ("scene.hdr", "scene.img"):
            archive.write(tmp_path / name, name)
    session = Session(lambda *request: ask(app, *request))
    session.call("PUT", "/upload/scene.zip", (tmp_path / "scene.zip").read_bytes())
    facts = session.call("POST", "/open", {"upload": "scene.zip"})["scene"]
    assert (facts["height"], facts["width"], facts["n_bands"]) == (12, 10, 5)


def test_names_stay_text_and_requests_stay_small(app, session):
    name = "<img src=x onerror=alert(1)>"
    state = session.call("POST", "/classes", {"name": name, "color": "#112233"})
    assert state["classes"][-1]["name"] == name
    answer = session.try_to("GET", "")
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-content-type-options"] == "nosniff"
    for color in ("red", "#12345", "#112233;background:url(x)"):
        assert session.try_to("POST", "/classes", {"color": color}).status == 400
    assert session.try_to("POST", "/classes", b"{" + b" " * (9 * 2**20)).status == 400
    assert session.try_to("POST", "/classes", b"[1]").status == 400
    session.draw("s1", state["classes"][-1]["id"], box(2, 2, 6))
    assert session.try_to("PUT", "/shapes/..%2fx", {}).status in (400, 404)


def test_results_are_saved_never_shown(app, session):
    folder = app.state.home.settings.workspace / session.id / "results"
    folder.mkdir()
    (folder / "report.html").write_text("<script>alert(1)</script>")
    answer = session.try_to("GET", "/results/report.html")
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"].startswith("attachment")


def test_wrong_corners_are_refused_with_a_reason(session):
    number = session.call("POST", "/classes", {})["classes"][-1]["id"]
    for rings, reason in (
        ([[[0, 0], [1, 1]]], "three corners"),
        ([], "three corners"),
        (box(500, 500, 9), "three corners|point"),
        ([box(500, 500, 9)], "covers no pixel"),
        ([[[float("nan"), 0], [1, 1], [0, 1]]], "finite"),
        ([[[1e9, 0], [1, 1], [0, 1]]], "finite"),
        ([[["x", 0], [1, 1], [0, 1]]], ""),
    ):
        body = {"class": number, "kind": "polygon", "rings": rings}
        answer = session.try_to("PUT", "/shapes/a", body)
        assert answer.status in (400, 500), rings
        if "|" not in reason:
            assert reason in answer.json["error"]
    assert session.call("GET", "")["shapes"] == []
    assert np.isfinite(session.call("GET", "")["revision"])


def test_port_in_use_is_one_clear_error(tmp_path):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(ValueError, match=f"got {port} .*--port 0"):
            serve(AppSettings(workspace=tmp_path, port=port))
