"""What notebooks use: data frames out, and an HTML representation."""

import os
import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

import jplay

TRANSFORMERS = [
    jplay.AutoRULe(n_components=2),
    jplay.JPlay(n_components=2, n_layers=2),
    jplay.LFDA(n_components=2),
    jplay.LPP(n_components=2),
    jplay.LSDR(n_components=2, max_iter=3),
    jplay.LSQMID(n_components=2, max_iter=3),
    jplay.NPE(n_components=2),
]


@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True)
    return MinMaxScaler().fit_transform(X), y


@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize("estimator", TRANSFORMERS, ids=lambda e: type(e).__name__)
def test_set_output_gives_named_columns(wine, estimator, library):
    frames = pytest.importorskip(library, reason=f"needs {library}")
    X, y = wine
    frame_in = frames.DataFrame({f"x{j}": X[:, j] for j in range(X.shape[1])})
    model = clone(estimator).set_output(transform=library).fit(frame_in, y)
    frame = model.transform(frame_in)
    assert isinstance(frame, frames.DataFrame)
    name = type(estimator).__name__.lower()
    assert list(frame.columns) == [f"{name}0", f"{name}1"]
    assert list(model.feature_names_in_) == list(frame_in.columns)
    plain = model.set_output(transform="default").transform(frame_in)
    np.testing.assert_allclose(frame.to_numpy(), plain)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_pass_through_a_pipeline(wine, library):
    frames = pytest.importorskip(library, reason=f"needs {library}")
    X, y = wine
    frame_in = frames.DataFrame({f"x{j}": X[:, j] for j in range(X.shape[1])})
    pipeline = make_pipeline(MinMaxScaler(), jplay.JPlay(n_components=2, n_layers=1))
    pipeline.set_output(transform=library).fit(frame_in, y)
    assert list(pipeline.transform(frame_in).columns) == ["jplay0", "jplay1"]
    assert pipeline.score(frame_in, y) > 0.9


def test_frame_with_other_columns_is_refused(wine):
    pandas = pytest.importorskip("pandas", reason="needs pandas")
    X, y = wine
    frame = pandas.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    model = jplay.JPlay(n_components=2, n_layers=1).fit(frame, y)
    with pytest.raises(ValueError, match="feature names"):
        model.transform(frame.rename(columns={"x0": "other"}))


@pytest.mark.parametrize("estimator", TRANSFORMERS, ids=lambda e: type(e).__name__)
def test_html_representation_names_class_settings_and_whether_it_is_fitted(wine, estimator):
    model = clone(estimator)
    before = model._repr_html_()
    assert type(model).__name__ in before
    assert "n_components" in before
    assert "Not fitted" in before
    fitted = model.fit(*wine)._repr_html_()
    assert "Fitted" in fitted
    assert "Not fitted" not in fitted


@pytest.mark.parametrize("name", ["JPlay", "CanonicalCorrelationForestClassifier"])
def test_html_representation_links_to_the_documentation(name):
    code = f"import jplay; print(jplay.{name}()._repr_html_())"
    environment = {**os.environ, "JPLAY_DOCS": "https://docs.example/jplay/"}
    page = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=True,
    ).stdout
    assert f'href="https://docs.example/jplay/api/generated/jplay.{name}.html"' in page


def test_html_representation_does_not_link_to_pages_of_scikit_learn_that_do_not_exist():
    page = jplay.JPlay()._repr_html_()
    assert "scikit-learn.org" not in page.partition("<body>")[2]
