"""Finds the changes of a package: each replaces one expression or statement by another that may be wrong.

Annotations, decorators, docstrings, imports, f-strings (Python 3.11 has no positions in them), `__all__`, `__slots__`
and `if TYPE_CHECKING` are not changed. Text is not changed either, because most of it is the words of an error.
"""

import ast
import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

_COMPARE = {"Lt": "LtE", "Gt": "GtE", "Eq": "NotEq", "Is": "IsNot", "In": "NotIn"}
_COMPARE |= {new: old for old, new in _COMPARE.items()}
_ARITHMETIC = {
    "Add": "Sub", "Sub": "Add", "Mult": "Add", "FloorDiv": "Mult", "Div": "Mult", "Mod": "FloorDiv", "Pow": "Mult",
    "BitAnd": "BitOr", "BitOr": "BitAnd", "LShift": "RShift", "RShift": "LShift",
}  # fmt: skip
_BUILTIN = {"min": "max", "max": "min", "any": "all", "all": "any"}
_ORDERLESS = {"isinstance", "cast", "min", "max", "gcd", "suppress"}  # other arguments, or an order without effect

Replacement = tuple[str, ast.AST, str]
"""The kind of a change, the node that it replaces, and the new source of the node."""


class Mutant(NamedTuple):
    """A change of a file: the bytes from `start` to `end` become `new`."""

    file: str
    line: int
    column: int
    kind: str
    start: int
    end: int
    old: str
    new: str
    source_line: str
    function: str

    @property
    def name(self) -> str:
        """Identifies the mutant in one state of the code."""
        return f"{self.file}:{self.line}:{self.column}:{self.kind}"

    @property
    def lasting_name(self) -> tuple[str, str, str, str, str]:
        """Identifies the mutant for as long as its line has the same text and is in a function of the same name."""
        return self.file, self.function, self.source_line, self.old, self.new

    def apply(self, source: bytes) -> bytes:
        """Returns the source of the file with the change."""
        return source[: self.start] + self.new.encode() + source[self.end :]


def find_mutants(root: Path, folder: str) -> list[Mutant]:
    """Returns all changes of the modules in a folder.

    Raises:
        FileNotFoundError: the folder has no modules.
    """
    modules = sorted((root / folder).rglob("*.py"))
    if not modules:
        raise FileNotFoundError(root / folder)
    return [mutant for path in modules for mutant in _find_in_module(root, path)]


def draw_sample(mutants: Iterable[Mutant], count: int, seed: int) -> list[Mutant]:
    """Returns at most `count` random mutants, and at most one of each line."""
    shuffled = list(mutants)
    random.Random(seed).shuffle(shuffled)
    lines: dict[tuple[str, int], Mutant] = {}
    for mutant in shuffled:
        lines.setdefault((mutant.file, mutant.line), mutant)
    return list(lines.values())[:count]


def _find_in_module(root: Path, path: Path) -> Iterator[Mutant]:
    source = path.read_bytes()
    lines = source.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    found: set[tuple[int, int, str]] = set()
    tree = ast.parse(source)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    for node in _walk(tree):
        for kind, part, new in _replace(node):
            start, end = starts[part.lineno - 1] + part.col_offset, starts[part.end_lineno - 1] + part.end_col_offset  # type: ignore[attr-defined]
            old = source[start:end].decode()
            line, column = part.lineno, part.col_offset  # type: ignore[attr-defined]
            text = lines[line - 1].decode().strip()
            around = [one for one in functions if one.lineno <= line <= (one.end_lineno or 0)]
            function = max(around, key=lambda one: one.lineno).name if around else ""
            mutant = Mutant(str(path.relative_to(root)), line, column, kind, start, end, old, new, text, function)
            if new != old and (start, end, new) not in found:
                found.add((start, end, new))
                yield mutant


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """Yields the nodes that may be changed."""
    yield node
    match node:
        case ast.JoinedStr() | ast.Import() | ast.ImportFrom() | ast.AnnAssign(annotation=ast.Name(id="TypeAlias")):
            return
        case ast.keyword(arg="strict"):  # `zip` only checks
            return
        case ast.If(test=ast.Name(id="TYPE_CHECKING")) | ast.Assign(targets=[ast.Name(id="__all__" | "__slots__")]):
            return
    for name, value in ast.iter_fields(node):
        if name not in {"annotation", "returns", "decorator_list"}:
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST) and not _is_docstring(child):
                    yield from _walk(child)


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _replace(node: ast.AST) -> Iterator[Replacement]:
    for replace in (_replace_operator, _replace_value, _replace_call, _replace_statement, _replace_condition):
        yield from replace(node)


def _copy(node: ast.AST, **fields: object) -> str:
    return ast.unparse(type(node)(**{**{name: getattr(node, name) for name in node._fields}, **fields}))


def _replace_operator(node: ast.AST) -> Iterator[Replacement]:
    match node:
        case ast.Compare(ops=[op, *rest]):
            yield "compare", node, f"({_copy(node, ops=[getattr(ast, _COMPARE[type(op).__name__])(), *rest])})"
        case ast.BinOp(op=op) if type(op).__name__ in _ARITHMETIC:
            yield "arithmetic", node, f"({_copy(node, op=getattr(ast, _ARITHMETIC[type(op).__name__])())})"
        case ast.AugAssign(op=op) if type(op).__name__ in _ARITHMETIC:
            yield "arithmetic", node, _copy(node, op=getattr(ast, _ARITHMETIC[type(op).__name__])())
        case ast.BoolOp(op=op):
            yield "boolean", node, f"({_copy(node, op=ast.Or() if isinstance(op, ast.And) else ast.And())})"
        case ast.UnaryOp(op=ast.Not()):
            yield "boolean", node, f"({ast.unparse(node.operand)})"


def _replace_value(node: ast.AST) -> Iterator[Replacement]:
    match node:
        case ast.Constant(value=bool()):
            yield "boolean", node, str(not node.value)
        case ast.Constant(value=int() as number):
            yield "number", node, str(number + 1)


def _replace_call(node: ast.AST) -> Iterator[Replacement]:
    if not isinstance(node, ast.Call):
        return
    if isinstance(node.func, ast.Name) and node.func.id in _BUILTIN:
        yield "builtin", node.func, _BUILTIN[node.func.id]
    match node.args:
        case [first, second, *rest] if not any(isinstance(arg, ast.Starred) for arg in node.args):
            if ast.unparse(first) != ast.unparse(second) and ast.unparse(node.func) not in _ORDERLESS:
                yield "swapped", node, _copy(node, args=[second, first, *rest])
    for keyword in node.keywords:
        if keyword.arg not in {None, "strict"}:
            yield "keyword", node, _copy(node, keywords=[other for other in node.keywords if other is not keyword])


def _replace_statement(node: ast.AST) -> Iterator[Replacement]:
    match node:
        case ast.Return(value=ast.Compare() | ast.BoolOp() as value):
            yield "returned", node, f"return not ({ast.unparse(value)})"
        case ast.Return(value=ast.expr() as value) if not (isinstance(value, ast.Constant) and value.value is None):
            yield "returned", node, "return None"
        case ast.Expr(value=ast.Call() | ast.Await() | ast.YieldFrom()) | ast.Raise() | ast.Break() | ast.Continue():
            yield "removed", node, "pass"
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]) | ast.Delete():
            yield "removed", node, "pass"


def _replace_condition(node: ast.AST) -> Iterator[Replacement]:
    match node:
        case ast.If(test=test) | ast.IfExp(test=test):
            yield "condition", test, "True"
            yield "condition", test, "False"
        case ast.comprehension(ifs=tests):
            yield from (("condition", test, "True") for test in tests)
