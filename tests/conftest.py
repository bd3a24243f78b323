"""Fixtures that give other tests the real data sets, or skip where a file is absent."""

import os
from pathlib import Path

import hypothesis
import pytest

from jplay.exceptions import DatasetNotFoundError, MissingDependencyError

# Fresh examples at every run find more; continuous integration must not depend on the draw.
hypothesis.settings.register_profile("ci", derandomize=True, deadline=None)
if os.environ.get("CI"):
    hypothesis.settings.load_profile("ci")


@pytest.fixture(scope="session")
def data_home():
    """The folder named by JPLAY_DATA."""
    folder = os.environ.get("JPLAY_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("real data: set JPLAY_DATA to the data folder")
    return Path(folder)


def _load_or_skip(load):
    try:
        return load()
    except (DatasetNotFoundError, MissingDependencyError) as error:
        pytest.skip(f"real data: {error}")


@pytest.fixture(scope="session")
def indian_pines(data_home):
    """Indian Pines with the fixed split."""
    from jplay.datasets import fetch_indian_pines

    return _load_or_skip(lambda: fetch_indian_pines(data_home=data_home, split="fixed"))


@pytest.fixture(scope="session")
def houston(data_home):
    """Houston 2013, whatever of it is present."""
    from jplay.datasets import fetch_houston2013

    return _load_or_skip(lambda: fetch_houston2013(data_home=data_home))


@pytest.fixture(scope="session")
def ar_faces(data_home):
    """AR faces, session 1 against session 2."""
    from jplay.datasets import fetch_ar

    return _load_or_skip(lambda: fetch_ar(data_home=data_home))


@pytest.fixture(scope="session")
def yale_faces(data_home):
    """Extended Yale-B faces."""
    from jplay.datasets import fetch_extended_yale_b

    return _load_or_skip(lambda: fetch_extended_yale_b(data_home=data_home))
