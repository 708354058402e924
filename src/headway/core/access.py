"""Who may do what: roles, what a request needs, and the wall between sellers.

    need      operator   reader of all   seller   reader of one seller
    read      all        all             own      own
    write     all        no              own      no
    oversee   yes        yes             no       no
    operate   yes        no              no       no

`read` and `write` are about sellers' data: whoever belongs to a seller sees and changes that
seller's alone. `oversee` and `operate` are about what belongs to no seller: limits, the ledger,
platforms' days, keys, pauses of everything.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from headway.core.catalog.listings import SellerId
from headway.errors import ForbiddenError


class Role(StrEnum):
    """What somebody is to this deployment."""

    OPERATOR = "operator"
    SELLER = "seller"
    READER = "reader"


class Need(StrEnum):
    """What a request asks of whoever makes it."""

    READ = "read"
    WRITE = "write"
    OVERSEE = "oversee"
    OPERATE = "operate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Somebody who was let in; without a `seller` it is everybody's data that is meant.

    `key_id` is the key that was shown, or that the session began with; a link leaves none.
    """

    id: str
    name: str
    role: Role
    seller: SellerId | None = None
    key_id: str | None = None

    @property
    def holder(self) -> str:
        """Whose requests are counted together: those of a key with all of its sessions."""
        return self.id if self.key_id is None else f"key:{self.key_id}"

    def may(self, need: Need) -> bool:
        """Return whether the table above says yes."""
        if need in {Need.OVERSEE, Need.OPERATE} and self.seller is not None:
            return False
        return need in {Need.READ, Need.OVERSEE} or self.role is not Role.READER

    def require(self, need: Need) -> None:
        """Raise ForbiddenError if it says no."""
        if not self.may(need):
            owner = "" if self.seller is None else f" of {self.seller}"
            raise ForbiddenError(f"a {self.role}{owner} may not do this; it needs: {need}")

    def whose(self, seller: SellerId | None) -> SellerId | None:
        """Return whose data a request is about, None for everybody's; raises ForbiddenError."""
        if self.seller is None or seller in {None, self.seller}:
            return seller if self.seller is None else self.seller
        raise ForbiddenError(f"this key belongs to {self.seller}; leave seller out, or name it")


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessGrant:
    """What a key or a link lets its holder be."""

    name: str
    role: Role
    seller: SellerId | None = None
    expires_at: datetime | None = None
