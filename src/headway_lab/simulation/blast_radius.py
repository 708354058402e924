"""Law L16 in the catalog lane: a part that spoils its calls makes no other part old.

Parts that shared a call with a culprit are compared with all others of the same run: their data is
never more than twice as old as the oldest data of those. At the end every culprit must be named by
an alert, which the status lists, and by `explain`.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from headway.app import App
from headway.app.monitoring import alert_metrics_now
from headway.app.supplier_queue import supplier_queue
from headway.core.catalog.listings import Sku
from headway.core.monitoring.alerts import NAMES_SHOWN
from headway.core.monitoring.rules import current_alerts
from headway.engine.explain import in_shop, reasons
from headway.store.pauses import Pauses
from headway.store.timetable.positions import ListingPositions
from headway_lab.simulation.violation_log import ViolationLog

AGE_FACTOR = 2.0
# In a small world a few minutes may be many times the usual age.
AGE_MIN_S = 3600.0


class Bystanders:
    """Follows how old the data of each part became, and which were in a call with a culprit."""

    def __init__(
        self, violations: ViolationLog, culprits: Collection[str], skus: Mapping[str, Sku]
    ) -> None:
        self._violations = violations
        self._culprits = frozenset(culprits)
        self._skus = skus
        self._read_s = dict.fromkeys(skus, 0.0)
        self._worst_s = dict.fromkeys(skus, 0.0)
        self._hit: set[str] = set()
        if culprits:
            violations.enable(("L16",))

    def called(self, skus: Sequence[str]) -> None:
        """Note who shares a call with a culprit."""
        if self._culprits.intersection(skus):
            self._hit.update(skus)

    def read(self, id_: str, at_s: float) -> None:
        """Note a good read."""
        self._worst_s[id_] = max(self._worst_s[id_], at_s - self._read_s[id_])
        self._read_s[id_] = max(self._read_s[id_], at_s)

    def close(self, now_s: float, counted: Iterable[str]) -> None:
        """Compare those who were hit with the others; `counted` have no fault of their own."""
        if not self._culprits:
            return
        ages_s = {id_: max(self._worst_s[id_], now_s - self._read_s[id_]) for id_ in counted}
        hit = {id_: age_s for id_, age_s in ages_s.items() if self._skus[id_] in self._hit}
        usual_s = max((age_s for id_, age_s in ages_s.items() if id_ not in hit), default=0.0)
        limit_s = max(AGE_MIN_S, AGE_FACTOR * usual_s)
        for id_, age_s in hit.items():
            if age_s > limit_s and usual_s > 0:
                text = f"was {age_s / 3600:.2f} h old, and others {usual_s / 3600:.2f} h at most"
                self._violations.add("L16", f"{self._skus[id_]} {text}")


def check_named(app: App, skus: Collection[Sku], violations: ViolationLog) -> list[dict[str, str]]:
    """Check that every culprit in trouble is named; return what alert and explain say of each.

    An alert names the first few of its kind, and the status lists all alerts.
    """
    now = app.clock.now()
    metrics = alert_metrics_now(app, now, pauses=Pauses(app.pool).active(now))
    sentences = [alert.sentence for alert in current_alerts(metrics, app.settings.alert_thresholds)]
    queue, named = supplier_queue(app, now), []
    for sku in sorted(skus):
        for position in ListingPositions(app.pool).of_sku(sku, now):
            error = position.push_error or position.last_error
            if not error:
                continue
            alert = next((text for text in sentences if f"{sku} of {position.user_id}" in text), "")
            answer = reasons(position, queue, now).sentence, in_shop(position, now)
            explain = next((text for text in answer if error in text), "")
            named.append({"sku": sku, "alert": alert, "explain": explain})
            if not explain:
                violations.add("L16", f"explain does not say what is wrong with {sku}")
    unnamed = [culprit["sku"] for culprit in named if not culprit["alert"]]
    if unnamed and len(named) <= NAMES_SHOWN:
        violations.add("L16", f"no alert names {', '.join(unnamed)}")
    return named
