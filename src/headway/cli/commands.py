"""The table of commands: by subject, where each lives, and its first line of help."""

# Panel of the help → name → module and summary, so that `--help` need not import the module.
PANELS = {
    "Start": {
        "demo": (
            "headway_lab.demo.command",
            "Run everything in one process, faster than real time.",
        ),
        "run": ("headway.cli.run", "Keep shops and accounts up to date, until Ctrl-C."),
        "worker": (
            "headway.cli.worker",
            "Run one of any number of workers, until Ctrl-C or SIGTERM.",
        ),
        "api": ("headway.cli.api", "Serve only the API and the page, until Ctrl-C."),
    },
    "Look": {
        "status": (
            "headway.cli.status",
            "Show the next call, the budget, how fresh the shop is, and what is wrong.",
        ),
        "parts": ("headway.cli.parts", "List parts, or find them by a piece of their text."),
        "history": (
            "headway.cli.parts",
            "Show what happened to a part: its price, stock and calls over time.",
        ),
        "explain": (
            "headway.cli.status",
            "Explain why a part or a job waits, until when, and its place in the queue.",
        ),
        "jobs": ("headway.cli.jobs", "Show the next jobs in order, and what blocks each of them."),
        "quota": (
            "headway.cli.jobs",
            "Show how much of each platform's daily quota is used, by hour, with a forecast.",
        ),
        "limits": (
            "headway.cli.monitoring",
            "Show how much of each limit is used, or the calls of one limit.",
        ),
        "alerts": ("headway.cli.monitoring", "Show what is wrong now and needs a person."),
        "audit": ("headway.cli.monitoring", "Export every event as CSV or as lines of JSON."),
    },
    "Decide": {
        "held": ("headway.cli.held_changes", "List the changes that are held for a person."),
        "approve": ("headway.cli.held_changes", "Let held changes reach the shop."),
        "reject": (
            "headway.cli.held_changes",
            "Keep the shop's price; the same quote is not held again.",
        ),
        "rollback": ("headway.cli.held_changes", "Give parts the price they had at another time."),
        "revive": (
            "headway.cli.held_changes",
            "Restart parked or removed parts, on sale again, or dead jobs.",
        ),
        "remove": (
            "headway.cli.held_changes",
            "Remove parts that you no longer want, or mistyped.",
        ),
        "removals": (
            "headway.cli.removals",
            "Show removals of listings that are held, and decide about one.",
        ),
        "rehearse": (
            "headway.cli.rehearsals",
            "Show what Headway would write to a shop, and start the shop.",
        ),
    },
    "Act": {
        "trigger": ("headway.cli.pauses", "Read parts in the next call, before all others."),
        "pull": ("headway.cli.jobs", "Make a seller's jobs due now."),
        "pause": (
            "headway.cli.pauses",
            "Stop parts, a seller, suppliers or everything; or show what is paused.",
        ),
        "resume": ("headway.cli.pauses", "Resume what was paused."),
        "move": (
            "headway.cli.slots",
            "Give parts another slot of the day, or a priority in theirs.",
        ),
        "publish": (
            "headway.cli.publish",
            "Put parts into the shop, and publish them on its sales channels.",
        ),
        "import": (
            "headway.cli.imports",
            "Import parts that the shop already sells, from a file.",
        ),
        "backfill": ("headway.cli.imports", "Schedule every product that has no slot yet."),
    },
    "Sellers and shops": {
        "connect": (
            "headway.cli.shops",
            "Connect a seller to a shop, or give the shop a new token.",
        ),
        "disconnect": (
            "headway.cli.shops",
            "Stop reading and writing a seller's shop, and forget its tokens.",
        ),
        "shops": ("headway.cli.shops", "Show every seller's shop, and what waits to get there."),
        "group": (
            "headway.cli.shop_groups",
            "Show the shops of one owner with totals, or add a seller to them.",
        ),
        "terms": (
            "headway.cli.terms",
            "Show or set a seller's price rule, guard and sales channels.",
        ),
        "accounts": (
            "headway.cli.accounts",
            "List, show, pause, resync or disconnect accounts, or connect many from a file.",
        ),
        "records": (
            "headway.cli.records",
            "List records that were pulled from platforms, or export them as files.",
        ),
        "sellers": ("headway.cli.sellers", "Create, list or show sellers."),
        "tier": ("headway.cli.tiers", "Show or set a seller's tier."),
    },
    "Privacy": {
        "erase": (
            "headway.cli.erasures",
            "Erase a seller, an account or a customer for good, and prove it.",
        ),
        "privacy": (
            "headway.cli.privacy",
            "List customers' requests for their data, and answer them.",
        ),
    },
    "Suppliers and platforms": {
        "supplier": (
            "headway.cli.suppliers",
            "Add, list or remove suppliers, or choose a seller's supplier.",
        ),
        "probe": (
            "headway.cli.probe",
            "Ask a supplier for a few parts, and show the raw fields beside what Headway reads.",
        ),
        "record": (
            "headway.cli.recordings",
            "Record the replies of a shop or a supplier, without secrets and buyers.",
        ),
        "verify": (
            "headway.cli.recordings",
            "Read recorded replies as Headway reads real ones, without network and database.",
        ),
        "providers": (
            "headway.cli.providers",
            "List the suppliers, storefronts and platforms that Headway can talk to.",
        ),
        "webhook": (
            "headway.cli.webhook_endpoints",
            "Send events to your own addresses: add, test, replay.",
        ),
        "permit": (
            "headway.cli.permit",
            "Run a command of your own under a permit, so that it stays within the limit.",
        ),
    },
    "Plan and check": {
        "plan": (
            "headway.cli.plan",
            "Estimate whether a catalog fits the supplier's limit, and how old its data will be.",
        ),
        "simulate": (
            "headway_lab.simulation.command",
            "Run the real engine through days of virtual time.",
        ),
        "check": ("headway.cli.check", "Check the laws against the live database."),
        "doctor": ("headway.cli.doctor", "Check this installation and show what to fix."),
    },
    "Access and upkeep": {
        "key": (
            "headway.cli.keys",
            "Create, list or revoke keys, or create a link that logs a browser in once.",
        ),
        "sessions": (
            "headway.cli.sessions",
            "Show who is logged in at the page, or end their sessions.",
        ),
        "vault": (
            "headway.cli.vault",
            "Encrypt stored secrets with the newest key, or show which keys they need.",
        ),
        "adopt": (
            "headway.cli.adopt",
            "Take over a database that was made by one of the design documents.",
        ),
        "db": ("headway.cli.database", "Upgrade, downgrade or show the schema of the database."),
        "notify": (
            "headway.cli.notify",
            "Send a test message to everyone who receives alerts.",
        ),
        "completion": ("headway.cli.completion", "Print the completion script of a shell."),
        "docs": (
            "headway.cli.docs",
            "Serve the documentation with search on this machine, until Ctrl-C.",
        ),
    },
}
COMMANDS = {name: entry for commands in PANELS.values() for name, entry in commands.items()}
# Other names of commands, which the help does not list.
ALIASES = {"hold": "held"}
