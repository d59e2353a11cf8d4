"""Small mistakes made on purpose: every place of a source file where one can be made, and the code.

A mutant is one changed node of the syntax tree: < for <=, + for −, another number, a condition
turned round, a statement left out. Only bodies of functions are changed, so that the changed code
can be put into functions that are already loaded. Messages of errors and warnings are left alone.
"""

from __future__ import annotations

import ast
import copy
import gc
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import NamedTuple

_COMPARISONS: dict[type[ast.cmpop], list[type[ast.cmpop]]] = {
    ast.Lt: [ast.LtE, ast.GtE],
    ast.LtE: [ast.Lt, ast.Gt],
    ast.Gt: [ast.GtE, ast.LtE],
    ast.GtE: [ast.Gt, ast.Lt],
    ast.Eq: [ast.NotEq],
    ast.NotEq: [ast.Eq],
    ast.Is: [ast.IsNot],
    ast.IsNot: [ast.Is],
    ast.In: [ast.NotIn],
    ast.NotIn: [ast.In],
}
_ARITHMETIC: dict[type[ast.operator], list[type[ast.operator]]] = {
    ast.Add: [ast.Sub],
    ast.Sub: [ast.Add],
    ast.Mult: [ast.Div],
    ast.Div: [ast.Mult],
    ast.FloorDiv: [ast.Mult],
    ast.Mod: [ast.FloorDiv],
    ast.Pow: [ast.Mult],
    ast.BitAnd: [ast.BitOr],
    ast.BitOr: [ast.BitAnd],
}
_QUIET = {"warn", "check_memory"}  # what these are given is text for people


class Mutant(NamedTuple):
    """One mistake: where it is, what it is, and the lines of its statement.

    file : path below the package's folder; function : qualified name of the outermost function
    code, column, kind : text of the line, place in it, and what; together they name the mutant,
        wherever in the file the line moves
    line : number of the line; first, last : lines that run when the statement does
    node : number of the changed node, in the order of `ast.walk`; choice : which change of it
    rank : number among those of one name, as the sums of a + b + c have, or lines that are equal
    """

    file: str
    function: str
    code: str
    column: int
    kind: str
    line: int
    first: int
    last: int
    node: int
    choice: int
    rank: int = 0

    @property
    def name(self) -> str:
        again = f" ({self.rank})" if self.rank else ""
        return f"{self.file} {self.function} {self.code}:{self.column} {self.kind}{again}"


Change = tuple[str, Callable[[ast.AST], ast.AST | None]]
"""What is said of a change, and the change: a node to its replacement; None leaves it out."""


def changes(node: ast.AST) -> list[Change]:
    """Return the mistakes that can be made at a node."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        old = type(node.ops[0])
        return [_swap("ops", [new()], old, new) for new in _COMPARISONS.get(old, [])]
    if isinstance(node, ast.BinOp | ast.AugAssign):
        old_operator = type(node.op)
        found = [_swap("op", n(), old_operator, n) for n in _ARITHMETIC.get(old_operator, [])]
        return found + ([_left_out()] if isinstance(node, ast.AugAssign) else [])
    if isinstance(node, ast.BoolOp):
        new_operator = ast.Or if isinstance(node.op, ast.And) else ast.And
        return [_swap("op", new_operator(), type(node.op), new_operator)]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        return [(f"{type(node.op).__name__} left out", lambda n: n.operand)]
    if isinstance(node, ast.Constant):
        return _other_constants(node.value)
    if isinstance(node, ast.If | ast.IfExp | ast.While):
        return [("condition turned round", _turned_round)]
    if isinstance(node, ast.Return) and node.value is not None:
        if isinstance(node.value, ast.Constant) and node.value.value is None:
            return []
        return [("returns None", lambda n: ast.Return(ast.Constant(None)))]
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        return [_left_out()]
    return []


def _swap(field: str, value: object, old: type, new: type) -> Change:
    def change(node: ast.AST) -> ast.AST:
        setattr(node, field, value)
        return node

    return f"{old.__name__} -> {new.__name__}", change


def _left_out() -> Change:
    return "statement left out", lambda node: ast.Pass()


def _turned_round(node: ast.AST) -> ast.AST:
    node.test = ast.UnaryOp(ast.Not(), node.test)  # type: ignore[attr-defined]
    return node


def _other_constants(value: object) -> list[Change]:
    if isinstance(value, bool):
        other: object = not value
    elif isinstance(value, int):
        other = value + 1
    elif isinstance(value, float):
        other = 2.0 * value if value else 1.0
    else:
        return []
    return [(f"{value!r} -> {other!r}", lambda node: ast.Constant(other))]


# Where --------------------------------------------------------------------------------------------


def mutants_of(source: str, file: str) -> list[Mutant]:
    """Return every mutant of a source file, in the order of the tree."""
    tree = ast.parse(source)
    text = source.splitlines()
    numbers = {id(node): i for i, node in enumerate(ast.walk(tree))}
    found: list[Mutant] = []
    seen: Counter[tuple[str, str, int, str]] = Counter()
    for name, function in _functions(tree):
        for node, statement in _walk_body(function):
            first, last = run_lines(statement)
            line, column = node.lineno, node.col_offset  # type: ignore[attr-defined]
            code = " ".join(text[line - 1].split())
            for choice, (kind, _) in enumerate(changes(node)):
                rank = seen[name, code, column, kind]
                seen[name, code, column, kind] += 1
                place = numbers[id(node)]
                found.append(
                    Mutant(file, name, code, column, kind, line, first, last, place, choice, rank)
                )
    return found


def _functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, ast.AST]]:
    """Yield functions of the module and of its classes, by qualified name."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef):
            yield prefix + node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from _functions(node, f"{prefix}{node.name}.")
        elif isinstance(node, ast.If | ast.Try):
            yield from _functions(node, prefix)


def _walk_body(function: ast.AST) -> Iterator[tuple[ast.AST, ast.stmt]]:
    """Yield the nodes that may be changed, each with its statement; no message, no annotation."""
    waiting = [(s, s) for s in function.body]  # type: ignore[attr-defined]
    while waiting:
        node, statement = waiting.pop(0)
        if isinstance(node, ast.Raise | ast.Assert | ast.JoinedStr) or _called(node) in _QUIET:
            continue
        if hasattr(node, "lineno"):
            yield node, statement
        skipped = [getattr(node, field, None) for field in ("annotation", "returns")]
        for child in ast.iter_child_nodes(node):
            if not any(child is one for one in skipped):
                waiting.append((child, child if isinstance(child, ast.stmt) else statement))


def _called(node: ast.AST) -> str:
    """Return the name of the function that a call, or a statement that is one, calls."""
    call = node.value if isinstance(node, ast.Expr) else node
    function = call.func if isinstance(call, ast.Call) else None
    return getattr(function, "attr", getattr(function, "id", ""))


def run_lines(statement: ast.stmt) -> tuple[int, int]:
    """Return the lines that run when the statement does: of a block, those of its head."""
    for field in ("test", "iter"):
        head = getattr(statement, field, None)
        if head is not None:
            return statement.lineno, head.end_lineno
    if isinstance(statement, ast.With):
        return statement.lineno, statement.items[-1].context_expr.end_lineno or statement.lineno
    if isinstance(statement, ast.FunctionDef | ast.Try):
        return statement.lineno, statement.lineno
    return statement.lineno, statement.end_lineno or statement.lineno


# Put in place -------------------------------------------------------------------------------------


def changed_source(source: str, mutant: Mutant) -> ast.Module:
    """Return the tree of a file with the mutant in it."""
    tree = ast.parse(source)
    target = list(ast.walk(tree))[mutant.node]
    _, change = changes(target)[mutant.choice]
    replacement = change(copy.copy(target))

    class Replace(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> ast.AST | None:
            return replacement if node is target else self.generic_visit(node)

    return ast.fix_missing_locations(Replace().visit(tree))


def loaded_functions(root: Path) -> dict[tuple[str, str], list[FunctionType]]:
    """Return the functions that are loaded from below a folder, by file and qualified name."""
    prefix = str(root) + "/"
    found: dict[tuple[str, str], list[FunctionType]] = {}
    for function in gc.get_objects():
        if isinstance(function, FunctionType):
            code = function.__code__
            if code.co_filename.startswith(prefix):
                file = code.co_filename.removeprefix(prefix)
                found.setdefault((file, code.co_qualname), []).append(function)
    return found


def put_in_place(
    root: Path, mutant: Mutant, functions: dict[tuple[str, str], list[FunctionType]]
) -> int:
    """Give the loaded functions the mutant's code; return how many functions there were."""
    tree = changed_source((root / mutant.file).read_text(), mutant)
    own = {key: value for key, value in functions.items() if key == (mutant.file, mutant.function)}
    return put_tree_in_place(root, mutant.file, tree, own)


def put_tree_in_place(
    root: Path,
    file: str,
    tree: ast.Module,
    functions: dict[tuple[str, str], list[FunctionType]],
) -> int:
    """Give loaded functions of a file the code that a tree has for them; return their number."""
    code = compile(tree, str(root / file), "exec")
    wanted = {(c.co_qualname, c.co_firstlineno): c for c in _code_objects(code)}
    n_changed = 0
    for (own_file, name), loaded in functions.items():
        for function in loaded if own_file == file else ():
            place = (name, function.__code__.co_firstlineno)
            if place in wanted:
                function.__code__ = wanted[place]
                n_changed += 1
    return n_changed


# Which lines run ----------------------------------------------------------------------------------


def with_marks(source: str, first: int, name: str) -> tuple[ast.Module, list[tuple[int, int]]]:
    """Return the tree of a file in which each statement of a function marks that it runs.

    The mark is `name[i] = 1`, with i from `first` on; the list has the lines of each statement.
    """
    places: list[tuple[int, int]] = []

    class Mark(ast.NodeTransformer):
        inside = False

        def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
            was, self.inside = self.inside, True
            self.generic_visit(node)
            self.inside = was
            return node

        def generic_visit(self, node: ast.AST) -> ast.AST:
            super().generic_visit(node)
            for field in ("body", "orelse", "finalbody") if self.inside else ():
                statements = getattr(node, field, None)
                if isinstance(statements, list):
                    setattr(node, field, [new for old in statements for new in self.marked(old)])
            return node

        def marked(self, statement: ast.stmt) -> list[ast.stmt]:
            if isinstance(statement, ast.Nonlocal | ast.Global):
                return [statement]
            mark = ast.parse(f"{name}[{first + len(places)}] = 1").body[0]
            for node in ast.walk(mark):
                ast.copy_location(node, statement)
            places.append(run_lines(statement))
            return [mark, statement]

    tree = Mark().visit(ast.parse(source))
    return ast.fix_missing_locations(tree), places


def _code_objects(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _code_objects(constant)
