"""Requests of customers about their data: by when they are answered, and when that is urgent."""

from datetime import timedelta

# The terms of platforms, and most laws, give a month.
ANSWER_WITHIN = timedelta(days=30)
