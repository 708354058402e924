"""What all shapes of the API have in common."""

from pydantic import BaseModel, ConfigDict


class Shape(BaseModel):
    """A reply's shape, filled from a dataclass of the same names."""

    model_config = ConfigDict(from_attributes=True, extra="forbid", frozen=True)
