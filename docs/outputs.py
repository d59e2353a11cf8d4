"""Show under each block of Python on a page what it prints, returns and draws.

The pages that `pages_with_outputs` in conf.py names are run as notebooks are, from top to bottom.
"""

from __future__ import annotations

import ast
import contextlib
import io
import re
import tempfile
import textwrap
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.exceptions import ConvergenceWarning

from atoll.core.points import DASH
from atoll.estimators.display import WIDTH

# A plain block that follows is an output written down for those who read the source.
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```\n.*?^```\n)?", re.M | re.S)
FOLDER = "_outputs"  # pictures, beside the pages


def run_block(code, namespace):
    """Return what a block prints, and the value of its last line unless it is None or a drawing."""
    body = ast.parse(code).body
    last = body.pop() if isinstance(body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(ast.Module(body, []), "page", "exec"), namespace)
        if last is None:
            return printed.getvalue().rstrip()
        value = eval(compile(ast.Expression(last.value), "page", "eval"), namespace)
        if value is not None and not type(value).__module__.startswith("matplotlib"):
            print(repr(value))
    return printed.getvalue().rstrip()


def wrap_lines(text):
    """Break long lines as a terminal would, but between words."""
    lines = []
    for line in text.splitlines():
        indent = " " * (len(line) - len(line.lstrip()))
        lines += textwrap.wrap(line, 88, subsequent_indent=indent) if len(line) > 100 else [line]
    return "\n".join(lines)


def unwrapped(text):
    """Join lines that were broken because the next word did not fit; the page breaks them anew."""
    lines, length = [], 0  # the length of the line before, as it was printed
    for line in text.splitlines():
        indent = len(line) - len(line.lstrip())
        before = lines[-1] if lines else ""
        at = len(before) - len(before.lstrip()) + len(DASH) * before.lstrip().startswith(DASH)
        same = 0 < indent == at and not line.lstrip().startswith(DASH)
        if same and line.strip() and length + 1 + len(line.split()[0]) > WIDTH:
            lines[-1] += f" {line.strip()}"
        else:
            lines.append(line)
        length = len(line)
    return "\n".join(lines)


def draw_figures(folder, stem):
    """Save the open figures under a folder, close them, and return the files' names."""
    names = []
    for number in plt.get_fignums():
        names.append(f"{stem}-{len(names)}.png")
        plt.figure(number).savefig(folder / names[-1], dpi=110, bbox_inches="tight")
    plt.close("all")
    return names


def show_outputs(app, docname, source):
    """Add to the source of a page, after each block, its output and its pictures."""
    if docname not in app.config.pages_with_outputs:
        return
    folder = Path(app.srcdir, FOLDER)
    folder.mkdir(exist_ok=True)
    namespace = {"__name__": "__main__"}
    count = 0

    def with_output(block):
        nonlocal count
        count += 1
        parts = [f"```python\n{block[1]}```\n"]
        text = run_block(block[1], namespace)
        if text:
            is_table = re.search(r"\S {2,}\S", text)  # columns would be lost if lines were wrapped
            kind = "atoll-output" if is_table else "atoll-output atoll-prose"
            text = wrap_lines(text) if is_table else unwrapped(text)
            parts.append(f"```{{code-block}} text\n:class: {kind}\n\n{text}\n```\n")
        for name in draw_figures(folder, f"{docname.replace('/', '-')}-{count}"):
            parts.append(f"![What the code above draws](/{FOLDER}/{name})\n")
        return "\n".join(parts)

    plt.switch_backend("agg")
    with (
        np.printoptions(threshold=40, edgeitems=8),
        tempfile.TemporaryDirectory() as scratch,
        contextlib.chdir(scratch),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore", ConvergenceWarning)  # short runs say that they are short
        source[0] = BLOCK.sub(with_output, source[0])


def setup(app):
    app.add_config_value("pages_with_outputs", [], "env")
    app.connect("source-read", show_outputs)
    return {"parallel_read_safe": False}
