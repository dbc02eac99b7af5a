"""JSON values to the dataclasses of `_types`: unknown fields are ignored, missing ones get their defaults."""

from __future__ import annotations

import dataclasses
import functools
import typing
from collections.abc import Callable
from typing import Any, TypeVar

from weir._errors import ReplyError

T = TypeVar("T")
Converter = Callable[[Any, str], Any]

# JSON has one kind of number: a whole float is written without its fraction.
_SCALARS: dict[type, tuple[type, ...]] = {str: (str,), bool: (bool,), int: (int,), float: (float, int)}


def decode(kind: type[T], value: object) -> T:
    """`value` as a `kind`, which is a dataclass.

    Raises `ReplyError` when a required field is missing or a field has another type.
    """
    return typing.cast(T, _converter(typing.cast(Any, kind))(value, ""))


@functools.cache
def _converter(kind: Any) -> Converter:  # noqa: ANN401
    if dataclasses.is_dataclass(kind):
        return _object(typing.cast(type, kind))
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Union:
        inner = _converter(next(argument for argument in arguments if argument is not type(None)))
        return lambda value, path: None if value is None else inner(value, path)
    if origin is list:
        item = _converter(arguments[0])
        return lambda value, path: [
            item(entry, f"{path}/{at}") for at, entry in enumerate(_check((list,), value, path))
        ]
    if origin is dict:
        entry = _converter(arguments[1])
        return lambda value, path: {
            key: entry(inner, f"{path}/{key}") for key, inner in _check((dict,), value, path).items()
        }
    if kind in _SCALARS:
        return functools.partial(_check, _SCALARS[kind])
    return lambda value, path: value


def _object(kind: type) -> Converter:
    hints = typing.get_type_hints(kind)
    fields = [(field.name, _converter(hints[field.name]), _is_required(field)) for field in dataclasses.fields(kind)]

    def convert(value: object, path: str) -> object:
        given = _check((dict,), value, path)
        found: dict[str, Any] = {}
        for name, converter, is_required in fields:
            if name in given:
                found[name] = converter(given[name], f"{path}/{name}")
            elif is_required:
                raise _mismatch(path, f"has no `{name}`")
        return kind(**found)

    return convert


def _is_required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _check(kinds: tuple[type, ...], value: Any, path: str) -> Any:  # noqa: ANN401
    # a bool is an int for Python, but not in JSON
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        raise _mismatch(path, f"is {type(value).__name__} instead of {kinds[0].__name__}")
    return value


def _mismatch(path: str, what: str) -> ReplyError:
    return ReplyError(f"the reply {'at ' + path + ' ' if path else ''}{what}; check base_url, and update weir-client")
