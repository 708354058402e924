"""`headway demo`: everything on the embedded database, in one process or several, on a fast clock.

It stops what it started, in reverse order: on Ctrl-C, on SIGTERM, and when a part fails to start.
The database is created again each time, because the demo's time starts again.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from headway.cli.console import CommandConsole
from headway.clock import ScaledClock, SystemClock
from headway.core.timetable.policies import POLICIES

if TYPE_CHECKING:
    import httpx

    from headway.app import App
    from headway.config import Settings
    from headway.runners.embedded import EmbeddedRunner
    from headway.runners.worker_processes import WorkerProcesses
    from headway.store.server.embedded import EmbeddedServer
    from headway_lab.demo.world import DemoWorld

if TYPE_CHECKING:
    from psycopg_pool import ConnectionPool as Pool

    from headway.runners.valkey import EmbeddedValkey

DATABASE = "demo"
# A crash of the machine may lose the last moments, never the database; and a demo has no past.
SERVER = {"synchronous_commit": "off"}
TICK_S = 0.5
STOP_S = 1.0
TELL_S = 2.0
# In a rehearsal a person reads a report, and prices should not change under their eyes.
SPEED, SLOW = 60, 2
SPEED_MAX, PRODUCTS_MAX, WORKERS_MAX = 2000, 20_000, 8
# Settings of workers whose output we read.
OUTPUT_SETTINGS = {"PYTHONUNBUFFERED": "1", "HEADWAY_LOG_FORMAT": "text"}
# Each worker's; all of them need connections to one small database.
STEPS_AT_ONCE = 4
EXAMPLES = """Examples:

headway demo --speed 300 --products 2000 --port 0

headway demo --workers 3

headway demo --rehearsal --products 60

headway demo --lane account
"""
# A merchant's edit is repaired while you watch: within a real minute, or as soon as the shops'
# points allow.
DRIFT_CHECK_PACE = 130_000


def _known_policy(name: str | None) -> str | None:
    if name is not None and name not in POLICIES:
        raise typer.BadParameter(f"{name} is not known; known: {', '.join(POLICIES)}")
    return name


Speed = Annotated[
    float | None,
    typer.Option(
        min=1,
        max=SPEED_MAX,
        help=f"How many times faster than real time: {SPEED}, or {SLOW} with --rehearsal.",
    ),
]
Products = Annotated[
    int, typer.Option(min=1, max=PRODUCTS_MAX, help="How many parts the sellers list.")
]
Port = Annotated[
    int | None, typer.Option(min=0, max=65535, help="Port of the page; 0 takes a free one.")
]
PolicyName = Annotated[
    str | None,
    typer.Option(
        callback=_known_policy, help="When a part is due; by default the policy of the settings."
    ),
]
Workers = Annotated[
    int,
    typer.Option(
        min=0,
        max=WORKERS_MAX,
        help="Run this many worker processes, on a Valkey of their own.",
    ),
]
Lane = Annotated[
    Literal["catalog", "account"] | None,
    typer.Option(
        help="Only one lane: catalog (a supplier and shops) or account (accounts, no supplier)."
    ),
]
Rehearsal = Annotated[
    bool,
    typer.Option(
        "--rehearsal", help="Let the shops be in rehearsal, with their merchants' own prices."
    ),
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("demo", epilog=EXAMPLES)(demo)


def demo(
    *,
    speed: Speed = None,
    products: Products = 500,
    port: Port = None,
    seed: Annotated[
        int, typer.Option(help="Seed of the simulated world; the same seed gives the same world.")
    ] = 1,
    policy: PolicyName = None,
    workers: Workers = 0,
    rehearsal: Rehearsal = False,
    lane: Lane = None,
) -> None:
    """Run everything in one process, faster than real time.

    A simulated supplier and three sellers with shops on Shopify, Etsy and Printify over real HTTP,
    the engine, an embedded database and the page. Ctrl-C ends it and leaves nothing running. With
    --workers it is scaled out on this machine: headway worker processes do the engine's work.
    With --rehearsal nothing is written to the shops until you start them: headway rehearse acme.
    """
    from headway import config
    from headway.cli.run import POOL_SIZE
    from headway.cli.serving import join, login_link, show_line, stoppable
    from headway.store.server.embedded import EmbeddedServer
    from headway.web.server import address, listen
    from headway_lab.demo.world import CATALOG, LANES

    speed = speed or (SLOW if rehearsal else SPEED)
    settings = _settings(config.load(), port=port, policy=policy, products=products, speed=speed)
    lanes = LANES if lane is None else (lane,)
    if CATALOG not in lanes:
        settings = _without_supplier(settings)
    console = CommandConsole(settings)
    valkey = _valkey(settings) if workers else None
    with contextlib.suppress(KeyboardInterrupt), stoppable(), ExitStack() as stack:
        stack.enter_context(console.log.library_warnings())
        taken = stack.enter_context(listen(settings.web_host, settings.web_port))
        _keep_private(settings.data_dir.parent)
        server = stack.enter_context(
            EmbeddedServer(settings.data_dir, clock=SystemClock(), settings=SERVER)
        )
        # From here on commands in other terminals find the demo and wait for it.
        console.say(f"Headway demo, {speed:g} times faster than real time.")
        if valkey is not None:
            settings = _with_broker(stack, settings, valkey)
        pool = stack.enter_context(_fresh_pool(server, POOL_SIZE + settings.pull_workers))
        clock, demo_world = _past(
            settings,
            pool,
            console,
            products=products,
            seed=seed,
            speed=speed,
            rehearses=rehearsal,
            lanes=lanes,
        )
        app = _application(stack, settings, pool, demo_world, clock)
        _announce(stack, server, app, demo_world, page=address(taken))
        join(stack, app, "api" if workers else "run", console)
        stack.callback(lambda: console.say(demo_world.verdict))
        runner = _play(stack, app, demo_world, seed, lanes)
        page = login_link(app, taken)
        _say_addresses(console, app, page)
        if CATALOG in lanes:
            _say_what_to_try(console, app, speed=speed, rehearses=rehearsal)
        processes = _start_workers(stack, app, workers, console)
        if not workers:
            _work(runner, app, speed)
        show_line(stack, app, runner, taken, console, page=page, speed=speed, crew=processes)
    console.say("The demo has ended; nothing is left running.")


def _settings(
    settings: Settings, *, port: int | None, policy: str | None, products: int, speed: float
) -> Settings:
    """Return the demo's settings: its own folder, supplier and shops; the rest unchanged."""
    from pydantic import SecretStr

    from headway_lab.demo.accounts import ACCOUNT_SETTINGS
    from headway_lab.demo.world import SIGN_IN

    changes: dict[str, object] = {
        "data_dir": settings.data_dir.expanduser() / "demo",
        "boeing_client_id": SIGN_IN.client_id,
        "boeing_client_secret": SecretStr(SIGN_IN.client_secret),
        "boeing_username": SIGN_IN.username,
        "boeing_password": SecretStr(SIGN_IN.password),
        "boeing_url": "http://127.0.0.1",
        "shopify_url": "http://127.0.0.1/{shop}",
        "shopify_client_id": "",
        **ACCOUNT_SETTINGS,
        "drift_check_h": max(min(1.0, speed / SPEED), products * speed / DRIFT_CHECK_PACE),
    }
    if "guard_share" not in settings.model_fields_set:
        # A quarter of the demo's prices change within a day, which would all be held.
        changes["guard_share"] = Decimal("0.75")
    if port is not None:
        changes["web_port"] = port
    if policy is not None:
        changes["policy"] = policy
    return settings.model_copy(update=changes)


def _without_supplier(settings: Settings) -> Settings:
    """Return the settings of a deployment that only reads accounts."""
    from pydantic import SecretStr

    none = SecretStr("")
    login = {"boeing_client_id": "", "boeing_username": ""}
    secrets = {"boeing_client_secret": none, "boeing_password": none}
    return settings.model_copy(update=login | secrets)


def _keep_private(folder: Path) -> None:
    """Make the folder that the demo's lies in, so that `doctor` finds it as `run` leaves it."""
    with contextlib.suppress(OSError):  # the server finds the same problem and says what to do
        folder.mkdir(mode=0o711, parents=True, exist_ok=True)


@contextmanager
def _fresh_pool(server: EmbeddedServer, size: int) -> Iterator[Pool]:
    """Open an empty database: the demo's time starts again, so its past must too."""
    from headway.store.migrate import upgrade
    from headway.store.pool import open_pool

    server.drop_database(DATABASE)
    server.ensure_database(DATABASE)
    with open_pool(server.dsn(DATABASE), size=size) as pool:
        upgrade(pool, SystemClock())
        yield pool


def _past(
    settings: Settings,
    pool: Pool,
    console: CommandConsole,
    *,
    products: int,
    seed: int,
    speed: float,
    rehearses: bool,
    lanes: Collection[str],
) -> tuple[ScaledClock, DemoWorld]:
    """Simulate the past on virtual time; return the clock that continues from there."""
    from headway.app import build
    from headway_lab.demo.accounts import platform_transport
    from headway_lab.demo.world import PAST_H, SIGN_IN, open_world, past_settings, simulate_past
    from headway_lab.simulators.transport import SimTransport
    from headway_lab.virtual_clock import VirtualClock

    start = SystemClock().now().replace(second=0, microsecond=0)
    virtual = VirtualClock(start - timedelta(hours=PAST_H))
    demo_world = open_world(
        virtual,
        settings,
        products=products,
        seed=seed,
        sign_in=SIGN_IN,
        speed=speed,
        rehearses=rehearses,
    )
    app = build(
        past_settings(settings, products=products),
        virtual,
        pool,
        transport=SimTransport(demo_world.supplier.handle, virtual, seed=seed),
        shop_transport=SimTransport(demo_world.demo_shops.shops.handle, virtual, seed=seed),
        platform_transport=platform_transport(demo_world.market, virtual, seed=seed),
    )
    app.adopt()
    with console.console.status("") as status:
        simulate_past(
            demo_world,
            virtual,
            app,
            progress=lambda share: status.update(
                f"Living through the past with {products:,} parts: {share:.0%}"
            ),
            lanes=lanes,
        )
    clock = ScaledClock(speed, start=start)
    demo_world.clock.switch_to(clock)
    return clock, demo_world


def _application(
    stack: ExitStack, settings: Settings, pool: Pool, demo_world: DemoWorld, clock: ScaledClock
) -> App:
    """Serve supplier and shops over real HTTP and put the application together against them."""
    from headway.cli.speed import build_fast
    from headway_lab.simulators.transport import serve

    supplier = stack.enter_context(serve(demo_world.supplier.handle, clock))
    shops = stack.enter_context(serve(demo_world.demo_shops.window.handle, clock))
    etsy = stack.enter_context(serve(demo_world.market.etsy.handle, clock))
    printify = stack.enter_context(serve(demo_world.market.printify.handle, clock))
    # Sockets use real seconds: a request may take as many of those as ever.
    more = max(1.0, clock.speed)
    changes = {
        "boeing_url": supplier.url,
        "boeing_timeout_s": settings.boeing_timeout_s * more,
        "shopify_url": f"{shops.url}/{{shop}}",
        "shopify_timeout_s": settings.shopify_timeout_s * more,
        "etsy_url": etsy.url,
        "printify_url": printify.url,
        "platform_timeout_s": settings.platform_timeout_s * more,
    }
    return build_fast(stack, settings.model_copy(update=changes), clock, pool)


def _announce(
    stack: ExitStack,
    server: EmbeddedServer,
    app: App,
    demo_world: DemoWorld,
    *,
    page: str,
) -> None:
    """Let other commands join the demo, and platforms send their webhooks to it."""
    from headway.cli.session import note_of
    from headway_lab.demo.accounts import post_to

    clock = app.clock
    assert isinstance(clock, ScaledClock), "a demo's clock runs faster"
    note = {"database": DATABASE, "page": page}
    server.announce(note_of(app.settings, clock) | note)
    client = stack.enter_context(_client())
    demo_world.trade.send_webhooks_with(post_to(page, client), clock)


def _say_addresses(console: CommandConsole, app: App, page: str) -> None:
    from headway_lab.demo.shops import SELLERS, domain_of

    console.say(f"The page: {page}")
    window = app.settings.shopify_url.format(shop=domain_of(SELLERS[0]))
    console.say(f"The shops as customers see them: {window}/products")


def _say_what_to_try(console: CommandConsole, app: App, *, speed: float, rehearses: bool) -> None:
    from headway_lab.demo.shops import SELLERS

    if rehearses:
        console.say(
            "The shops are in rehearsal: Headway reads them and writes nothing."
            f" In another terminal: headway rehearse {SELLERS[0]}"
        )
        return
    minutes = math.ceil(app.settings.drift_check_h * 60 / speed)
    console.say(
        "  Buy a part there, or unpublish one by hand: Headway's drift check publishes it again"
        f" within {minutes} min."
    )
    console.say(
        "These shops are already started. A shop of yours is not written until you start it."
    )


def _client() -> httpx.Client:
    """Return the client for webhooks: requests to our own address, without a proxy."""
    import httpx

    return httpx.Client(timeout=TELL_S, trust_env=False)


def _play(
    stack: ExitStack, app: App, demo_world: DemoWorld, seed: int, lanes: Collection[str]
) -> EmbeddedRunner:
    """Run the world and its people, each in a thread."""
    from headway.runners.embedded import EmbeddedRunner
    from headway_lab.demo.shops import DemoPeople
    from headway_lab.demo.world import ACCOUNTS, CATALOG

    runner = EmbeddedRunner(app.clock)
    stack.callback(runner.stop, STOP_S)
    if CATALOG in lanes:
        people = DemoPeople(app, demo_world.demo_shops, seed=seed)
        runner.start(world=demo_world.catalog.step, people=people.step)
    if ACCOUNTS in lanes:
        runner.start(trade=demo_world.trade.step)
    return runner


def _work(runner: EmbeddedRunner, app: App, speed: float) -> None:
    """Run the engine too."""
    from headway.app.monitoring import alert_monitor
    from headway.app.suppliers import fetch_all_suppliers
    from headway.app.webhooks import deliver_steps
    from headway.engine.rules import TICK_EVERY

    bell, every = app.clock.event(), max(TICK_EVERY, timedelta(seconds=TICK_S * speed))
    runner.start(
        bells={"push": bell},
        tick=replace(app, tick_every=every).tick(watch=alert_monitor(app)).step,
        fetch=fetch_all_suppliers(app, "demo", wake_push=bell.set).step,
        push=app.push("demo").step,
        **deliver_steps(app, "demo"),
        **{
            f"pull-{number}": app.pull(f"demo:{number}").step
            for number in range(1, app.settings.pull_workers + 1)
        },
    )


def _valkey(settings: Settings) -> EmbeddedValkey:
    """Make a broker, not started yet; raises ConfigError where its parts are not installed."""
    from headway.cli.worker import require_scale

    require_scale("headway demo --workers")
    from headway.runners.valkey import EmbeddedValkey

    return EmbeddedValkey(settings.data_dir / "valkey", clock=SystemClock(), keeps=False)


def _with_broker(stack: ExitStack, settings: Settings, valkey: EmbeddedValkey) -> Settings:
    """Run a broker as long as the demo lasts, with nothing on it of another demo."""
    from pydantic import SecretStr

    stack.enter_context(valkey)
    return settings.model_copy(update={"broker_url": SecretStr(valkey.url), "ticks": "workers"})


def _start_workers(
    stack: ExitStack, app: App, count: int, console: CommandConsole
) -> WorkerProcesses:
    """Start worker processes that do the engine's work; they join through the demo's folder."""
    from headway.runners.worker_processes import WorkerProcesses

    def send(name: str, text: str) -> None:
        if not console.is_watched:  # there the view shows it
            console.say(f"{name} | {text}")

    # Where they find the demo, regardless of other settings in the environment.
    place = {"HEADWAY_DATA_DIR": str(app.settings.data_dir.resolve()), "DATABASE_URL": ""}
    workers = WorkerProcesses(
        count,
        options=("--concurrency", str(STEPS_AT_ONCE)),
        environ={**os.environ, "HEADWAY_SERVER": "", **OUTPUT_SETTINGS, **place},
        report=send,
    )
    stack.callback(workers.stop)
    workers.start()
    return workers
