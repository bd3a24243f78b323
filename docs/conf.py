"""Configuration of the documentation; ``make docs`` builds it with warnings as errors."""

import os
import re
import shutil
import subprocess
import sys
import warnings
from html import unescape
from importlib import import_module
from pathlib import Path

from sphinx.pycode import ModuleAnalyzer

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "docs")]
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Pages of names that are no longer public would be left over.
shutil.rmtree(ROOT / "docs" / "api" / "generated", ignore_errors=True)

# The command documents itself; typer writes that as Markdown.
commands = subprocess.run(
    [sys.executable, "-m", "typer", "jplay.cli._app", "utils", "docs", "--name", "jplay"],
    env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    capture_output=True,
    check=True,
    text=True,
    encoding="utf-8",
).stdout
page = re.sub(r"^# .*", "# Commands", unescape(commands), count=1)
page = re.sub(  # the examples
    r"(?:^ *jplay .+\n\n?)+",
    lambda found: "```sh\n" + re.sub(r"\n\s*", "\n", found[0].strip()) + "\n```\n\n",
    page,
    flags=re.MULTILINE,
)
summaries = dict(re.findall(r"^##+ `jplay (?:\w+ )?(\w+)`\n\n((?:.+\n)+)", page, re.MULTILINE))
page = re.sub(  # whole sentences in place of shortened ones
    r"^\* `(\w+)`: .*\.\.\.$",
    lambda found: f"* `{found[1]}`: {' '.join(summaries[found[1]].split())}",
    page,
    flags=re.MULTILINE,
)
(ROOT / "docs" / "api" / "commands.md").write_text(page, encoding="utf-8")

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

smartquotes_action = "qe"  # two dashes begin an option

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
    "thumbnail_size": (480, 320),
}

warnings.filterwarnings("ignore", message="FigureCanvasAgg is non-interactive")


def _is_own(module, class_name, name):
    """Whether a method is written here, rather than inherited from scikit-learn."""
    method = getattr(getattr(import_module(module), class_name), name)
    return getattr(method, "__module__", "").startswith("jplay")


def _documented_fields(module, class_name):
    """Fields of a class with a sentence below their definition."""
    home = getattr(import_module(module), class_name)
    analyzer = ModuleAnalyzer.for_module(home.__module__)
    analyzer.analyze()
    return [name for owner, name in analyzer.attr_docs if owner == home.__qualname__]


autosummary_context = {
    "is_own": _is_own,
    "documented_fields": _documented_fields,
    "listed_names": import_module("reference").listed_names,
    "shared_names": import_module("reference").shared_names,
}
suppress_warnings = ["config.cache"]  # a function cannot be cached


def _quote_fitted_names(app, what, name, obj, options, lines):
    """Keep ``(n_features_in_,)`` in a type from being read as a link."""
    for number, line in enumerate(lines):
        named, colon, kind = line.partition(" : ")
        if colon and named.strip().isidentifier():
            lines[number] = named + colon + re.sub(r"(?<![`\w])(\w+_)(?=[,)])", r"``\1``", kind)


def _explain_constants(app, what, name, obj, options, lines):
    """Take what stands below a constant's definition, not the docstring of its type."""
    if what != "data":
        return
    module, _, constant = name.rpartition(".")
    for path in sorted(Path(import_module(module).__file__).parent.glob("*.py")):
        analyzer = ModuleAnalyzer.for_file(path, f"{module}.{path.stem}")
        analyzer.analyze()
        if ("", constant) in analyzer.attr_docs:
            lines[:] = analyzer.attr_docs["", constant]
            return


def setup(app):
    # Before napoleon reads the docstring.
    app.connect("autodoc-process-docstring", _explain_constants, priority=1)
    app.connect("autodoc-process-docstring", _quote_fitted_names, priority=1)
