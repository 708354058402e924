import base64
import os
import threading
from pathlib import Path

import pytest

from headway.errors import ConfigError
from headway.providers.vault import Vault, open_vault

OLD = base64.urlsafe_b64encode(b"o" * 32).decode()
NEW = base64.urlsafe_b64encode(b"n" * 32).decode()


def test_what_goes_in_comes_out_and_cannot_be_read_between() -> None:
    vault = Vault([NEW])
    stored = vault.encrypt("hush ☂")
    assert b"hush" not in stored
    assert vault.decrypt(stored) == "hush ☂"


def test_an_old_key_still_opens_and_rotation_makes_it_needless() -> None:
    stored = Vault([OLD]).encrypt("hush")
    both = open_vault(f"{NEW}, {OLD}", Path("/nowhere"))
    assert both.decrypt(stored) == "hush"
    rotated = both.rotate(stored)
    assert rotated is not None
    assert Vault([NEW]).decrypt(rotated) == "hush"
    assert (both.key_of(stored), both.key_of(rotated)) == (2, 1)


def test_what_needs_no_rotation_or_has_no_key_is_left_as_it_is() -> None:
    both = Vault([NEW, OLD])
    assert both.rotate(both.encrypt("hush")) is None
    stranger = Vault([OLD]).encrypt("hush")
    assert Vault([NEW]).key_of(stranger) is None
    assert Vault([NEW]).rotate(stranger) is None


def test_a_wrong_key_is_explained_in_one_line() -> None:
    stored = Vault([OLD]).encrypt("hush")
    with pytest.raises(ConfigError, match="put the key it was written with after") as raised:
        Vault([NEW]).decrypt(stored)
    assert "\n" not in str(raised.value)
    assert NEW not in str(raised.value)


@pytest.mark.parametrize("key", ("hush", "hush" * 11, "☂", NEW[:-4]))
def test_a_bad_key_is_counted_but_not_shown(key: str) -> None:
    with pytest.raises(ConfigError, match="key 2 is not") as raised:
        open_vault(f"{NEW},{key}", Path("/nowhere"))
    assert key not in str(raised.value)


def test_no_key_at_all_is_explained() -> None:
    with pytest.raises(ConfigError, match="holds no key"):
        open_vault(" , ", Path("/nowhere"))


def test_a_vault_shows_no_key() -> None:
    assert NEW not in repr(Vault([NEW]))
    assert repr(Vault([NEW])) == "Vault(1 keys from HEADWAY_SECRET_KEY)"


def test_a_key_file_is_made_once_for_its_owner_only(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "down"
    stored = open_vault(None, folder).encrypt("hush")
    assert open_vault(None, folder).decrypt(stored) == "hush"
    assert (folder / "secret.key").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in folder.iterdir()] == ["secret.key"]


def test_a_key_file_keeps_its_mode_under_any_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        open_vault(None, tmp_path)
    finally:
        os.umask(before)
    assert (tmp_path / "secret.key").stat().st_mode & 0o777 == 0o600


def test_workers_that_start_together_share_one_key(tmp_path: Path) -> None:
    vaults: list[Vault] = []
    gate = threading.Barrier(8)

    def start() -> None:
        gate.wait()
        vaults.append(open_vault(None, tmp_path))

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stored = vaults[0].encrypt("hush")
    assert [vault.decrypt(stored) for vault in vaults] == ["hush"] * 8
    assert [path.name for path in tmp_path.iterdir()] == ["secret.key"]


def test_a_key_file_others_can_read_is_refused(tmp_path: Path) -> None:
    open_vault(None, tmp_path)
    (tmp_path / "secret.key").chmod(0o640)
    with pytest.raises(ConfigError, match="chmod 600"):
        open_vault(None, tmp_path)


@pytest.mark.parametrize("content", (b"", b"not a key\n", b"\xff\xfe"))
def test_a_key_file_without_a_key_is_explained(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "secret.key"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(ConfigError, match=r"secret\.key"):
        open_vault(None, tmp_path)


def test_a_folder_that_is_a_file_is_explained(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(ConfigError, match="HEADWAY_SECRET_KEY"):
        open_vault(None, tmp_path / "file")


def test_keys_may_stand_in_the_file_on_lines_of_their_own(tmp_path: Path) -> None:
    stored = open_vault(None, tmp_path).encrypt("hush")
    path = tmp_path / "secret.key"
    path.write_text(NEW + "\n" + path.read_text())
    assert open_vault(None, tmp_path).decrypt(stored) == "hush"
