"""What all shapes of the API have in common."""

from pydantic import BaseModel, ConfigDict


class Shape(BaseModel):
    """A reply's shape, filled from a dataclass of the same names."""

    model_config = ConfigDict(from_attributes=True, extra="forbid", frozen=True)


class ProblemShape(Shape):
    """An error, as RFC 9457 writes it; its type is about:blank, so the status says what it is."""

    title: str
    status: int
    detail: str
