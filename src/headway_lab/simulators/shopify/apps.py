"""Apps that the simulated platform knows."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class AppSecret:
    """What the platform knows an app by."""

    client_id: str = "sim-app"
    client_secret: str = field(default="sim-app-secret", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnApp(AppSecret):
    """An app of the Dev Dashboard: of the shop's own organization, and installed there, or not."""

    client_id: str = "own-app"
    client_secret: str = field(default="own-app-secret", repr=False)
    life_s: float = 86_399.0
    is_installed: bool = True
    is_in_organization: bool = True
