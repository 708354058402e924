"""Who may do what: roles, what a request needs, and tenant isolation.

    need      operator   reader of all   seller   reader of one seller   permits
    read      all        all             own      own                    no
    write     all        no              own      no                     no
    oversee   yes        yes             no       no                     no
    operate   yes        no              no       no                     no
    permit    yes        no              no       no                     yes

`read` and `write` are about sellers' data: a principal that belongs to a seller sees and changes
only that seller's data. `oversee` and `operate` are about what belongs to no seller: limits, keys,
pauses of everything. `permit` is for programs that share a credential: permits, and nothing else.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from headway.core.catalog.listings import SellerId
from headway.errors import ForbiddenError


class Role(StrEnum):
    """What somebody is to this deployment."""

    OPERATOR = "operator"
    SELLER = "seller"
    READER = "reader"
    PERMITS = "permits"


class Need(StrEnum):
    """The permission that a request needs."""

    READ = "read"
    WRITE = "write"
    OVERSEE = "oversee"
    OPERATE = "operate"
    PERMIT = "permit"


OF_NO_SELLER = frozenset({Need.OVERSEE, Need.OPERATE, Need.PERMIT})
OF_READERS = frozenset({Need.READ, Need.OVERSEE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """An authenticated caller; without a `seller` it has access to all sellers' data.

    `key_id` is the API key of the request, or the one that started the session; None after a link.
    `home` is the seller that the key belongs to, where it acts for another shop of the same owner.
    """

    id: str
    name: str
    role: Role
    seller: SellerId | None = None
    key_id: str | None = None
    home: SellerId | None = None

    @property
    def main(self) -> SellerId | None:
        """The seller that the key belongs to, whichever shop it acts for; None for all sellers."""
        return self.home or self.seller

    @property
    def holder(self) -> str:
        """The id for rate limits: the requests of a key and of all its sessions count together."""
        return self.id if self.key_id is None else f"key:{self.key_id}"

    def may(self, need: Need) -> bool:
        """Return True if the table above allows it."""
        if self.role is Role.PERMITS:
            return need is Need.PERMIT
        if need in OF_NO_SELLER and self.seller is not None:
            return False
        return need in OF_READERS or self.role is not Role.READER

    def require(self, need: Need) -> None:
        """Raise ForbiddenError unless the table above allows it."""
        if not self.may(need):
            owner = "" if self.seller is None else f" of {self.seller}"
            raise ForbiddenError(f"a {self.role}{owner} may not do this; it needs: {need}")

    def whose(self, seller: SellerId | None) -> SellerId | None:
        """Return the seller a request is about, None for all sellers; raises ForbiddenError."""
        if self.seller is None or seller in {None, self.seller}:
            return seller if self.seller is None else self.seller
        raise ForbiddenError(
            f"this key belongs to {self.seller}; leave seller out, or name it. For another shop of"
            " the same owner, send its seller in the header Headway-Seller"
        )

    def acting_as(self, seller: SellerId) -> "Principal":
        """Return the same principal for another shop of its owner; the caller has checked that."""
        home = self.main
        return replace(self, seller=seller, home=None if seller == home else home)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessGrant:
    """The role and the seller that a key or a link grants."""

    name: str
    role: Role
    seller: SellerId | None = None
    expires_at: datetime | None = None
