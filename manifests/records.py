"""Turn frozen dataclasses into plain data and back, strictly: the one serialiser of all formats.

Fields may be str, int, bool, tuples of those or of dataclasses, dict[str, str], another dataclass,
or any of them | None. Unknown, missing or wrongly typed fields are errors: a file can't mean two
things.
"""

import dataclasses
import types
import typing
from typing import Any, TypeVar

from manifests.errors import IntegrityError

T = TypeVar("T")


def to_data(record: Any) -> Any:
    """A dataclass as dict, list, str, int, bool and None; fields at their default are left out."""
    if dataclasses.is_dataclass(record) and not isinstance(record, type):
        return {
            field.name: to_data(value)
            for field in dataclasses.fields(record)
            if (value := getattr(record, field.name)) != field.default
        }
    if isinstance(record, tuple | list):
        return [to_data(item) for item in record]
    if isinstance(record, dict):
        return {key: to_data(value) for key, value in record.items()}
    return record


def from_data(cls: type[T], data: Any, where: str = "", *, exact: bool = False) -> T:
    """Build `cls` from plain data.

    `where` starts the path that an error names; `exact` wants just the fields that `to_data` gives,
    so that one record has one text. Raises IntegrityError on any unknown, missing or wrongly typed
    field.
    """
    result: T = _convert(cls, data, where or cls.__name__, exact)
    return result


def _convert(kind: Any, data: Any, where: str, exact: bool) -> Any:
    origin = typing.get_origin(kind)
    if origin in (types.UnionType, typing.Union):
        arms = typing.get_args(kind)
        if data is None and type(None) in arms:
            return None
        (kind,) = (arm for arm in arms if arm is not type(None))
        return _convert(kind, data, where, exact)
    if origin is tuple:
        if not isinstance(data, list):
            raise IntegrityError(f"{where}: a list is needed, found {_name(data)}")
        (item,) = (arm for arm in typing.get_args(kind) if arm is not Ellipsis)
        return tuple(_convert(item, value, f"{where}[{i}]", exact) for i, value in enumerate(data))
    if origin is dict:
        if not isinstance(data, dict):
            raise IntegrityError(f"{where}: a table is needed, found {_name(data)}")
        item = typing.get_args(kind)[1]
        return {
            str(key): _convert(item, value, f"{where}.{key}", exact) for key, value in data.items()
        }
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return _build(kind, data, where, exact)
    if type(data) is not kind:
        raise IntegrityError(f"{where}: {kind.__name__} is needed, found {_name(data)}")
    return data


def _build(cls: type[Any], data: Any, where: str, exact: bool) -> Any:
    if not isinstance(data, dict):
        raise IntegrityError(f"{where}: a table is needed, found {_name(data)}")
    hints, fields = _shape(cls)
    for key in data:
        if key not in fields:
            raise IntegrityError(f"{where}: unknown field {key!r}")
    values = {}
    for name, field in fields.items():
        if name in data:
            values[name] = _convert(hints[name], data[name], f"{where}.{name}", exact)
            if exact and values[name] == field.default:
                raise IntegrityError(f"{where}: the field {name!r} says what goes without saying")
        elif field.default is dataclasses.MISSING and (
            exact or field.default_factory is dataclasses.MISSING
        ):
            raise IntegrityError(f"{where}: the field {name!r} is missing")
    return cls(**values)


_Shape = tuple[dict[str, Any], dict[str, "dataclasses.Field[Any]"]]
#: A manifest has tens of thousands of entries of one class, and looking at a class is slow.
_SHAPES: dict[type[Any], _Shape] = {}


def _shape(cls: type[Any]) -> _Shape:
    if cls not in _SHAPES:
        fields = {field.name: field for field in dataclasses.fields(cls)}
        _SHAPES[cls] = (typing.get_type_hints(cls), fields)
    return _SHAPES[cls]


def _name(data: Any) -> str:
    return "nothing" if data is None else f"{type(data).__name__} {data!r:.60}"
