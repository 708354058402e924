"""What the simulated shop understands: its schema, the documents it read, and what they cost.

Costs are as in recorded replies of real shops: an object or a plain list is one point and what is
selected of it, money and addresses are free, and a connection grows with the logarithm of its size.
A document is parsed, checked and priced once and kept by its text: clients send few, often.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from functools import lru_cache
from math import floor, log
from pathlib import Path
from typing import Any

from graphql import (
    DocumentNode,
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    GraphQLError,
    GraphQLField,
    GraphQLInterfaceType,
    GraphQLObjectType,
    InlineFragmentNode,
    OperationDefinitionNode,
    OperationType,
    SelectionSetNode,
    ValueNode,
    build_schema,
    get_named_type,
    parse,
    validate,
    value_from_ast_untyped,
)

MUTATION_POINTS = 10
CONNECTION_POINTS = 2
FREE = frozenset({"MailingAddress", "MoneyBag", "MoneyV2", "PageInfo"})
LIST_MAX = 250
CENT = Decimal("0.01")
# The scopes that Shopify's schema names for what an app asks for.
ACCESS = {
    "locations": "read_locations",
    "productVariants": "read_products",
    "productByIdentifier": "read_products",
    "inventoryActivate": "write_inventory",
    "inventorySetQuantities": "write_inventory",
    "productSet": "write_products",
    "productUpdate": "write_products",
    "productVariantsBulkUpdate": "write_products",
}

SCHEMA = build_schema(Path(__file__).with_name("shopify.graphql").read_text(encoding="utf-8"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Priced:
    """An object in a selection and its children; `first` is the size of a connection."""

    first: ValueNode | int | None
    only_on: str | None
    children: tuple["Priced", ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One operation of a document that is fit to be executed."""

    document: DocumentNode
    name: str | None
    is_mutation: bool
    fields: tuple[str, ...]
    defaults: Mapping[str, Any]
    priced: tuple[Priced, ...]

    def cost(self, variables: Mapping[str, Any]) -> int:
        """Return the points that this operation may cost at most."""
        if self.is_mutation:
            return MUTATION_POINTS * len(self.fields)
        return _sum(self.priced, {**self.defaults, **variables})


@lru_cache(maxsize=2048)
def read_document(text: str, name: str | None = None) -> Operation | tuple[GraphQLError, ...]:
    """Parse and check a document; return the operation of that name, or the errors."""
    try:
        document = parse(text)
    except GraphQLError as error:
        return (error,)
    if errors := validate(SCHEMA, document):
        return tuple(errors)
    operations = [
        definition
        for definition in document.definitions
        if isinstance(definition, OperationDefinitionNode)
    ]
    chosen = [
        operation
        for operation in operations
        if name is None or (operation.name and operation.name.value == name)
    ]
    if len(chosen) != 1:
        return (GraphQLError("No operation of that name, or several and no name"),)
    return _prepare(document, chosen[0])


def attach(resolvers: Mapping[str, Mapping[str, Callable[..., Any]]]) -> None:
    """Give the schema's fields their resolvers; those that yield objects are counted."""
    for type_name, fields in resolvers.items():
        kind = SCHEMA.type_map[type_name]
        assert isinstance(kind, GraphQLObjectType)
        for field_name, resolve in fields.items():
            field = kind.fields[field_name]
            field.resolve = _counted(type_name, field, _granted(field_name, resolve))


def as_money(value: object) -> Decimal:
    """Read an amount, to a tenth of a cent; raises GraphQLError."""
    try:
        amount = Decimal("NaN") if isinstance(value, bool) else Decimal(str(value))
        if amount.is_finite():
            cents = amount.quantize(CENT, rounding=ROUND_HALF_UP)
            return cents if cents == amount else amount.quantize(CENT / 10, rounding=ROUND_HALF_UP)
    except InvalidOperation:
        pass
    raise GraphQLError(f"{value!r} is not an amount of money")


def money_text(value: Decimal | None) -> str | None:
    """Write a price as the shop does."""
    return None if value is None else f"{value:f}"


def short_text(value: Decimal) -> str:
    """Write a decimal as the shop does: no idle zeros, but always a place after the point."""
    return f"{value:f}" if value != value.quantize(CENT) else f"{value:.2f}".removesuffix("0")


def _prepare(document: DocumentNode, operation: OperationDefinitionNode) -> Operation:
    fragments = {
        definition.name.value: definition
        for definition in document.definitions
        if isinstance(definition, FragmentDefinitionNode)
    }
    is_mutation = operation.operation is OperationType.MUTATION
    root = SCHEMA.mutation_type if is_mutation else SCHEMA.query_type
    assert root is not None
    return Operation(
        document=document,
        name=operation.name.value if operation.name else None,
        is_mutation=is_mutation,
        fields=tuple(
            node.name.value for node, _, _ in _fields(operation.selection_set, root.name, fragments)
        ),
        defaults={
            definition.variable.name.value: value_from_ast_untyped(definition.default_value)
            for definition in operation.variable_definitions or ()
            if definition.default_value
        },
        priced=() if is_mutation else _price(operation.selection_set, root.name, fragments),
    )


def _fields(
    selection: SelectionSetNode | None,
    type_name: str,
    fragments: Mapping[str, FragmentDefinitionNode],
    only_on: str | None = None,
) -> Iterator[tuple[FieldNode, str, str | None]]:
    """Yield every field with the type that holds it, and the one type it is selected on, if any."""
    for node in selection.selections if selection else ():
        if isinstance(node, FieldNode):
            yield node, type_name, only_on
            continue
        assert isinstance(node, FragmentSpreadNode | InlineFragmentNode)
        part = fragments[node.name.value] if isinstance(node, FragmentSpreadNode) else node
        on = part.type_condition.name.value if part.type_condition else type_name
        narrowed = on if isinstance(SCHEMA.type_map[type_name], GraphQLInterfaceType) else only_on
        yield from _fields(part.selection_set, on, fragments, narrowed)


def _price(
    selection: SelectionSetNode | None, on: str, fragments: Mapping[str, FragmentDefinitionNode]
) -> tuple[Priced, ...]:
    priced: list[Priced] = []
    for node, holder, only_on in _fields(selection, on, fragments):
        kind = SCHEMA.type_map[holder]
        assert isinstance(kind, GraphQLObjectType | GraphQLInterfaceType)
        if node.name.value not in kind.fields:
            continue  # __typename
        name = get_named_type(kind.fields[node.name.value].type).name
        children = _price(node.selection_set, name, fragments)
        arguments = {argument.name.value: argument.value for argument in node.arguments or ()}
        if not node.selection_set or name in FREE:
            continue
        if name.endswith("Edge") or holder.endswith(("Connection", "Edge")):
            priced += children  # the connection counts its nodes itself
            continue
        first = arguments.get("first", 0) if name.endswith("Connection") else None
        priced.append(Priced(first=first, only_on=only_on, children=children))
    return tuple(priced)


def _sum(priced: Sequence[Priced], variables: Mapping[str, Any]) -> int:
    """Add up what belongs to every type, and of what belongs to one type the dearest."""
    sums: dict[str | None, int] = {}
    for field in priced:
        points = 1 + _sum(field.children, variables)
        if field.first is not None:
            points = CONNECTION_POINTS + _steps(field.first, variables) * points
        sums[field.only_on] = sums.get(field.only_on, 0) + points
    return sums.pop(None, 0) + max(sums.values(), default=0)


def _steps(first: ValueNode | int, variables: Mapping[str, Any]) -> int:
    """Return how often the rows of a connection count."""
    size = first if isinstance(first, int) else value_from_ast_untyped(first, dict(variables))
    if not isinstance(size, int) or size < 1:
        return 0
    return max(1, floor(2 * log(size)))


def _granted(name: str, resolve: Callable[..., Any]) -> Callable[..., Any]:
    """Refuse a field of the root for which the merchant did not grant the scope."""
    if name not in ACCESS:
        return resolve

    def check(root: Any, info: Any, **arguments: Any) -> Any:  # noqa: ANN401 - any field
        check_scope(info.context.shop.setup.scopes, ACCESS[name], name)
        return resolve(root, info, **arguments)

    return check


def check_scope(granted: Sequence[str], scope: str, name: str) -> None:
    """Raise GraphQLError as the shop does if the merchant did not grant the scope."""
    if scope not in granted:
        access = f"`{scope}` access scope."
        raise GraphQLError(
            f"Access denied for {name} field. Required access: {access}",
            extensions={"code": "ACCESS_DENIED", "requiredAccess": access},
        )


def _counted(holder: str, field: GraphQLField, resolve: Callable[..., Any]) -> Callable[..., Any]:
    kind = get_named_type(field.type)
    is_object = isinstance(kind, GraphQLObjectType | GraphQLInterfaceType)
    if not is_object or kind.name in FREE or holder.endswith(("Connection", "Edge")):
        return resolve
    is_connection = kind.name.endswith("Connection")
    is_listed = "ids" in field.args or ("first" in field.args and not is_connection)

    def count(root: Any, info: Any, **arguments: Any) -> Any:  # noqa: ANN401 - any field
        value = resolve(root, info, **arguments)
        if is_connection:
            info.context.points += CONNECTION_POINTS + len(value.nodes)
        elif is_listed:
            info.context.points += sum(item is not None for item in value)
        elif value is not None:
            info.context.points += 1
        return value

    return count
