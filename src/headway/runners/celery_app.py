"""The Celery application: queues by verb and provider, JSON only, nothing that outlives its use.

PostgreSQL is the queue of record. A message only asks a worker to check; one that is lost, late or
delivered twice changes nothing but the time of the check.
"""

from celery import Celery
from kombu import Queue
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

from headway.config import Settings
from headway.core.dispatch import STOREFRONT, SUPPLIER, Verb
from headway.errors import BrokerError, ConfigError
from headway.providers.registry import platforms

TICK_QUEUE = "tick"
QUEUES = (
    TICK_QUEUE,
    f"{Verb.FETCH}.{SUPPLIER}",
    f"{Verb.PUSH}.{STOREFRONT}",
    *(f"{Verb.PULL}.{platform}" for platform in platforms()),
)
# After this time Redis redelivers what was not acknowledged. No step lasts as long, no message
# waits as long for its time, and a redelivered message finds a dispatch lease with a new fence.
VISIBILITY_TIMEOUT_S = 600
SOCKET_TIMEOUT_S = 10
CONNECT_TIMEOUT_S = 5
BEAT_S = 1.0
# Two programs on one Redis must not read each other's messages.
KEY_PREFIX = "headway:"


def task_name(verb: Verb) -> str:
    """Return the name of a verb's task."""
    return f"headway.{verb}"


def make_celery(settings: Settings, *, connections: int = 10) -> Celery:
    """Make the application that workers, and `celery beat`, run; raises ConfigError."""
    if settings.broker_url is None:
        raise ConfigError(
            "HEADWAY_BROKER_URL is not set; write it as redis://:password@host:6379/0, or use"
            " headway run, which needs no broker"
        )
    celery = Celery("headway", broker=settings.broker_url.get_secret_value(), set_as_current=False)
    celery.conf.update(
        accept_content=["json"],
        task_serializer="json",
        task_ignore_result=True,
        task_acks_late=True,
        task_reject_on_worker_lost=True,
        task_publish_retry=False,
        task_queues=[Queue(name) for name in QUEUES],
        task_create_missing_queues=False,
        task_default_queue=TICK_QUEUE,
        worker_prefetch_multiplier=1,
        worker_pool="threads",
        worker_concurrency=settings.worker_concurrency,
        # Anyone with access to the broker can then stop workers by a message.
        worker_enable_remote_control=settings.celery_control,
        worker_send_task_events=settings.celery_control,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_pool_limit=connections,
        broker_transport_options={
            "visibility_timeout": VISIBILITY_TIMEOUT_S,
            "global_keyprefix": KEY_PREFIX,
            "socket_timeout": SOCKET_TIMEOUT_S,
            "socket_connect_timeout": CONNECT_TIMEOUT_S,
            "socket_keepalive": True,
        },
        beat_schedule={
            "tick": {
                "task": task_name(Verb.TICK),
                "schedule": BEAT_S,
                "options": {"queue": TICK_QUEUE, "expires": 10 * BEAT_S},
            }
        },
    )
    return celery


def check_broker(celery: Celery) -> None:
    """Raise BrokerError unless the broker answers."""
    try:
        with celery.connection_for_write() as connection:
            connection.connect()
    except (OperationalError, RedisError, OSError) as error:
        raise explained(error) from None  # the cause may hold the address with its password


def explained(error: Exception) -> BrokerError:
    """Return the error of the broker's client as one line."""
    text = str(error).strip().partition("\n")[0].rstrip(".") or type(error).__name__
    return BrokerError(f"the broker of HEADWAY_BROKER_URL cannot be used: {text}")
