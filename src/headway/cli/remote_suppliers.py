"""The part of a server's desk that is about suppliers."""

from headway.cli.remote_requests import ApiRequests, word
from headway.core.catalog.listings import SellerId, SupplierName
from headway.operations.suppliers import AcceptedList, AddedSupplier, AssignedSeller
from headway.providers.provider import SupplierSetup
from headway.store.catalog.supplier_list import SupplierView
from headway.store.catalog.suppliers import SupplierRow

SUPPLIERS = "/api/suppliers"


class RemoteSuppliers:
    """Suppliers of a server, if the key is an operator's."""

    def __init__(self, asking: ApiRequests) -> None:
        self._asking = asking

    def some(self, *, limit: int, cursor: str | None = None) -> list[SupplierView]:
        """Return suppliers by name, the one of the settings first, from a cursor on."""
        return self._asking.some(SupplierView, SUPPLIERS, {"cursor": cursor}, limit=limit)

    def add(self, name: SupplierName, setup: SupplierSetup) -> AddedSupplier:
        """Keep a supplier, or its new credential; raises InvalidError and ConflictError."""
        body = {
            "name": name,
            "kind": setup.kind,
            "client_id": setup.client_id,
            "username": setup.username,
            "url": setup.url,
            "options": setup.options,
            **setup.secrets,
        }
        return self._asking.post(AddedSupplier, SUPPLIERS, body)

    def remove(self, name: SupplierName) -> SupplierRow:
        """Forget a supplier and its secrets; raises NotFoundError, ConflictError if it is used."""
        answer = self._asking.api.delete(f"{SUPPLIERS}/{word(name)}").json
        return self._asking.read(SupplierRow, answer)

    def accept(self, name: SupplierName) -> AcceptedList:
        """Accept the price list that a supplier's client holds back; raises ConflictError."""
        return self._asking.post(AcceptedList, f"{SUPPLIERS}/{word(name)}/accept", {})

    def give(self, name: SupplierName, seller: SellerId) -> AssignedSeller:
        """Let a seller buy from this one from now on; due times stay. Raises NotFoundError."""
        path = f"{SUPPLIERS}/{word(name)}/sellers"
        return self._asking.post(AssignedSeller, path, {"seller": seller})
