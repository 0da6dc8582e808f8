"""One expression: read once, evaluated any number of times."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final

from xpu.expressions.emitter import Emitter, compile_source
from xpu.expressions.grammar import Name, Node, Operation, read, read_number
from xpu.expressions.names import Names
from xpu.model import Figure

_Evaluate = Callable[[Callable[[str], Any]], Figure]
_COMPARING: Final = frozenset({"<", "<=", ">", ">=", "==", "!="})
_JOINING: Final = frozenset({"and", "or", "not"})


class Expression:
    """A checked expression.

    Parameters
    ----------
    source
        The text, or a number.
    names
        The facts that it may read; None accepts any name in a known namespace.
    locals
        Further names without a dot. A rule's `prune_when` and `records` see ``need`` and
        ``limit``.

    Attributes
    ----------
    text
        The expression on one line.
    tree
        What an `Emitter` takes.

    Raises
    ------
    XpuConfigError
        The text is not of the language, or a name is not allowed.
    """

    __slots__ = ("_function", "text", "tree")
    text: str
    tree: Node

    def __init__(
        self,
        source: str | int | float,
        names: Names | None = None,
        locals: Collection[str] = (),  # noqa: A002 - the word that fits
    ) -> None:
        if isinstance(source, str):
            self.text, self.tree = read(source, names or Names(), locals)
        else:
            self.text, self.tree = read_number(source)
        self._function: _Evaluate | None = None

    def evaluate(self, scope: Mapping[str, Any]) -> Figure:
        """Return the value for facts by dotted name; None when it is absent.

        A name that `scope` lacks is absent, and so is one whose value is no number. Nothing
        is raised.
        """
        if self._function is None:
            self._function = _compiled(self.tree)
        return self._function(scope.get)

    def terms(self, function: str) -> tuple[Expression, ...]:
        """Return what a function that stands outermost is of; the expression itself without it.

        Parameters
        ----------
        function
            ``min`` or ``max``.
        """
        tree = self.tree
        if not isinstance(tree, Operation) or tree.operator != function:
            return (self,)
        return tuple(self._of(operand) for operand in tree.operands)

    @property
    def is_condition(self) -> bool:
        """Whether it says yes or no, whatever the facts; else its value is a figure."""
        return _is_condition(self.tree)

    @property
    def names(self) -> tuple[str, ...]:
        """The names that it reads, each once, in the order in which they stand."""
        return tuple(dict.fromkeys(_names(self.tree)))

    def _of(self, tree: Node) -> Expression:
        part = Expression.__new__(Expression)
        part.text, part.tree, part._function = self.text, tree, None
        return part

    def __repr__(self) -> str:
        return f"Expression({self.text!r})"


def _is_condition(tree: Node) -> bool:
    if not isinstance(tree, Operation):
        return False
    if tree.operator in _JOINING:
        return all(map(_is_condition, tree.operands))
    if tree.operator == "if":
        return all(map(_is_condition, tree.operands[1:]))
    return tree.operator in _COMPARING


def _names(tree: Node) -> Iterator[str]:
    if isinstance(tree, Name):
        yield tree.name
    elif isinstance(tree, Operation):
        for operand in tree.operands:
            yield from _names(operand)


def _compiled(tree: Node) -> _Evaluate:
    emitter = Emitter(lambda name: (f"number(get({name!r}))", True))
    result = emitter.emit(tree)
    body = [*emitter.fixed, *emitter.varying, f"return {result.text}"]
    lines = ["def evaluate(get):", *(f"    {line}" for line in body)]
    function: _Evaluate = compile_source(lines, "expression", "evaluate")
    return function
