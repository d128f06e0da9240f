"""The rule language: a small part of Python's grammar, checked against the fact registry when it is loaded.

There are fact names, numbers, texts, True and False, the sizes KiB MiB GiB TiB, `+ - * / //`, comparisons
(chained too), `and or not`, `fact is known`, `fact is unknown`, `name in ('a', 'b')` and `'part' in text`.
Nothing else: no calls, no indexing, no attributes beyond fact names. Truth has three values (Kleene).
"""

from __future__ import annotations

import ast
import io
import operator
import re
import tokenize
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from ..errors import RuleError
from ..facts.registry import REGISTRY
from ..knobs.document import Place, Scalar, did_you_mean
from ..knobs.versions import version_key
from ..model.facts import FactSpec, FactValue, Scope
from ..model.units import GIB, KIB, MIB, TIB
from .quantity import FLAG, NUMBER, ZERO, Kind, ValueType, added, multiplied, type_of_fact, why_not_added
from .terms import COMPARE, Arithmetic, Comparison, FactName, Junction, Known, Literal, Lookup, Negative, Not, Term
from .terms import contained as text_in

MAX_LENGTH = 500
MAX_DEPTH = 24
MAX_NUMBER = 1 << 62

UNITS = {"KiB": KIB, "MiB": MIB, "GiB": GIB, "TiB": TIB}
_LINE_END = re.compile(r"[\r\n]")
_SIZE = ValueType(Kind.QUANTITY, (1, 0, 0), literal=True)
_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}
_SUMS: dict[type[ast.operator], Callable[[float, float], float]] = {ast.Add: operator.add, ast.Sub: operator.sub}
_PRODUCTS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
}


@dataclass(frozen=True)
class Expression:
    """A checked expression. `type` is its static type; `names` are the facts it can look up."""

    text: str
    term: Term
    type: ValueType
    names: tuple[str, ...]
    place: Place

    def value(self, lookup: Lookup) -> FactValue | None:
        """The value, or None for unknown."""
        return self.term.value(lookup)

    def evaluate(self, lookup: Lookup) -> Evaluation:
        """The value with the facts that decided it."""
        decided = {name: lookup(name) for name in self.term.deciders(lookup)}
        return Evaluation(self.term.value(lookup), decided)


@dataclass(frozen=True)
class Evaluation:
    """A value (None: unknown) and what decided it: facts by name, None for those not known."""

    value: FactValue | None
    facts: Mapping[str, FactValue | None]


def parse_expression(
    source: Scalar | str, scope: Scope, specs: Mapping[str, FactSpec] = REGISTRY, path: str = "<expression>"
) -> Expression:
    """Read and check an expression of a rule with this scope.

    Raises RuleError, at the line and column of the fault, for anything outside the language, unknown facts,
    facts of another scope, and values that do not go together.
    """
    scalar = source if isinstance(source, Scalar) else Scalar(source, Place(path), source)
    return _Checker(scalar, scope, specs).expression()


def parse_condition(source: Scalar | str, scope: Scope, specs: Mapping[str, FactSpec] = REGISTRY) -> Expression:
    """As parse_expression, for one that must be true or false."""
    found = parse_expression(source, scope, specs)
    if found.type.kind is not Kind.FLAG:
        found.place.refuse(f"a condition is true or false; this is {found.type}")
    return found


class _Checker:
    """Turns Python's syntax tree into terms, refusing everything that the language does not have."""

    def __init__(self, scalar: Scalar, scope: Scope, specs: Mapping[str, FactSpec]) -> None:
        self.scalar, self.scope, self.specs = scalar, scope, specs
        self.text = scalar.text.strip()
        self.indent = len(scalar.text) - len(scalar.text.lstrip())
        self.names: dict[str, None] = {}

    def expression(self) -> Expression:
        if not self.text:
            self.scalar.place.refuse("the expression is empty")
        if len(self.text) > MAX_LENGTH:
            self.scalar.place.refuse(f"the expression is longer than {MAX_LENGTH} characters")
        self.text = _LINE_END.sub(" ", self.text)
        term, kind = self._term(self._tree(), 0)
        self._refuse_comments()
        return Expression(self.text, term, kind, tuple(self.names), self.scalar.place_of(self.indent))

    def _tree(self) -> ast.expr:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                return ast.parse(self.text, mode="eval").body
        except SyntaxError as error:
            # Python has no offset for what is missing at the end.
            offset = min(error.offset or len(self.text), len(self.text)) - 1
            self._place(max(0, offset)).refuse(f"not an expression: {error.msg}")
        except (ValueError, RecursionError, MemoryError, Warning) as error:
            raise self._error(None, "not an expression") from error

    def _refuse_comments(self) -> None:
        """A comment would swallow the lines that were joined to its own."""
        for token in tokenize.generate_tokens(io.StringIO(self.text).readline) if "#" in self.text else ():
            if token.type == tokenize.COMMENT:
                self._place(token.start[1]).refuse("there are no comments inside an expression")

    def _error(self, node: ast.AST | None, message: str) -> RuleError:
        place = self._place(0) if node is None else self._at(node)
        return RuleError(message, place.path, place.line, place.column)

    def _place(self, offset: int) -> Place:
        return self.scalar.place_of(self.indent + offset)

    def _at(self, node: ast.AST) -> Place:
        """Python counts columns in bytes of UTF-8."""
        column = getattr(node, "col_offset", 0)
        return self._place(len(self.text.encode()[:column].decode(errors="ignore")))

    def _term(self, node: ast.expr, depth: int) -> tuple[Term, ValueType]:
        if depth > MAX_DEPTH:
            self._at(node).refuse(f"nested deeper than {MAX_DEPTH} levels")
        match node:
            case ast.Constant():
                return self._literal(node)
            case ast.Name() | ast.Attribute():
                return self._name(node)
            case ast.BoolOp():
                terms = tuple(self._condition(value, depth + 1) for value in node.values)
                return Junction(terms, absorbing=isinstance(node.op, ast.Or)), FLAG
            case ast.UnaryOp(op=ast.Not()):
                return Not(self._condition(node.operand, depth + 1)), FLAG
            case ast.UnaryOp(op=ast.USub()):
                term, kind = self._quantity(node.operand, depth + 1)
                return Negative(term), kind
            case ast.BinOp():
                return self._arithmetic(node, depth)
            case ast.Compare():
                return self._comparison(node, depth)
            case ast.Call():
                raise self._error(node, "there are no calls in this language")
        raise self._error(
            node,
            "only fact names, literals, + - * / //, comparisons and and/or/not are accepted; "
            f"this is {_words(type(node).__name__)}",
        )

    def _literal(self, node: ast.Constant) -> tuple[Term, ValueType]:
        value = node.value
        if isinstance(value, bool):
            return Literal(value), replace(FLAG, literal=True)
        if isinstance(value, int | float):
            if not abs(value) <= MAX_NUMBER:
                self._at(node).refuse("the number is too large")
            return Literal(value), ZERO if value == 0 else NUMBER
        if isinstance(value, str):
            return Literal(value), ValueType(Kind.TEXT, literal=True)
        raise self._error(node, "a literal is a number, a text, True or False")

    def _name(self, node: ast.expr) -> tuple[Term, ValueType]:
        name = _dotted(node)
        if name in UNITS:
            return Literal(UNITS[name]), _SIZE
        if name is None:
            self._at(node).refuse("only fact names have dots")
        spec = self._fact(name, node)
        return FactName(name), type_of_fact(spec)

    def _fact(self, name: str, node: ast.expr) -> FactSpec:
        spec = self.specs.get(name)
        if spec is None:
            if name in ("known", "unknown"):
                self._at(node).refuse(f"{name!r} stands after 'is': fact is {name}")
            self._at(node).refuse(f"there is no fact {name!r}{did_you_mean(name, (*self.specs, *UNITS))}")
        if spec.scope not in (Scope.INCIDENT, self.scope):
            self._at(node).refuse(f"{name} is about one {spec.scope.value}; this rule is about one {self.scope.value}")
        self.names[name] = None
        return spec

    def _condition(self, node: ast.expr, depth: int) -> Term:
        term, kind = self._term(node, depth)
        if kind.kind is not Kind.FLAG:
            self._at(node).refuse(f"true or false is expected here; this is {kind}")
        return term

    def _quantity(self, node: ast.expr, depth: int) -> tuple[Term, ValueType]:
        term, kind = self._term(node, depth)
        if kind.kind is not Kind.QUANTITY:
            self._at(node).refuse(f"there is no arithmetic on {kind}")
        return term, kind

    def _arithmetic(self, node: ast.BinOp, depth: int) -> tuple[Term, ValueType]:
        left, left_type = self._quantity(node.left, depth + 1)
        right, right_type = self._quantity(node.right, depth + 1)
        operation = type(node.op)
        if operation in _SUMS:
            if why := why_not_added(left_type, right_type):
                self._at(node.right).refuse(why)
            return Arithmetic(left, right, _SUMS[operation]), added(left_type, right_type)
        if operation in _PRODUCTS:
            sign = 1 if operation is ast.Mult else -1
            return Arithmetic(left, right, _PRODUCTS[operation]), multiplied(left_type, right_type, sign)
        raise self._error(node, "only + - * / and // are accepted")

    def _comparison(self, node: ast.Compare, depth: int) -> tuple[Term, ValueType]:
        parts: list[Term] = []
        left = node.left
        for operation, right in zip(node.ops, node.comparators, strict=True):
            parts.append(self._pair(left, operation, right, depth + 1))
            left = right
        return (parts[0] if len(parts) == 1 else Junction(tuple(parts), absorbing=False)), FLAG

    def _pair(self, left: ast.expr, operation: ast.cmpop, right: ast.expr, depth: int) -> Term:
        if isinstance(operation, ast.Is | ast.IsNot):
            return self._known(left, operation, right)
        if isinstance(operation, ast.In | ast.NotIn):
            term = self._membership(left, right, depth)
            return term if isinstance(operation, ast.In) else Not(term)
        return self._compare(left, _COMPARISONS[type(operation)], right, depth)

    def _known(self, left: ast.expr, operation: ast.cmpop, right: ast.expr) -> Term:
        word, name = _dotted(right), _dotted(left)
        if word not in ("known", "unknown") or isinstance(operation, ast.IsNot):
            self._at(right).refuse("after 'is' stands known or unknown")
        if name is None:
            self._at(left).refuse("before 'is' stands the name of a fact")
        self._fact(name, left)
        return Known(name, word == "known")

    def _membership(self, left: ast.expr, right: ast.expr, depth: int) -> Term:
        if isinstance(right, ast.Tuple | ast.List):
            if not right.elts:
                self._at(right).refuse("the list is empty")
            return Junction(tuple(self._compare(left, "==", item, depth) for item in right.elts), absorbing=True)
        part, part_type = self._term(left, depth)
        whole, whole_type = self._term(right, depth)
        if part_type.kind is not Kind.TEXT or whole_type.kind is not Kind.TEXT or whole_type.literal:
            self._at(right).refuse("'in' takes a list of literals, or looks for a text in a text fact")
        return Comparison(part, whole, text_in)

    def _compare(self, left: ast.expr, sign: str, right: ast.expr, depth: int) -> Term:
        (first, first_type), (second, second_type) = self._term(left, depth), self._term(right, depth)
        ordered = sign not in ("==", "!=")
        kinds = {first_type.kind, second_type.kind}
        if kinds == {Kind.QUANTITY}:
            if why := why_not_added(first_type, second_type):
                self._at(right).refuse(why)
        elif Kind.VERSION in kinds and kinds <= {Kind.VERSION, Kind.TEXT}:
            self._version_literals((left, first_type), (right, second_type))
            return Comparison(first, second, COMPARE[sign], versions=True)
        elif ordered:
            self._at(right).refuse(f"{first_type} and {second_type} have no order")
        elif Kind.NAME in kinds and kinds <= {Kind.NAME, Kind.TEXT}:
            self._names_in_set((left, first_type), (right, second_type))
        elif kinds not in ({Kind.TEXT}, {Kind.FLAG}):
            self._at(right).refuse(f"{first_type} does not go with {second_type}")
        return Comparison(first, second, COMPARE[sign])

    def _version_literals(self, *sides: tuple[ast.expr, ValueType]) -> None:
        for node, kind in sides:
            if kind.kind is not Kind.TEXT:
                continue
            if not isinstance(node, ast.Constant) or version_key(str(node.value)) is None:
                self._at(node).refuse("a version is compared with a quoted version, like '2.1'")

    def _names_in_set(self, *sides: tuple[ast.expr, ValueType]) -> None:
        names = next(kind.names for _, kind in sides if kind.kind is Kind.NAME)
        for node, kind in sides:
            if kind.kind is Kind.NAME:
                continue
            if not isinstance(node, ast.Constant):
                self._at(node).refuse("a name is compared with a quoted name")
            if node.value not in names:
                known = did_you_mean(str(node.value), names) or f"; it is one of {', '.join(names)}"
                self._at(node).refuse(f"{node.value!r} is not one of the names{known}")


def _dotted(node: ast.expr) -> str | None:
    """`a.b.c` of a chain of attributes; None for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    return ".".join([node.id, *reversed(parts)])


def _words(class_name: str) -> str:
    """`ListComp` as `list comp`, for messages."""
    return "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in class_name).strip()
