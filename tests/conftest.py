"""Settings for all tests."""

from hypothesis import settings

# A test never depends on how long something takes, so neither does a property.
settings.register_profile("sapwood", deadline=None)
settings.load_profile("sapwood")
