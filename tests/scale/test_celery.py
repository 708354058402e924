"""Celery alone: a broker that loses messages or crashes, workers that crash, and ticks by beat."""

import base64
import json
import os
import platform
import re
import signal
import subprocess
import sys
import threading
from decimal import Decimal
from urllib.request import urlopen

from tests.scale.deployment import Deployment
from tests.scale.storm import expire_leases_of
from tests.scale.workers import PATIENCE_S, ProcessGroup

from headway.app.dispatch import dispatch_rule, new_tick_loop
from headway.config import load
from headway.core.dispatch import DispatchLease
from headway.runners.celery_app import KEY_PREFIX, make_celery
from headway.runners.celery_runner import send_by
from headway.runners.valkey import EmbeddedValkey

PARTS = tuple(f"P{number}" for number in range(12))
OLD, NEW = Decimal("11.00"), Decimal("22.00")


def shows(deployment: Deployment, price: Decimal, *skus: str) -> bool:
    return all(deployment.price("acme", sku) == price for sku in skus)


def reprice(deployment: Deployment, price: str) -> None:
    for sku in PARTS:
        deployment.catalog.stock(sku, price)
    deployment.do("UPDATE product_sync_schedule SET next_sync_at = now(), priority = 'manual'")


def counted(group: ProcessGroup, verb: str) -> float:
    """Return the number of answered calls in the workers' metrics."""
    total = 0.0
    for line in group.output:
        if line.startswith("Metrics: "):
            with urlopen(line.removeprefix("Metrics: ")) as answer:
                text = answer.read().decode()
            calls = rf'^headway_calls_total{{ended="answered",.*verb="{verb}"}} (\S+)'
            total += sum(float(figure) for figure in re.findall(calls, text, re.MULTILINE))
    return total


def test_a_broker_that_forgets_everything_loses_nothing(
    celery_group: ProcessGroup, deployment: Deployment, valkey: EmbeddedValkey
) -> None:
    celery_group.environ = {**celery_group.environ, "HEADWAY_METRICS_PORT": "0"}
    deployment.add_seller("acme", *PARTS)
    celery_group.start("worker")
    celery_group.start("worker")
    celery_group.until_output("push: ")
    with valkey.client() as client:
        client.flushall()
    celery_group.until(lambda: shows(deployment, OLD, *PARTS))
    with valkey.client() as client:
        client.flushall()
    reprice(deployment, "20")
    celery_group.until(lambda: shows(deployment, NEW, *PARTS))
    assert deployment.refusals == [0, 0, 0, 0]
    assert counted(celery_group, "fetch") >= 4, "two tokens, and two prices of twelve parts"
    assert counted(celery_group, "push") >= 2


def test_a_broker_crash_is_reported_and_work_resumes_when_it_is_back(
    celery_group: ProcessGroup, deployment: Deployment, valkey: EmbeddedValkey
) -> None:
    celery_group.start("worker")
    celery_group.until_output("Headway works as")
    valkey.kill()
    deployment.add_seller("acme", *PARTS)
    message = celery_group.until_output("the broker of HEADWAY_BROKER_URL cannot be used")
    assert message.startswith("tick: ")
    valkey.start()
    celery_group.until(lambda: shows(deployment, OLD, *PARTS))
    secret = valkey.url.partition("@")[0].rpartition(":")[2]
    assert not any(secret in line for line in celery_group.output)


def test_a_worker_that_is_killed_is_replaced_by_the_others_its_tick_too(
    celery_group: ProcessGroup, deployment: Deployment
) -> None:
    deployment.add_seller("acme", *PARTS)
    first = celery_group.start("worker")
    celery_group.until_output("push: ")
    celery_group.start("worker")
    first.kill()
    assert first.wait(PATIENCE_S) == -signal.SIGKILL
    expire_leases_of(deployment, f"{platform.node()}:{first.pid}")
    celery_group.until(lambda: shows(deployment, OLD, *PARTS))
    assert deployment.refusals == [0, 0, 0, 0]
    celery_group.processes.remove(first)


def test_a_message_is_json_and_names_only_the_subject_and_its_fence(
    deployment: Deployment, valkey: EmbeddedValkey
) -> None:
    deployment.add_seller("acme", "P0")
    settings = load({**deployment.environ, "HEADWAY_BROKER_URL": valkey.url})
    celery, sent = make_celery(settings), list[DispatchLease]()

    def send(dispatch_lease: DispatchLease, *_: object) -> None:
        sent.append(dispatch_lease)
        send_by(celery, dispatch_lease, 0)

    new_tick_loop(deployment.app, send=send, rule=dispatch_rule(deployment.app)).round()
    with valkey.client() as client:
        queues = {"fetch.boeing", "push.shopify", "pull.shopify"}
        waiting = {queue: client.lrange(f"{KEY_PREFIX}{queue}", 0, -1) for queue in queues}
    sent_messages = [json.loads(message) for messages in waiting.values() for message in messages]
    assert {message["content-type"] for message in sent_messages} == {"application/json"}
    arguments = [json.loads(base64.b64decode(message["body"]))[0] for message in sent_messages]
    assert sorted(arguments) == sorted([message.subject.name, message.fence] for message in sent)
    assert waiting["fetch.boeing"]
    assert waiting["push.shopify"]


def logged(group: ProcessGroup, step: str) -> list[dict[str, str]]:
    """Return the JSON log lines of a step that belong to a call."""
    lines = [json.loads(line) for line in group.output if not line.startswith("[")]
    return [line for line in lines if line.get("step") == step and "call" in line]


def test_beat_may_tick_instead_of_the_workers_and_logs_may_be_json(
    celery_group: ProcessGroup, deployment: Deployment
) -> None:
    chosen = {"HEADWAY_TICKS": "beat", "HEADWAY_LOG_FORMAT": "json"}
    celery_group.environ = {**celery_group.environ, **chosen}
    deployment.add_seller("acme", *PARTS)
    celery_group.start("worker", "--concurrency", "2")
    celery_group.until_output("2 steps at once")
    assert deployment.one("SELECT count(*) FROM dispatch_leases") == 0
    beat = subprocess.Popen(
        [sys.executable, "-m", "celery", "-A", "headway", "beat", "-s", "plan"],
        env={**os.environ, **celery_group.environ},
        cwd=deployment.environ["HEADWAY_DATA_DIR"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        celery_group.until(lambda: shows(deployment, OLD, *PARTS))
    finally:
        beat.terminate()
        beat.wait(PATIENCE_S)
    assert not deployment.one("SELECT count(*) FROM dispatch_leases WHERE verb = 'tick'")
    calls = deployment.one("SELECT array_agg(permit_id::text) FROM call_ledger")
    fetches, pushes = logged(celery_group, "fetch"), logged(celery_group, "push")
    assert {fetch["call"] for fetch in [*fetches, *pushes]} <= set(calls)
    assert {fetch.get("seller") for fetch in fetches} == {None}
    assert {push.get("seller") for push in pushes} == {"acme"}


def celery(*arguments: str, **environ: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "celery", "-A", "headway", *arguments],
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def heard(broker_url: str) -> str:
    """Return the name of a worker whose event arrives, as Flower receives it."""
    names: list[str] = []
    app = make_celery(load({"HEADWAY_BROKER_URL": broker_url}))

    def note(event: dict[str, str]) -> None:
        names.append(event["hostname"])
        receiver.should_stop = True

    with app.connection_for_read() as connection:
        receiver = app.events.Receiver(connection, handlers={"*": note})
        receiver.capture(timeout=PATIENCE_S, wakeup=True)
    return names[0].partition("@")[0]


def test_celerys_own_commands_start_a_worker_and_see_it(
    celery_group: ProcessGroup, deployment: Deployment
) -> None:
    environ = {**celery_group.environ, "HEADWAY_CELERY_CONTROL": "true"}
    deployment.add_seller("acme", *PARTS)
    queues = "tick,fetch.boeing,push.shopify"
    output, child = os.pipe()
    with subprocess.Popen(
        [sys.executable, "-m", "celery", "-A", "headway", "worker", "-Q", queues, "-c", "2",
         "--hostname", "boeing_sync@%h"],
        env={**os.environ, **environ},
        stdout=child,
        stderr=child,
    ) as worker:  # fmt: skip
        os.close(child)
        threading.Thread(target=celery_group._read, args=(worker, output), daemon=True).start()
        try:
            celery_group.until(lambda: shows(deployment, OLD, *PARTS))
            assert "pong" in celery("inspect", "ping", **environ).stdout
            registered = celery("inspect", "registered", **environ).stdout
            assert {"headway.fetch", "headway.push", "headway.pull", "headway.tick"} <= set(
                registered.split()
            )
            assert celery("inspect", "active", **environ).returncode == 0
            process = "SELECT count(*) FROM processes WHERE verb = 'worker'"
            assert deployment.one(process) == 1, "it reports itself like any worker"
            seen = heard(environ["HEADWAY_BROKER_URL"])
            assert seen == "boeing_sync", "Flower reads its heartbeats"
        finally:
            worker.terminate()
            assert worker.wait(PATIENCE_S) == 0
    assert not deployment.one("SELECT count(*) FROM processes WHERE verb = 'worker'")
    assert not deployment.one("SELECT count(*) FROM product_sync_schedule WHERE lease_owner <> ''")
