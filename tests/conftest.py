"""Every day the same examples, so that a test that was green stays so; new ones, and more of them, are tried by
``make test ARGS='--hypothesis-profile=thorough'`` and ``make fuzz``.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("thorough", deadline=None, max_examples=1000)
settings.register_profile(
    "daily", deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
settings.load_profile("daily")
