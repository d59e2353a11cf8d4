"""Tables of bench_rows.py: penguins as they come, and texts out of installed packages."""

from __future__ import annotations

import ast
import importlib.util
import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

DOCUMENTED = ("numpy", "scipy", "sklearn", "pandas", "matplotlib")  # reported on
STANDARD = ("asyncio", "email", "unittest", "http", "xml", "multiprocessing", "tkinter",
            "concurrent", "logging", "importlib")  # chosen by  # fmt: skip
LEAST_WORDS = 15
OWN_NAMES = re.compile(r"\b(numpy|np|scipy|sklearn|scikit|pandas|pd|matplotlib|plt|mpl)\b", re.I)


class Texts(NamedTuple):
    """Paragraphs (n,) and the packages (n,) that they document."""

    texts: list[str]
    packages: np.ndarray


def docstrings(file):
    """The docstrings of a module, its classes and its functions."""
    try:
        tree = ast.parse(file.read_text(encoding="utf-8"))
    except (SyntaxError, UnicodeDecodeError, ValueError):
        return
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(tree):
        if isinstance(node, kinds):
            text = ast.get_docstring(node)
            if text:
                yield text


def paragraphs(package):
    """Paragraphs of words in a package's docstrings, each once, without the packages' names."""
    folder = Path(importlib.util.find_spec(package).submodule_search_locations[0])
    found = {}
    for file in sorted(folder.rglob("*.py")):
        if "tests" in file.parts or "test" in file.parts:
            continue
        for text in docstrings(file):
            for part in re.split(r"\n\s*\n", text):
                words = OWN_NAMES.sub(" ", " ".join(part.split()))
                code = part.lstrip().startswith((">>>", "..", "-", "="))
                if not code and len(re.findall(r"\b[a-z]{2,}\b", words)) >= LEAST_WORDS:
                    found[words] = None
    return list(found)


def documentation(packages=DOCUMENTED, most=500, seed=0):
    """At most so many random paragraphs of every package."""
    rng = np.random.default_rng(seed)
    texts, names = [], []
    for package in packages:
        some = paragraphs(package)
        chosen = rng.permutation(len(some))[:most]
        texts += [some[i] for i in chosen]
        names += [package] * len(chosen)
    order = rng.permutation(len(texts))
    return Texts([texts[i] for i in order], np.array(names)[order])


def penguins(data):
    """The penguins with islands, sexes, years and blank cells; rows of nothing but blanks go."""
    path = Path(data) / "palmerpenguins" / "data" / "penguins.csv"
    frame = pd.read_csv(path)
    return frame[frame.drop(columns=["species", "island", "year"]).notna().any(axis=1)]
