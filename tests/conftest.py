"""What holds for every test of the house."""

import hypothesis

# Deadlines, and the check that inputs come fast enough, are assertions on wall time: on a busy
# machine they fail for nothing. A failure prints what replays it.
hypothesis.settings.register_profile(
    "house",
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
    print_blob=True,
)
hypothesis.settings.load_profile("house")
