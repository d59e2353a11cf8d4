"""Sphinx's settings; `make docs` builds the pages and runs the gallery's examples."""

from __future__ import annotations

import re

import atoll

project = "atoll"
author = "The atoll developers"
copyright = author
version = release = atoll.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build"]
default_role = "code"  # single backticks in docstrings mean code
myst_enable_extensions = ["dollarmath", "amsmath"]
myst_heading_anchors = 3

autodoc_typehints = "none"  # the docstrings give shapes, which the hints cannot
autodoc_member_order = "bysource"
napoleon_use_ivar = False
napoleon_use_rtype = False

html_theme = "alabaster"
html_theme_options = {"description": "Calibrated class probabilities from few labels"}
html_copy_source = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"plot_",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,
}


def escape_bars(app, what, name, obj, options, lines):
    """Let |z| in a docstring be a modulus: to reStructuredText it is a substitution."""
    for number, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            # Between double backticks everything is literal already.
            parts = re.split(r"(``.*?``|`.*?`)", line)
            parts[::2] = [part.replace("|", r"\|") for part in parts[::2]]
            lines[number] = "".join(parts)


def skip_what_is_not_ours(app, what, name, obj, skip, options):
    """Leave out scikit-learn's routing methods and the fields that named tuples document twice."""
    is_routing = name.endswith("_request") or name == "get_metadata_routing"
    return True if is_routing or type(obj).__name__ == "_tuplegetter" else None


def setup(app):
    app.connect("autodoc-process-docstring", escape_bars, priority=900)  # after napoleon
    app.connect("autodoc-skip-member", skip_what_is_not_ours)
