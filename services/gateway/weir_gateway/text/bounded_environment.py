"""Jinja for templates from strangers: a sandbox whose time and memory are bounded.

The sandbox keeps a template from files, imports and Python's insides, not from looping for ever
or doubling a string forty times. Here each turn of a loop and each call of a macro looks at the
clock, and whatever could make something large out of something small is weighed first.
"""

import re
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from types import GeneratorType
from typing import Any

from jinja2 import Environment, TemplateError, nodes
from jinja2.filters import FILTERS
from jinja2.nodes import EvalContext
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace
from jinja2.visitor import NodeTransformer

_TURNS_A_LOOK = 64
_MOST_BITS = 4096
_WIDTH = re.compile(r"\d{5}|\*")
_PADDING = frozenset({"ljust", "rjust", "center", "zfill", "expandtabs"})
_UNSAFE_OF_STRINGS = frozenset({"translate", "format_map"})
# No chat template needs them, and their results are hard to foresee.
_LEFT_OUT_FILTERS = ("pprint", "urlize", "xmlattr")
_WIDE_FILTERS = frozenset({"center", "indent", "batch", "slice", "tojson"})
_PASSED_ON = (Context, EvalContext, Environment)
_SIZE_WHILE_COMPILED = 1 << 16


class BoundExceeded(TemplateError):
    """A template went over a bound."""


class BoundedEnvironment(ImmutableSandboxedEnvironment):
    """See the module. Templates are rendered inside `bounds`."""

    intercepted_binops = frozenset({"*", "**", "%", "+"})

    def __init__(self) -> None:
        super().__init__(trim_blocks=True, lstrip_blocks=True, finalize=self._weighed)
        self._bounds = threading.local()
        self.globals.pop("lipsum")
        for name in _LEFT_OUT_FILTERS:
            self.filters.pop(name)
        for name, function in FILTERS.items():
            if name not in _LEFT_OUT_FILTERS:
                self.add_filter(name, function)

    def add_filter(self, name: str, function: Callable[..., Any]) -> None:
        """Offer a filter to templates, within bounds."""
        self.filters[name] = self._bounded_filter(name, function)

    @contextmanager
    def bounds(self, seconds: float, size: int) -> Iterator[None]:
        """What renders in this thread meanwhile may take.

        Args:
            seconds: of time.
            size: characters and elements of any one value.
        """
        self._bounds.seconds, self._bounds.size = seconds, size
        self._bounds.ends_at, self._bounds.turns = time.monotonic() + seconds, 0
        try:
            yield
        finally:
            self._bounds.__dict__.clear()

    def tick(self) -> str:
        """One turn of a loop or call of a macro. Raises BoundExceeded."""
        self._bounds.turns += 1
        if self._bounds.turns % _TURNS_A_LOOK == 0:
            self._look()
        return ""

    def concatenated(self, *parts: object) -> str:
        """The operator `~`. Raises BoundExceeded."""
        self._weigh(*parts)
        return "".join(map(str, parts))

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """The operators that can make something large. Raises BoundExceeded."""
        if operator == "+":
            if type(left) is str and type(right) is str:  # nearly all of them
                self._check(len(left) + len(right), self._bounds.size)
                return left + right
            self._weigh(left, right)
        elif operator == "%" and isinstance(left, str):
            self._check_format(left)
            self._weigh(left, right)
        elif operator == "*":
            self._check_product(left, right)
        elif operator == "**" and isinstance(left, int) and isinstance(right, int):
            self._check(left.bit_length() * abs(right), _MOST_BITS)
        return super().call_binop(context, operator, left, right)

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805
        """Every call. Raises BoundExceeded."""
        owner = getattr(__obj, "__self__", None)
        if type(owner) is str:
            __self._check_method(owner, getattr(__obj, "__name__", ""), args)
        return super().call(__context, __obj, *args, **kwargs)

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Whether a template may reach it."""
        unsafe = isinstance(obj, str) and attr in _UNSAFE_OF_STRINGS
        return not unsafe and super().is_safe_attribute(obj, attr, value)

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """The method `format` of strings."""
        wrapped = super().wrap_str_format(value)
        if wrapped is not None:
            self._check_format(value.__self__)
        return wrapped

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        template = super()._parse(source, name, filename)
        for node in list(template.find_all((nodes.For, nodes.Macro, nodes.CallBlock))):
            look = nodes.ExprStmt(_call_of(self, "tick", [], node.lineno), lineno=node.lineno)
            body: list[nodes.Node] = node.body  # type: ignore[attr-defined]
            body.insert(0, look.set_environment(self))
        made: nodes.Template = _Concatenations(self).visit(template)
        return made

    def _bounded_filter(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)  # it keeps what Jinja passes on: context, environment
        def bounded(*args: Any, **kwargs: Any) -> Any:
            args = tuple(list(arg) if isinstance(arg, GeneratorType) else arg for arg in args)
            own = [arg for arg in args if not isinstance(arg, _PASSED_ON)]
            own += kwargs.values()
            self._weigh(*own)
            if name == "replace" and len(own) > 2:
                self._check_replace(str(own[0]), str(own[1]), str(own[2]))
            elif name == "format":
                self._check_format(str(own[0]))
            elif name == "join":
                self._check_product(str(own[1]) if len(own) > 1 else "", _length(own[0]))
            elif name in _WIDE_FILTERS:
                widths = [arg if isinstance(arg, int) else _length(arg) for arg in own[1:]]
                lines = str(own[0]).count("\n") + 1 if name == "indent" else 1
                self._check(max(map(abs, widths), default=0) * lines, self._bounds.size)
            return function(*args, **kwargs)

        return bounded

    def _check_method(self, owner: str, name: str, args: tuple[Any, ...]) -> None:
        if name in _PADDING and args and isinstance(args[0], int):
            self._check(args[0] * (len(owner) if name == "expandtabs" else 1), self._bounds.size)
        elif name == "replace" and len(args) > 1:
            self._check_replace(owner, str(args[0]), str(args[1]))
        elif name == "join" and args:
            self._weigh(*args)
            self._check_product(owner, _length(args[0]))

    def _check_replace(self, text: str, old: str, new: str) -> None:
        self._check(len(text) + text.count(old) * len(new), self._bounds.size)

    def _check_product(self, left: Any, right: Any) -> None:
        if isinstance(left, int) and isinstance(right, int):
            self._check(left.bit_length() + right.bit_length(), _MOST_BITS)
        for value, count in ((left, right), (right, left)):
            if isinstance(value, str | list | tuple) and isinstance(count, int):
                self._check(len(value) * count, self._bounds.size)

    def _check_format(self, form: str) -> None:
        if _WIDTH.search(form):
            raise BoundExceeded("a format asks for a width of 10,000 or more")

    def _check(self, size: int, most: int) -> None:
        if size > most:
            raise BoundExceeded(f"it would make a value of size {size}; at most {most}")

    def _weighed(self, value: Any) -> Any:
        if type(value) is not str and isinstance(value, Collection | Namespace):
            self._weigh(value)
        return value

    def _weigh(self, *values: Any) -> None:
        """Count characters and elements, nested ones as often as they would be written."""
        most = left = getattr(self._bounds, "size", _SIZE_WHILE_COMPILED)
        waiting, visited = list(values), 0
        while waiting:
            value = waiting.pop()
            visited += 1
            left -= 1 + (len(value) if isinstance(value, str) else 0)
            if left < len(waiting):
                raise BoundExceeded(f"it made a value of size beyond {most}")
            waiting += self._inside(value)
        if visited > _TURNS_A_LOOK and hasattr(self._bounds, "ends_at"):
            self._look()

    def _inside(self, value: Any) -> Iterable[Any]:
        if isinstance(value, Mapping):
            return [*value.keys(), *value.values()]
        if isinstance(value, Namespace):
            raise BoundExceeded("a namespace is no text")
        return value if isinstance(value, Collection) and not isinstance(value, str) else ()

    def _look(self) -> None:
        if time.monotonic() > self._bounds.ends_at:
            raise BoundExceeded(f"it ran longer than {self._bounds.seconds} s")


class _Concatenations(NodeTransformer):
    """Turns `a ~ b` into a call of the environment."""

    def __init__(self, environment: BoundedEnvironment) -> None:
        self._environment = environment

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return _call_of(self._environment, "concatenated", node.nodes, node.lineno)


def _call_of(
    environment: BoundedEnvironment, name: str, args: list[nodes.Expr], lineno: int
) -> nodes.Call:
    """A call that a template cannot redefine."""
    call = nodes.Call(nodes.EnvironmentAttribute(name), args, [], None, None, lineno=lineno)
    call.set_environment(environment)
    return call.set_lineno(lineno)  # type: ignore[return-value]


def _length(value: Any) -> int:
    return len(value) if isinstance(value, str | list | tuple | Mapping) else 1
