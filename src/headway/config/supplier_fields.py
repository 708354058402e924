"""The paths and names that a supplier's API uses, as its first customer's client has them.

No document of the vendor is public, so every name is a setting. Several names of one field are
separated by `|`; the first that a line has counts.
"""

from typing import Annotated, Literal

from pydantic import StringConstraints

PATHS: dict[str, str] = {
    "oauth": "/oauth2/v2.0/token",
    "part_token": "/boeing-part-price-availability/token/v1/oauth",
    "price": "/boeing-part-price-availability/price-availability/v1/wtoken",
}
HEADERS: dict[str, str] = {
    "username": "x-username",
    "password": "x-password",
    "part_token_reply": "x-part-access-token",
    "part_token": "x-boeing-parts-authorization",
}
FIELDS: dict[str, str] = {
    "requested": "productCodes",
    "currency": "currency",
    "lines": "lineItems",
    "part_number": "aviallPartNumber",
    "product_code": "productCode",
    "list_price": "listPrice",
    "net_price": "netPrice",
    "line_currency": "currency|currencyCode",
    "quantity": "quantity",
    "in_stock": "inStock",
    "locations": "locationAvailabilities",
    "location": "location",
    "available": "availQuantity",
    "name": "name",
    "description": "description",
    "vendor": "supplierName",
    "unit": "baseUOM",
    "minimum": "minimumOrderQuantity|minOrderQuantity|minimumOrderQty|minOrderQty",
    "weight": "weight",
    "weight_unit": "weightUOM",
    "origin": "countryOfOrigin",
    "tariff_code": "harmonizedTariffCode|htsCode|scheduleBCode",
    "condition": "condition|conditionCode",
    "image": "productImage|thumbnailImage",
    "error": "error|errorMessage",
    "status": "status|lineStatus",
    "superseded_by": "supersededBy|supersedingPartNumber|replacementPartNumber",
}
PathName = Literal["oauth", "part_token", "price"]
HeaderName = Literal["username", "password", "part_token_reply", "part_token"]
FieldName = Literal[
    "requested", "currency", "lines", "part_number", "product_code", "list_price", "net_price",
    "line_currency", "quantity", "in_stock", "locations", "location", "available", "name",
    "description", "vendor", "unit", "minimum", "weight", "weight_unit", "origin", "tariff_code",
    "condition", "image", "error", "status", "superseded_by",
]  # fmt: skip
UrlPath = Annotated[str, StringConstraints(pattern=r"^/[\w./~-]*$")]
HttpHeader = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9-]{1,100}$")]
JsonName = Annotated[str, StringConstraints(pattern=r"^[^\s|]{1,100}$")]
JsonNames = Annotated[
    str, StringConstraints(strip_whitespace=True, pattern=r"^[^\s|]{1,100}(\|[^\s|]{1,100})*$")
]
