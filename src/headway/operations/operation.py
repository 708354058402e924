"""An operation: one typed function, and what its route, its document and a client need.

    @operation("GET", "/api/sync/held", need=Need.READ, tag="changes", errors=(404, 422))
    def held(caller: Caller, *, seller: SellerQuery = None, limit: Limit = 50) -> HeldPage: ...

Commands and pages call the function directly. `web.routes` makes a FastAPI route of it, and
`cli.remote` a request to a server. mypy rejects a seller where the caller must be an operator.
"""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Concatenate, Generic, ParamSpec, TypeVar, get_origin

from headway.core.access import OF_NO_SELLER, Need
from headway.errors import InvariantError
from headway.operations.callers import Caller, OperatorCaller

By_contra = TypeVar("By_contra", bound=Caller, contravariant=True)
Arguments = ParamSpec("Arguments")
Result_co = TypeVar("Result_co", covariant=True)
OK = 200


@dataclass(frozen=True, eq=False)
class ApiOperation(Generic[By_contra, Arguments, Result_co]):
    """One operation.

    `name` is its id in the OpenAPI document, which generated clients use as a function's name; by
    default it is that of the function. `errors` are the statuses it may answer beside those of
    every route. `shown_once` is a field of its result that is a secret: it is null when the reply
    is replayed. `body_bytes` is how large its body may be; 0 for the usual limit. One that returns
    an iterator answers a line of JSON for each item, as it comes.
    """

    function: Callable[Concatenate[By_contra, Arguments], Result_co]
    method: str
    path: str
    need: Need
    tag: str
    errors: tuple[int, ...]
    status: int
    shown_once: str
    name: str
    body_bytes: int = 0

    @property
    def streams(self) -> bool:
        """True if the result comes item by item."""
        return get_origin(self.signature.return_annotation) is Iterator

    def __call__(
        self, caller: By_contra, *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Result_co:
        """Call the function."""
        return self.function(caller, *args, **kwargs)

    @property
    def signature(self) -> inspect.Signature:
        """The parameters behind the caller, and the type of the result."""
        whole = inspect.signature(self.function)
        return whole.replace(parameters=list(whole.parameters.values())[1:])


def operation(
    method: str,
    path: str,
    *,
    need: Need,
    tag: str,
    errors: tuple[int, ...] = (),
    status: int = OK,
    shown_once: str = "",
    name: str = "",
    body_bytes: int = 0,
) -> Callable[
    [Callable[Concatenate[By_contra, Arguments], Result_co]],
    ApiOperation[By_contra, Arguments, Result_co],
]:
    """Declare a function as an operation; raises InvariantError if its caller is the wrong one."""

    def declare(
        function: Callable[Concatenate[By_contra, Arguments], Result_co],
    ) -> ApiOperation[By_contra, Arguments, Result_co]:
        first = next(iter(inspect.signature(function).parameters.values()))
        if first.annotation is not (OperatorCaller if need in OF_NO_SELLER else Caller):
            raise InvariantError(f"{method} {path}: {first} does not fit the need {need}")
        return ApiOperation(
            function,
            method,
            path,
            need,
            tag,
            errors,
            status,
            shown_once,
            name or function.__name__,
            body_bytes,
        )

    return declare
