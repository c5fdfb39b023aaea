"""JSON Schemas of what commands print, made of ``json.toml`` and of the Structs that are printed.

A table of ``json.toml`` is an object of JSON. Where a Struct is printed, names, order and types of
the table's fields are those of the class, and ``json.toml`` adds what a type cannot say:
descriptions, narrower types, and fields that are added when it is printed.
"""

import re
import types
from collections.abc import Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from enum import Enum
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from msgspec import Meta, Struct, UnsetType

Schema = dict[str, object]
Tables = Mapping[str, Any]
"""The content of ``json.toml``."""
SCALARS = frozenset(("string", "integer", "number", "boolean", "null"))
_TOKEN = re.compile(r"'[^']*'|\w+|[\[\]{};|]")
_SCALAR_TYPES = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    types.NoneType: "null",
    object: "any",
    Any: "any",
}
_ARRAYS = (list, tuple, set, frozenset, Sequence, Collection, AbstractSet)


class StructTable(Struct, frozen=True):
    """A class whose instances are printed as a table, an enumeration as one of its values.

    ``only`` are the fields and properties that are printed; if empty, all fields but ``without``.
    """

    type: type
    only: tuple[str, ...] = ()
    without: tuple[str, ...] = ()


class JsonField(Struct, frozen=True):
    """A field of an object: its type as ``json.toml`` writes it, and what it is ("" if plain)."""

    type: str
    description: str = ""


class JsonReference:
    """The objects that commands print as JSON.

    Args:
        tables: the content of ``json.toml``.
        structs: the classes that are printed, by the names of their tables.
    """

    def __init__(self, tables: Tables, structs: Mapping[str, StructTable]) -> None:
        self._tables = tables
        self._structs = structs
        self._names: dict[type, str] = {}
        for name, entry in structs.items():
            self._names.setdefault(entry.type, name)

    @property
    def commands(self) -> Mapping[str, str]:
        """The commands that print JSON, each with the tables that it may print."""
        commands: Mapping[str, str] = self._tables["commands"]
        return commands

    def __contains__(self, name: str) -> bool:
        return name in self._structs or (name in self._tables and name != "commands")

    def fields(self, name: str) -> dict[str, JsonField]:
        """The fields of a table in their order; ``=`` is the only one of a table that is a type."""
        out: dict[str, JsonField] = {}
        if name in self._structs:
            out = self._struct_fields(self._structs[name])
        for key, value in self._tables.get(name, {}).items():
            if key == "_":
                continue
            text, description = (value, "") if isinstance(value, str) else value
            # What is empty is as the class has it.
            of_class = out.get(key, JsonField(""))
            out[key] = JsonField(text or of_class.type, description or of_class.description)
        return out

    def schema(self, command: str) -> Schema | None:
        """The JSON Schema of a command's ``--json``; None where it prints none."""
        root = self.commands.get(command)
        if root is None:
            return None
        definitions: dict[str, Schema] = {}
        texts = [root]
        while texts:
            for name in _TOKEN.findall(texts.pop()):
                if name in self and name not in definitions:
                    definitions[name] = self._definition(name)
                    texts += [field.type for field in self.fields(name).values()]
        return {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "$id": f"{command}.json",
            **expression(root),
            "$defs": definitions,
        }

    def _definition(self, name: str) -> Schema:
        properties = {}
        for key, field in self.fields(name).items():
            description = {"description": field.description} if field.description else {}
            properties[key] = expression(field.type) | description
        if "=" in properties:
            return properties["="]
        additional = properties.pop("*", False)
        about = self._tables.get(name, {}).get("_")
        return {
            **({} if about is None else {"description": about}),
            "type": "object",
            "properties": {key.removesuffix("?"): value for key, value in properties.items()},
            "required": [key for key in properties if not key.endswith("?")],
            "additionalProperties": additional,
        }

    def _struct_fields(self, entry: StructTable) -> dict[str, JsonField]:
        if issubclass(entry.type, Enum):
            return {"=": JsonField("|".join(_literal(member.value) for member in entry.type))}
        hints = get_type_hints(entry.type, include_extras=True)
        names = entry.only or getattr(entry.type, "__struct_fields__", tuple(hints))
        printed = names if entry.only else getattr(entry.type, "__struct_encode_fields__", names)
        out = {}
        for name, key in zip(names, printed, strict=True):
            if name not in entry.without:
                hint = hints.get(name) or _property_type(entry.type, name)
                hint, description = _described(hint)
                is_optional = UnsetType in get_args(hint)
                field = JsonField(self.type_text(hint), description)
                out[f"{key}?" if is_optional else key] = field
        return out

    def type_text(self, hint: Any) -> str:
        """A type of Python as ``json.toml`` writes it: ``[string]|null`` of ``list[str]|None``."""
        if hint in _SCALAR_TYPES:
            return _SCALAR_TYPES[hint]
        if hint in self._names:
            return self._names[hint]
        origin = get_origin(hint)
        arguments = get_args(hint)
        if origin is Annotated:
            return self.type_text(arguments[0])
        if origin is Literal:
            return "|".join(map(_literal, arguments))
        if origin in (Union, types.UnionType):
            return "|".join(map(self.type_text, (a for a in arguments if a is not UnsetType)))
        if isinstance(origin, type) and issubclass(origin, Mapping):
            return f"{{{self.type_text(arguments[1])}}}"
        if origin in _ARRAYS:
            return self._array_text(arguments)
        if isinstance(hint, type) and issubclass(hint, Enum):
            return "|".join(_literal(member.value) for member in hint)
        raise TypeError(f"no type of JSON is known for {hint}")

    def _array_text(self, items: Sequence[Any]) -> str:
        item = self.type_text(items[0])
        if len(items) == 1 or items[1] is ...:
            return f"[{item}]"
        return f"[{item}; {len(items)}]"


def _described(hint: Any) -> tuple[Any, str]:
    """A type without its annotation, and the description in that."""
    if get_origin(hint) is not Annotated:
        return hint, ""
    plain_hint, *metadata = get_args(hint)
    texts = [item.description for item in metadata if isinstance(item, Meta) and item.description]
    return plain_hint, "; ".join(texts)


def _property_type(owner: type, name: str) -> Any:
    """The type of a property of a class."""
    return get_type_hints(getattr(owner, name).fget)["return"]


def _literal(value: object) -> str:
    return f"'{value}'" if isinstance(value, str) else str(value)


def expression(text: str) -> Schema:
    """The schema of a type as ``json.toml`` writes it, such as ``[Note; 2]|null``."""
    return _alternatives(iter([*_TOKEN.findall(text), ""]), "")


def _alternatives(tokens: Iterator[str], end: str) -> Schema:
    """One or several types up to the token ``end``."""
    schemas = []
    size: Schema = {}
    for token in tokens:
        if token == end:
            break
        if token == "[":
            schemas.append(_alternatives(tokens, "]"))
        elif token == "{":
            schemas.append({"type": "object", "additionalProperties": _alternatives(tokens, "}")})
        elif token == ";":
            count = int(next(tokens))
            size = {"minItems": count, "maxItems": count}
        elif token == "any":
            schemas.append({})
        elif token in SCALARS:
            schemas.append({"type": token})
        elif token.isdecimal() or token.startswith("'"):
            schemas.append({"const": int(token) if token.isdecimal() else token[1:-1]})
        elif token != "|":
            schemas.append({"$ref": f"#/$defs/{token}"})
    union: Schema = schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
    for key, several in (("type", "type"), ("const", "enum")):
        if len(schemas) > 1 and all(list(alternative) == [key] for alternative in schemas):
            union = {several: [alternative[key] for alternative in schemas]}
    return {"type": "array", "items": union, **size} if end == "]" else union
