"""Link names of the library to their pages, and keep "0.36 ± 0.04" on one line of a table."""

from __future__ import annotations

import importlib
import re

from docutils import nodes
from sphinx.addnodes import pending_xref

MODULES = ("estimators", "active", "comparison", "datasets", "diagnostics", "plotting", "reports")
NAME = re.compile(r"(?:atoll\.)?([A-Za-z]\w+)(\(\))?")


def documented_names():
    """Return the full name of every class and function that has a page, by its own name."""
    found = {}
    for module in MODULES:
        public = importlib.import_module(f"atoll.{module}")
        for name in public.__all__:
            if callable(getattr(public, name)):
                found.setdefault(name, f"atoll.{module}.{name}")
    return found


def link_names(app, doctree):
    """Make links of `AtollClassifier` and `make_preprocessor()`, outside headings and links."""
    targets = documented_names()
    page = app.env.docname
    for literal in list(doctree.findall(nodes.literal)):
        matched = NAME.fullmatch(literal.astext())
        target = targets.get(matched[1]) if matched else None
        # A plain word such as `entropy` may mean a column or an attribute as well.
        is_plain = target and matched[1].islower() and "_" not in matched[1] and not matched[2]
        if target is None or is_plain or page.endswith(target) or _is_linked(literal):
            continue
        link = pending_xref("", refdomain="py", reftype="obj", reftarget=target, refexplicit=True)
        link["refdoc"] = page
        literal["classes"] += ["xref", "py", "py-obj"]
        literal.replace_self(link)
        link += literal


def _is_linked(node):
    while node := node.parent:
        if isinstance(node, (nodes.title, nodes.reference, nodes.rubric, pending_xref)):
            return True
    return False


def join_errors(app, doctree):
    """Keep a number and its standard error together where columns are narrow."""
    for table in doctree.findall(nodes.table):
        for text in list(table.findall(nodes.Text)):
            if " ± " in text:
                text.parent.replace(text, nodes.Text(text.replace(" ± ", "\u00a0±\u00a0")))


def setup(app):
    app.connect("doctree-read", link_names)
    app.connect("doctree-read", join_errors)
    return {"parallel_read_safe": True}
