"""Sphinx's settings; `make docs` builds the pages and runs the gallery's examples."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from docutils import nodes
from sphinx.util import nodes as sphinx_nodes

sys.path.insert(0, str(Path(__file__).parent))  # for links and outputs, beside this file

import atoll

project = "atoll"
author = "The atoll developers"
copyright = author
version = release = atoll.__version__

extensions = [
    "links",
    "myst_parser",
    "numpydoc",
    "outputs",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",  # formulas without a network
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build"]
templates_path = ["_templates"]
default_role = "code"  # single backticks in docstrings mean code
myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence", "attrs_inline"]
myst_heading_anchors = 3

# One page for each name in a module's __all__; _templates/autosummary has their form.
autosummary_generate = True
autosummary_imported_members = True
autosummary_ignore_module_all = False
toc_object_entries_show_parents = "hide"
autodoc_typehints = "none"  # the docstrings give shapes, which the hints cannot
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
# A parameter's type, such as default="auto", keeps its quotation marks.
sphinx_nodes.NON_SMARTQUOTABLE_PARENT_NODES += (nodes.classifier,)

# Where the page of a class or function says to read on: its model's page, or these.
MODEL_PAGES = Path(__file__).parent.joinpath("models", "index.md").read_text("utf-8")
MODEL_PAGES = re.findall(r"^(\w+) <(\w+)>$", MODEL_PAGES, re.M)
READ_ON = {name: f"models/{page}" for name, page in MODEL_PAGES}
READ_ON |= dict.fromkeys(["TablePreprocessor", "make_preprocessor"], "guide/table")
READ_ON |= dict.fromkeys(["SemiSupervisedKFold", "cross_val_predict", "cross_val_score"], "labels")
READ_ON |= {"ActiveLearner": "active", "RowChunks": "big-data", "compare_models": "choosing"}
autosummary_context = {"read_on": READ_ON}

# Under each block of Python of these pages stands what it prints and draws.
pages_with_outputs = [
    "active",
    "choosing",
    "getting-started",
    "guide/images",
    "guide/imbalanced",
    "guide/novelty",
    "guide/own-kernel",
    "guide/own-likelihood",
    "guide/table",
    "index",
    "labels",
    "models/atoll",
    "text-and-embeddings",
    "what-you-know",
]

html_theme = "pydata_sphinx_theme"
html_title = f"atoll {version}"
html_logo = html_favicon = "_static/logo.svg"
html_static_path = ["_static"]
html_css_files = ["atoll.css"]
html_js_files = ["atoll.js"]
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_sidebars = {page: [] for page in ("index", "getting-started", "peers", "changes")}
html_theme_options = {
    "logo": {"text": "atoll", "alt_text": "atoll, to the front page"},
    "header_links_before_dropdown": 6,
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "show_toc_level": 1,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
copybutton_prompt_text = ">>> |\\.\\.\\. "
copybutton_prompt_is_regexp = True

# Class attributes of estimators by which a subclass tells its shell what it can do.
ASKED_BY_THE_SHELL = {"fits_unseen_classes", "has_functions", "keeps_single", "saves",
                      "takes_far_rows", "takes_sparse"}  # fmt: skip

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"plot_",
    "backreferences_dir": "gallery/backreferences",  # for the pictures on pages of the API
    "doc_module": ("atoll",),
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


def list_references(app, what, name, obj, options, lines):
    """Make a list of the references of a docstring, each of which ends with a year in brackets."""
    text = "\n".join(lines)
    section = re.search(r"^References\n-+\n(.*?)(?=\n\n|\Z)", text, re.M | re.S)
    if section is None:
        return
    found = re.split(r"(?<=\(\d{4}\)\.)\s+", " ".join(section[1].split()))
    before, after = text[: section.start(1)], text[section.end(1) :]
    lines[:] = (before + "\n".join(f"- \\{one}" for one in found) + after).split("\n")


def describe_attributes(app, what, name, obj, options, lines):
    """Read "classes_ : (K,) the classes, sorted" as a name and what it is, not as a name's type."""
    entry = re.compile(r"([A-Za-z_]\w*) : (.+)")
    found = list(lines)
    lines.clear()
    inside = False
    for line, after in zip(found, [*found[1:], ""]):
        if set(after) == {"-"}:
            inside = line == "Attributes"
        matched = entry.fullmatch(line) if inside else None
        # A trailing underscore would make a link of the name.
        lines += [re.sub("_$", r"\\_", matched[1]), f"    {matched[2]}"] if matched else [line]


def list_fields(app, what, name, obj, options, lines):
    """Make a list of lines such as "mean : (n,) of f", which would run together in a paragraph.

    Sections of numpydoc have been dealt with when this is called.
    """
    field = re.compile(r"([A-Za-z_]\w*(?:, [A-Za-z_]\w*)*) : (.+)")
    found = list(lines)
    lines.clear()
    in_list = False
    for line in found:
        matched = field.fullmatch(line)
        if matched and not in_list and lines and lines[-1]:
            lines.append("")
        if matched:
            in_list = True
            lines.append(f"- **{matched[1]}**: {matched[2]}")
            continue
        if in_list and not line:
            in_list = False
        lines.append(line)


def skip_what_users_do_not_need(app, what, name, obj, skip, options):
    """Leave out routing methods, what the shell asks a class, and fields documented twice."""
    is_routing = name.endswith("_request") or name in ("get_metadata_routing", "set_output")
    is_inner = is_routing or name in ASKED_BY_THE_SHELL or type(obj).__name__ == "_tuplegetter"
    return True if is_inner else None


def setup(app):
    app.connect("autodoc-process-docstring", list_references, priority=390)
    app.connect("autodoc-process-docstring", describe_attributes, priority=400)  # before numpydoc
    app.connect("autodoc-process-docstring", escape_bars, priority=900)  # after numpydoc
    app.connect("autodoc-process-docstring", list_fields, priority=910)
    app.connect("autodoc-skip-member", skip_what_users_do_not_need)
