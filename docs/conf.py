"""Configuration of the documentation; ``make docs`` builds it with warnings as errors."""

import os
import re
import sys
import warnings
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "src"))
os.environ.setdefault("OMP_NUM_THREADS", "1")

project = "jplay"
author = "The jplay developers"
copyright = "The jplay developers"
version = release = import_module("jplay").__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "sphinx_gallery.gen_gallery",
    "sphinx-mathjax-offline",
]
exclude_patterns = ["_build", "auto_examples/*.md5", "images"]
templates_path = ["_templates"]

myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"
napoleon_google_docstring = False
napoleon_use_ivar = True

html_theme = "pydata_sphinx_theme"
html_title = "jplay"
html_static_path = ["_static"]
html_css_files = ["jplay.css"]
html_show_sourcelink = False
html_theme_options = {
    "logo": {"text": "jplay"},
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": ["theme-version"],
}

sphinx_gallery_conf = {
    "examples_dirs": str(ROOT / "examples"),
    "gallery_dirs": "auto_examples",
    "filename_pattern": "plot_",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "min_reported_time": 10,
    "remove_config_comments": True,
    "within_subsection_order": "FileNameSortKey",
    "show_memory": False,
    "plot_gallery": True,
}

warnings.filterwarnings("ignore", message="FigureCanvasAgg is non-interactive")


def _is_own(module, class_name, name):
    """Whether a method is written here, rather than inherited from scikit-learn."""
    method = getattr(getattr(import_module(module), class_name), name)
    return getattr(method, "__module__", "").startswith("jplay")


autosummary_context = {"is_own": _is_own}
suppress_warnings = ["config.cache"]  # a function cannot be cached


def _quote_fitted_names(app, what, name, obj, options, lines):
    """Keep ``(n_features_in_,)`` in a type from being read as a link."""
    for number, line in enumerate(lines):
        named, colon, kind = line.partition(" : ")
        if colon and named.strip().isidentifier():
            lines[number] = named + colon + re.sub(r"(?<![`\w])(\w+_)(?=[,)])", r"``\1``", kind)


def setup(app):
    # Before napoleon reads the docstring.
    app.connect("autodoc-process-docstring", _quote_fitted_names, priority=1)
