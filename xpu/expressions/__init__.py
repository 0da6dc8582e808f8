"""The expression language of rules and requirements: a closed subset of Python.

Numbers, ``+ - * // / %``, comparison, ``and or not``, ``x if c else y``, ``min``, ``max``,
``ceil_div`` and named facts; nothing else parses. An absent operand makes an operation
absent, logic is Kleene's, and nothing here ever raises while it evaluates. `settings` reads
expressions when a file is read, the filter joins them into one function per rule set.
"""

from xpu.expressions.constant import constant, constant_expression
from xpu.expressions.emitter import Emitter, Load, Value, compile_source
from xpu.expressions.expression import Expression
from xpu.expressions.grammar import LARGEST, MAX_DEPTH, MAX_LENGTH, number_or_absent
from xpu.expressions.names import LAUNCH_NAMES, Names

__all__ = [
    "LARGEST",
    "LAUNCH_NAMES",
    "MAX_DEPTH",
    "MAX_LENGTH",
    "Emitter",
    "Expression",
    "Load",
    "Names",
    "Value",
    "compile_source",
    "constant",
    "constant_expression",
    "number_or_absent",
]
