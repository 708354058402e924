"""Text that no request of the API may hold: what the database cannot store.

Found here, such a request is refused with the name of the field. Found later, it would look as if
the server were at fault.
"""

import json
import re
from collections.abc import Iterator

from fastapi import Request

from headway.errors import InvalidError

# PostgreSQL stores neither this character nor half of a surrogate pair.
UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
ESCAPE = b"\\u"
REASON = "holds a character that cannot be stored, such as NUL (%00)"
NOT_JSON = "body: send JSON in UTF-8, with the header content-type: application/json"


def require_readable_query(request: Request) -> None:
    """Raise InvalidError, naming the field, for an address that holds what cannot be stored."""
    for name, value in request.query_params.multi_items():
        if UNSTORABLE.search(name) or UNSTORABLE.search(value):
            raise InvalidError(f"{UNSTORABLE.sub('', name) or 'query'}: it {REASON}")


def require_readable_body(body: bytes) -> None:
    """Raise InvalidError, naming the field, for JSON that is not UTF-8 or cannot be stored."""
    try:
        body.decode()
        if ESCAPE not in body:
            return
        places = list(_unstorable(json.loads(body), ""))
    except (ValueError, RecursionError):
        raise InvalidError(NOT_JSON) from None
    if places:
        raise InvalidError(f"{places[0].lstrip('.') or 'body'}: it {REASON}")


def _unstorable(value: object, place: str) -> Iterator[str]:
    """Yield the place of each text that cannot be stored."""
    if isinstance(value, str) and UNSTORABLE.search(value):
        yield place
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _unstorable(item, f"{place}[{index}]")
    elif isinstance(value, dict):
        for name, item in value.items():
            inner = f"{place}.{UNSTORABLE.sub('', name)}"
            yield from [inner] if UNSTORABLE.search(name) else _unstorable(item, inner)
