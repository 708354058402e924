"""Executes queries against the simulated shop's schema, with the same resolvers as the library.

A document is laid out once per type of object; then every answer is a walk over plain slots. That
is many times as fast, and simulated months need many answers. Whatever fails on the way is left to
the library, which executes the query again and words its errors.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from graphql import (
    ExecutionResult,
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    GraphQLError,
    GraphQLField,
    GraphQLInterfaceType,
    GraphQLNonNull,
    GraphQLObjectType,
    InlineFragmentNode,
    OperationDefinitionNode,
    SelectionSetNode,
    execute,
    get_argument_values,
    get_named_type,
    get_nullable_type,
    get_variable_values,
    is_leaf_type,
    is_list_type,
)

from headway_lab.simulators.shopify.request import Payload, ShopRequest
from headway_lab.simulators.shopify.schema import SCHEMA, Operation

LAYOUTS_MAX = 2048
Plan = tuple["FieldSlot", ...]


class _UnlikelyError(Exception):
    """Something that the library handles better."""


@dataclass(slots=True, kw_only=True)
class FieldSlot:
    """A field of an answer: how it is resolved, and what is selected of its value."""

    key: str
    field_definition: GraphQLField | None
    node: FieldNode
    selections: list[SelectionSetNode]
    is_leaf: bool = True
    is_list: bool = False
    is_sure: bool = False
    has_arguments: bool = False
    name: str = ""
    # The type of its value; None where only the value shows it.
    type_name: str | None = None
    plans: dict[str, Plan] = field(default_factory=dict)


class Layout:
    """How the answers to one query are laid out."""

    def __init__(self, operation: Operation) -> None:
        nodes = operation.document.definitions
        self._fragments = {
            node.name.value: node for node in nodes if isinstance(node, FragmentDefinitionNode)
        }
        [self.node] = [
            node
            for node in nodes
            if isinstance(node, OperationDefinitionNode)
            and (operation.name is None or (node.name and node.name.value == operation.name))
        ]
        parts = [self.node, *self._fragments.values()]
        self.is_fit = all(_is_plain(part.selection_set) for part in parts)
        self.root = self.plan([self.node.selection_set], "QueryRoot")

    def plan(self, selections: Sequence[SelectionSetNode], type_name: str) -> Plan:
        """Return the slots of an object of this type."""
        slots: dict[str, FieldSlot] = {}
        for selection in selections:
            self._collect(selection, type_name, slots)
        return tuple(slots.values())

    def _collect(self, selection: SelectionSetNode, name: str, slots: dict[str, FieldSlot]) -> None:
        for node in selection.selections:
            if isinstance(node, FieldNode):
                self._add(node, name, slots)
                continue
            assert isinstance(node, FragmentSpreadNode | InlineFragmentNode)
            part: FragmentDefinitionNode | InlineFragmentNode = (
                self._fragments[node.name.value] if isinstance(node, FragmentSpreadNode) else node
            )
            on = part.type_condition.name.value if part.type_condition else name
            if on == name or _is_a(name, on):
                self._collect(part.selection_set, name, slots)

    def _add(self, node: FieldNode, type_name: str, slots: dict[str, FieldSlot]) -> None:
        key = node.alias.value if node.alias else node.name.value
        if key not in slots:
            slots[key] = _slot(key, node, type_name)
        if node.selection_set:
            slots[key].selections.append(node.selection_set)


class Execution:
    """One query on its way through the shop."""

    def __init__(self, layout: Layout, variables: Any, shop_request: ShopRequest) -> None:  # noqa: ANN401
        self._layout = layout
        self._variables = variables
        self._info = SimpleNamespace(context=shop_request)
        self._arguments: dict[int, Mapping[str, Any]] = {}

    def run(self) -> dict[str, Any]:
        """Return the data of the answer."""
        return self._object(self._layout.root, "QueryRoot", None)

    def _object(self, plan: Plan, type_name: str, source: Any) -> dict[str, Any]:  # noqa: ANN401
        fields: dict[str, Any] = {}
        for slot in plan:
            if slot.field_definition is None:
                fields[slot.key] = type_name
                continue
            resolve = slot.field_definition.resolve
            if resolve is None:
                is_dict = type(source) is dict
                value = source.get(slot.name) if is_dict else getattr(source, slot.name, None)
            elif slot.has_arguments:
                value = resolve(source, self._info, **self._argument_values(slot))
            else:
                value = resolve(source, self._info)
            if value is None:
                if slot.is_sure:
                    raise _UnlikelyError
            elif not slot.is_leaf:
                value = self._complete(slot, value)
            fields[slot.key] = value
        return fields

    def _complete(self, slot: FieldSlot, value: Any) -> Any:  # noqa: ANN401 - objects, or a list
        if slot.is_list:
            return [None if item is None else self._one(slot, item) for item in value]
        return self._one(slot, value)

    def _one(self, slot: FieldSlot, value: Any) -> dict[str, Any]:  # noqa: ANN401 - any object
        name = slot.type_name or self._type_of(slot, value)
        plan = slot.plans.get(name)
        if plan is None:
            plan = slot.plans[name] = self._layout.plan(slot.selections, name)
        return self._object(plan, name, value)

    def _type_of(self, slot: FieldSlot, value: Any) -> str:  # noqa: ANN401 - any object
        kind = get_named_type(slot.field_definition.type) if slot.field_definition else None
        assert isinstance(kind, GraphQLInterfaceType)
        assert kind.resolve_type is not None
        return str(kind.resolve_type(value, self._info, kind))  # type: ignore[arg-type]

    def _argument_values(self, slot: FieldSlot) -> Mapping[str, Any]:
        if id(slot) not in self._arguments:
            assert slot.field_definition is not None
            arguments = get_argument_values(slot.field_definition, slot.node, self._variables)
            self._arguments[id(slot)] = arguments
        return self._arguments[id(slot)]


_layouts: dict[int, tuple[Operation, Layout]] = {}


def answer(
    operation: Operation, variables: Mapping[str, Any], shop_request: ShopRequest
) -> Payload:
    """Execute an operation; return its data and errors in the API's form."""
    is_read = not operation.is_mutation
    quick = _answer_quickly(operation, variables, shop_request) if is_read else None
    return by_library(operation, variables, shop_request) if quick is None else quick


def by_library(
    operation: Operation, variables: Mapping[str, Any], shop_request: ShopRequest
) -> Payload:
    """Execute an operation the slow way, which knows everything."""
    result = execute(
        SCHEMA,
        operation.document,
        variable_values=dict(variables),
        context_value=shop_request,
        operation_name=operation.name,
    )
    assert isinstance(result, ExecutionResult)
    for error in result.errors or ():
        if error.original_error and not isinstance(error.original_error, GraphQLError):
            raise error.original_error  # a bug of the simulator is not the shop's answer
    payload: Payload = {} if result.data is None else {"data": result.data}
    if result.errors:
        payload["errors"] = [error.formatted for error in result.errors]
    return payload


def _answer_quickly(
    operation: Operation, variables: Mapping[str, Any], shop_request: ShopRequest
) -> Payload | None:
    known = _layouts.get(id(operation))
    if known is None:  # kept with its operation, so that the id stays its own
        if len(_layouts) >= LAYOUTS_MAX:
            _layouts.clear()
        known = _layouts[id(operation)] = (operation, Layout(operation))
    layout = known[1]
    if not layout.is_fit:
        return None
    definitions = layout.node.variable_definitions or ()
    coerced = get_variable_values(SCHEMA, definitions, dict(variables))
    points = shop_request.points
    try:
        if not isinstance(coerced, list):
            return {"data": Execution(layout, coerced, shop_request).run()}
    except (GraphQLError, _UnlikelyError):
        shop_request.points = points
    return None


def _slot(key: str, node: FieldNode, type_name: str) -> FieldSlot:
    kind = SCHEMA.type_map[type_name]
    assert isinstance(kind, GraphQLObjectType | GraphQLInterfaceType)
    field = kind.fields.get(node.name.value)
    slot = FieldSlot(
        key=key, field_definition=field, node=node, selections=[], name=node.name.value
    )
    if field is not None:
        named = get_named_type(field.type)
        slot.is_leaf = is_leaf_type(named)
        slot.type_name = None if isinstance(named, GraphQLInterfaceType) else named.name
        slot.has_arguments = bool(field.args)
        slot.is_list = is_list_type(get_nullable_type(field.type))
        slot.is_sure = isinstance(field.type, GraphQLNonNull)
    return slot


def _is_plain(selection: SelectionSetNode | None) -> bool:
    """Return True if no directive skips or includes a field."""
    nodes = selection.selections if selection else ()
    return all(
        not node.directives and _is_plain(getattr(node, "selection_set", None)) for node in nodes
    )


def _is_a(name: str, on: str) -> bool:
    kind = SCHEMA.type_map[name]
    return isinstance(kind, GraphQLObjectType) and on in {
        interface.name for interface in kind.interfaces
    }
