"""Encryption of stored credentials: Fernet, newest key first, from a setting or a key file.

A key file is made on first use, whole or not at all, readable by its owner only. To rotate, put a
new key before the old ones and re-encrypt what is stored; then the old ones may go.
"""

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from cryptography.fernet import Fernet, InvalidToken, MultiFernet

from headway.clock import fresh_id
from headway.errors import ConfigError

KEY_FILE = "secret.key"
SETTING = "HEADWAY_SECRET_KEY"
DIGEST_CHARS = 12


class Vault:
    """Turns secrets into bytes fit for the database, and back.

    `digests` distinguish the keys, and reveal nothing else.
    """

    def __init__(self, keys: Sequence[str], *, source: str = SETTING) -> None:
        if not keys:
            raise ConfigError(f"{source} holds no key; remove it to have a key file made")
        self._source = source
        self._count = len(keys)
        self._keys = [self._key(at, key) for at, key in enumerate(keys, start=1)]
        self._fernet = MultiFernet(self._keys)
        self.digests = [hashlib.sha256(key.encode()).hexdigest()[:DIGEST_CHARS] for key in keys]

    def __repr__(self) -> str:
        return f"Vault({self._count} keys from {self._source})"

    def encrypt(self, secret: str) -> bytes:
        """Encrypt with the newest key."""
        return self._fernet.encrypt(secret.encode())

    def decrypt(self, stored: bytes) -> str:
        """Decrypt with whichever key fits; raises ConfigError when none does."""
        try:
            return self._fernet.decrypt(stored).decode()
        except InvalidToken:
            raise self._wrong_key() from None

    @property
    def source(self) -> str:
        """Where the keys come from: a setting or a file."""
        return self._source

    @property
    def count(self) -> int:
        """How many keys there are."""
        return self._count

    def key_of(self, stored: bytes) -> int | None:
        """Return which key opens this, 1 for the newest; None if none does."""
        for at, key in enumerate(self._keys, start=1):
            try:
                key.decrypt(stored)
            except InvalidToken:
                continue
            return at
        return None

    def rotate(self, stored: bytes) -> bytes | None:
        """Encrypt again with the newest key; None if it is that already, or if no key fits."""
        return self._fernet.rotate(stored) if self.key_of(stored) not in {1, None} else None

    def _key(self, at: int, key: str) -> Fernet:
        try:
            return Fernet(key)
        except ValueError:
            raise ConfigError(
                f"{self._source}: key {at} is not 32 url-safe base64-encoded bytes; make one with "
                "`openssl rand -base64 32 | tr +/ -_`"
            ) from None

    def _wrong_key(self) -> ConfigError:
        return ConfigError(
            f"a stored credential does not open with {self.keys_named}; "
            "put the key it was written with after them, comma-separated, "
            "or empty the table credential to fetch new ones"
        )

    @property
    def keys_named(self) -> str:
        """How many keys there are and where they come from, in words."""
        return f"the {self._count} keys of {self._source}"


def open_vault(secret_key: str | None, data_dir: Path) -> Vault:
    """Open the vault with the given keys, else with the key file, made if it is not there."""
    if secret_key is not None:
        return Vault(_split(secret_key))
    path = data_dir.expanduser() / KEY_FILE
    try:
        if not path.exists():
            _make_key_file(path)
        if path.stat().st_mode & 0o077:
            raise ConfigError(f"{path} can be read by others; run `chmod 600 {path}`")
        text = path.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not plain text"
        raise ConfigError(f"{path}: {why}; fix it, or set {SETTING}") from None
    return Vault(_split(text.replace("\n", ",")), source=str(path))


def _make_key_file(path: Path) -> None:
    """Write the key beside, then link it into place: the first of two workers wins, whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{fresh_id()}")
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(Fernet.generate_key() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        os.link(beside, path)
    except FileExistsError:
        pass
    finally:
        beside.unlink()


def _split(keys: str) -> list[str]:
    return [key.strip() for key in keys.split(",") if key.strip()]
