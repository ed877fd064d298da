"""Property tests that give the same verdict on a slow machine and on a quick one."""

from hypothesis import HealthCheck, settings

settings.register_profile("pdlab", deadline=None, derandomize=True,
                          suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("pdlab")
