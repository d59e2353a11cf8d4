"""The house stays small: no file over 700 lines, no function over 80, or with over 8 parameters.

A function that must be larger says why in a comment inside it: "# Long because …" or "# Many
parameters because …".
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "atoll"
FILES = sorted(SOURCE.rglob("*.py"))


def functions(tree):
    return [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]


def code_lines(node, text):
    """Lines of a function without its docstring."""
    length = node.end_lineno - node.lineno + 1
    if ast.get_docstring(node) is not None:
        first = node.body[0]
        length -= first.end_lineno - first.lineno + 1
    return length


def n_parameters(node):
    every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    return len([a for a in every if a.arg not in ("self", "cls")])


@pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(SOURCE)))
def test_files_and_functions_are_small_or_say_why(file):
    text = file.read_text(encoding="utf-8")
    lines = text.splitlines()
    assert len(lines) <= 700
    for node in functions(ast.parse(text)):
        own = "\n".join(lines[node.lineno - 1 : node.end_lineno])
        if code_lines(node, text) > 80:
            assert "# Long because " in own, f"{node.name} has {code_lines(node, text)} lines"
        if n_parameters(node) > 8 and node.name != "__init__":
            assert "# Many parameters because " in own, f"{node.name}: {n_parameters(node)}"
