"""Ticks by Celery's own beat, as an option: `celery -A headway.runners.beat beat`.

Set HEADWAY_TICKS=beat for the workers too, else they also tick, which is harmless.
"""

from headway import config
from headway.runners.celery_app import make_celery

app = make_celery(config.load())
