"""Conditions on rows, as in SQL's WHERE, for tables that are read without Spark.

``outcome = 'failed' and duration_us > 1000000``: comparisons, ``and``, ``or``, ``not``, brackets, ``in (…)``,
``between``, ``like``, ``is null``. A condition becomes an expression of pyarrow; nothing in it is ever run as code.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hopline.message import printable
from hopline.pipeline.failures import PipelineError

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<text>'(?:[^']|'')*')
      | (?P<number>-?\d+(?:_\d+)*(?:\.\d+)?)
      | (?P<name>[A-Za-z_][A-Za-z_0-9]*)
      | (?P<quoted>"[^"]+"|`[^`]+`)
      | (?P<sign><>|!=|<=|>=|==|[=<>(),])
    )""",
    re.VERBOSE,
)
_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "==": operator.eq,
    "<>": operator.ne,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
# pyarrow walks an expression recursively, and ends the process where the stack does.
_DEEPEST = 100  # brackets and nots inside each other
_MOST = 1_000  # comparisons
_SHOWN = 200  # characters of a condition in an error
_WORDS = {"and", "or", "not", "in", "is", "null", "between", "like", "true", "false"}


class ConditionError(PipelineError):
    """A condition that makes no sense for the table."""

    def __init__(self, condition: str, problem: str) -> None:
        super().__init__(condition, problem)
        self.condition, self.problem = condition, problem

    def __str__(self) -> str:
        return f"--where '{printable(self.condition, _SHOWN)}': {self.problem}"


def condition(text: str, schema: pa.Schema) -> pc.Expression:
    """Read a condition on the columns of a table."""
    return _Reader(text, schema).read()


class _Reader:
    def __init__(self, text: str, schema: pa.Schema) -> None:
        self._text = text
        self._schema = schema
        self._tokens = self._split()
        self._at = 0
        self._depth = 0
        self._comparisons = 0

    def read(self) -> pc.Expression:
        expression = self._any_of()
        if self._at < len(self._tokens):
            raise self._wrong(f"did not expect {self._tokens[self._at][1]!r} there; and, or are missing?")
        return expression

    # Tokens: what kind, and the text; words of the language are in small letters.

    def _split(self) -> list[tuple[str, str]]:
        tokens: list[tuple[str, str]] = []
        position = 0
        end = len(self._text.rstrip())
        while position < end:
            match = _TOKEN.match(self._text, position)
            if match is None or match.lastgroup is None:
                raise self._wrong(f"cannot read {self._text[position:].strip()[:20]!r}")
            kind, value = match.lastgroup, match[match.lastgroup]
            if kind == "name" and value.lower() in _WORDS:
                kind, value = "word", value.lower()
            tokens.append((kind, value))
            position = match.end()
        return tokens

    def _wrong(self, problem: str) -> ConditionError:
        return ConditionError(self._text, problem)

    def _next(self, expected: str) -> tuple[str, str]:
        if self._at == len(self._tokens):
            raise self._wrong(f"expected {expected} at the end")
        self._at += 1
        return self._tokens[self._at - 1]

    def _take(self, *values: str) -> bool:
        """Step over the next tokens if they are these."""
        found = self._tokens[self._at : self._at + len(values)]
        if [value for kind, value in found if kind in ("word", "sign")] != list(values):
            return False
        self._at += len(values)
        return True

    def _must(self, value: str) -> None:
        if not self._take(value):
            found = self._tokens[self._at][1] if self._at < len(self._tokens) else "the end"
            raise self._wrong(f"expected {value!r}, found {found!r}")

    # Or, and, not, one condition: each binds more than the one before.

    def _any_of(self) -> pc.Expression:
        expression = self._all_of()
        while self._take("or"):
            expression = expression | self._all_of()
        return expression

    def _all_of(self) -> pc.Expression:
        expression = self._perhaps_not()
        while self._take("and"):
            expression = expression & self._perhaps_not()
        return expression

    def _perhaps_not(self) -> pc.Expression:
        if self._depth > _DEEPEST:
            raise self._wrong(f"more than {_DEEPEST} brackets or nots are nested")
        self._depth += 1
        try:
            if self._take("not"):
                return ~self._perhaps_not()
            if self._take("("):
                expression = self._any_of()
                self._must(")")
                return expression
            return self._one()
        finally:
            self._depth -= 1

    def _one(self) -> pc.Expression:
        self._comparisons += 1
        if self._comparisons > _MOST:
            raise self._wrong(f"more than {_MOST:,} comparisons; for many values there is: column in (…, …)")
        kind, value = self._next("a column")
        name = value.strip('"`') if kind == "quoted" else value.lower()
        if kind not in ("name", "quoted") or name not in self._schema.names:
            raise self._wrong(f"expected a column, found {value!r}; there are: {', '.join(self._schema.names)}")
        column, type_ = pc.field(name), self._schema.field(name).type
        if self._take("is", "null"):
            return column.is_null()
        if self._take("is", "not", "null"):
            return column.is_valid()
        if self._take("not", "in"):
            return column.is_valid() & ~self._in(column, type_)  # null is neither in nor out
        if self._take("in"):
            return self._in(column, type_)
        if self._take("not", "like"):
            return ~pc.match_like(column, self._value(pa.string()).as_py())
        if self._take("like"):
            return pc.match_like(column, self._value(pa.string()).as_py())
        if self._take("between"):
            low = self._value(type_)
            self._must("and")
            return (column >= low) & (column <= self._value(type_))
        following = self._tokens[self._at] if self._at < len(self._tokens) else ("", "")
        if following[0] == "sign" and following[1] in _COMPARISONS:
            self._at += 1
            expression: pc.Expression = _COMPARISONS[following[1]](column, self._value(type_))
            return expression
        if pa.types.is_boolean(type_):
            return column
        raise self._wrong(f"expected =, <>, <, >, in, like, between or is null behind {name}")

    def _in(self, column: pc.Expression, type_: pa.DataType) -> pc.Expression:
        self._must("(")
        values = [self._value(type_)]
        while self._take(","):
            values.append(self._value(type_))
        self._must(")")
        return column.isin(pa.array(values, type_))

    def _value(self, type_: pa.DataType) -> pa.Scalar:
        kind, text = self._next("a value")
        if kind == "word" and text in ("true", "false"):
            plain: Any = text == "true"
        elif kind == "text":
            plain = text[1:-1].replace("''", "'")
        elif kind == "number":
            plain = float(text) if "." in text else int(text)
        else:
            raise self._wrong(f"expected a value, found {text!r}; text stands in 'single quotes'")
        try:
            return self._scalar(plain, type_)
        except (pa.ArrowException, ValueError, TypeError):
            raise self._wrong(f"{text} is no {type_}") from None

    def _scalar(self, plain: Any, type_: pa.DataType) -> pa.Scalar:
        if pa.types.is_binary(type_):
            return pa.scalar(bytes.fromhex(str(plain).removeprefix("0x")), type_)
        if isinstance(plain, str) and pa.types.is_timestamp(type_):
            # Times without a zone are UTC's, as everywhere in the tables.
            return pa.scalar(plain).cast(pa.timestamp(type_.unit)).cast(type_)
        if isinstance(plain, str) and not pa.types.is_string(type_):
            return pa.scalar(plain).cast(type_)
        if isinstance(plain, bool) != pa.types.is_boolean(type_):
            raise TypeError(plain)
        if isinstance(plain, float) and pa.types.is_integer(type_):
            return pa.scalar(plain)
        return pa.scalar(plain, type_)
