from pathlib import Path

import pytest

from headway.config import Settings, load
from headway.config.document_settings import replaced
from headway.errors import ConfigError

NOWHERE = Path("/nonexistent/headway.toml")


def test_the_defaults_match_the_requirements() -> None:
    settings = load({}, file=NOWHERE)
    assert (settings.rate_limit, settings.rate_gap_s, settings.batch_size) == (2, 30, 10)
    assert (settings.failures_max, settings.backoff_base_h, settings.backoff_max_h) == (5, 2, 24)


def test_the_environment_wins_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "headway.toml"
    file.write_text('HEADWAY_POLICY = "anchored"\nSYNC_BATCH_SIZE = 5\n')
    settings = load({"SYNC_BATCH_SIZE": "7"}, file=file)
    assert (settings.policy, settings.batch_size) == ("anchored", 7)


@pytest.mark.parametrize(
    ("environ", "text"),
    (
        (
            {"HEADWAY_POLCY": "rolling"},
            "unknown setting HEADWAY_POLCY; did you mean HEADWAY_POLICY",
        ),
        ({"SYNC_BATCH_SIZE": "eleven"}, "setting SYNC_BATCH_SIZE"),
        ({"SYNC_BATCH_SIZE": "11"}, "setting SYNC_BATCH_SIZE"),
        ({"HEADWAY_POLICY": "sometimes"}, "setting HEADWAY_POLICY"),
        ({"HEADWAY_LOCATIONS": "Dallas"}, "setting HEADWAY_LOCATIONS"),
        ({"HEADWAY_LOCATIONS": "Miami FL="}, "setting HEADWAY_LOCATIONS"),
        ({"HEADWAY_LOCATIONS": "Miami FL=A,Miami FL=B"}, "setting HEADWAY_LOCATIONS"),
        ({"HEADWAY_CURRENCY": "dollars"}, "setting HEADWAY_CURRENCY"),
        ({"HEADWAY_WEB_PORT": "70000"}, "setting HEADWAY_WEB_PORT"),
        ({"HEADWAY_DESCRIPTION_TEMPLATE": "{nmae}"}, "unknown placeholder {nmae}; known: {name}"),
        ({"HEADWAY_TRUSTED_PROXIES": "*"}, "'*' is no address or network"),
        ({"HEADWAY_TRUSTED_PROXIES": "10.0.0.7/8"}, "setting HEADWAY_TRUSTED_PROXIES"),
        ({"HEADWAY_TRUSTED_PROXIES": "10.0.0.7,proxy"}, "'proxy' is no address"),
        ({"HEADWAY_MISSING_CONFIRMATIONS": "6"}, "must not exceed SYNC_MAX_CONSECUTIVE_FAILURES"),
    ),
)
def test_a_wrong_setting_is_named_in_one_line(environ: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(environ, file=NOWHERE)
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", ("NOT = toml = at all", "HEADWAY_NONSENSE = 1"))
def test_a_wrong_file_is_named_in_one_line(tmp_path: Path, content: str) -> None:
    file = tmp_path / "headway.toml"
    file.write_text(content)
    with pytest.raises(ConfigError, match=r"headway\.toml: ") as caught:
        load({}, file=file)
    assert "\n" not in str(caught.value)


def test_an_empty_setting_counts_as_unset() -> None:
    empty = {
        "HEADWAY_DATA_DIR": "",
        "DATABASE_URL": "",
        "HEADWAY_CONFIG": "",
        "SYNC_BATCH_SIZE": "",
    }
    assert load(empty, file=NOWHERE) == Settings()


def test_a_missing_configuration_file_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"HEADWAY_CONFIG points to /nonexistent/headway\.toml"):
        load({"HEADWAY_CONFIG": str(NOWHERE)})


def test_locations_are_read_from_the_environment() -> None:
    settings = load({"HEADWAY_LOCATIONS": "Dallas Central=Shop A, Miami FL=Shop B"}, file=NOWHERE)
    assert settings.locations == {"Dallas Central": "Shop A", "Miami FL": "Shop B"}


def test_a_currency_in_lower_case_is_accepted() -> None:
    assert load({"HEADWAY_CURRENCY": " usd"}, file=NOWHERE).currency == "USD"


def test_secrets_do_not_show_in_the_settings() -> None:
    secret = "hunter2"
    settings = load(
        {"HEADWAY_BOEING_PASSWORD": secret, "DATABASE_URL": f"postgresql://u:{secret}@h/d"},
        file=NOWHERE,
    )
    assert secret not in repr(settings)
    assert secret not in str(settings.model_dump())


def test_settings_are_frozen() -> None:
    with pytest.raises(ValueError, match="frozen"):
        load({}, file=NOWHERE).batch_size = 3  # type: ignore[misc]


def test_every_setting_is_described() -> None:
    assert all(field.description for field in Settings.model_fields.values())


DOCUMENTS = Path(__file__).parent / "documents"
PLAN_V2 = {
    "SYNC_BOEING_RATE_LIMIT_TOKENS": "3",
    "SYNC_BOEING_RATE_LIMIT_REFILL": "20",
    "SYNC_BATCH_SIZE": "8",
    "SYNC_BOEING_BATCH_SIZE": "8",
    "SYNC_CATCHUP_INTERVAL_MINUTES": "15",
    "SYNC_CATCHUP_OVERDUE_THRESHOLD": "30",
    "SYNC_CATCHUP_OVERDUE_THRESHOLD_MINUTES": "30",
    "SYNC_STUCK_THRESHOLD_MINUTES": "10",
    "SYNC_MAX_CONSECUTIVE_FAILURES": "4",
    "SYNC_BACKOFF_BASE_HOURS": "1",
    "SYNC_BACKOFF_MAX_HOURS": "12",
    "SYNC_DISPATCH_CONCURRENCY": "1",
    "SYNC_BOEING_CONCURRENCY": "1",
    "SYNC_SHOPIFY_CONCURRENCY": "4",
}


def test_the_fourteen_settings_of_the_documents_are_accepted_with_their_meaning() -> None:
    settings = load(PLAN_V2, file=NOWHERE)
    assert (settings.rate_limit, settings.rate_gap_s, settings.batch_size) == (3, 20, 8)
    assert (settings.failures_max, settings.backoff_base_h, settings.backoff_max_h) == (4, 1, 12)
    lines = replaced(PLAN_V2)
    assert len(lines) == 7, "one line for each that something else replaces"
    assert all(line.partition(": ")[0] in PLAN_V2 for line in lines)
    assert load({"SYNC_BOEING_BATCH_SIZE": "6"}, file=NOWHERE).batch_size == 6


@pytest.mark.parametrize(
    ("environ", "text"),
    (
        ({"SYNC_BATCH_SIZE": "10", "SYNC_BOEING_BATCH_SIZE": "5"}, "mean the same setting"),
        ({"SYNC_BOEING_BATCH_SIZE": "many"}, "setting SYNC_BATCH_SIZE"),
        ({"SYNC_STUCK_THRESHOLD_MINUTES": "ten"}, "SYNC_STUCK_THRESHOLD_MINUTES: 'ten' is not a"),
        ({"SYNC_SHOPIFY_CONCURENCY": "4"}, "unknown setting SYNC_SHOPIFY_CONCURENCY"),
    ),
)
def test_a_mistyped_setting_of_the_documents_is_named(environ: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        load(environ, file=NOWHERE)


def test_the_documents_env_file_is_read_and_the_environment_wins_over_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".env").write_text((DOCUMENTS / "plan_v2.env").read_text() + "UNRELATED=$x\n")
    (tmp_path / "headway.toml").write_text("SYNC_BACKOFF_BASE_HOURS = 9\nSYNC_BATCH_SIZE = 9\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SYNC_BACKOFF_MAX_HOURS", "20")
    settings = load()
    assert settings.database_url is not None
    assert settings.database_url.get_secret_value() == "postgresql://user:pass@host:5432/db"
    assert (settings.batch_size, settings.backoff_base_h, settings.backoff_max_h) == (10, 2, 20)
