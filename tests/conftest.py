"""Hypothesis does its full number of examples under ``--hypothesis-profile=thorough``; every day it does fewer."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("thorough", deadline=None, max_examples=1000)
settings.register_profile(
    "daily", deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow], derandomize=False
)
settings.load_profile("daily")
