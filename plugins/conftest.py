"""What every plugin's tests share here: surroundings of their own, as the core's have."""

from surroundings import own_surroundings

__all__ = ["own_surroundings"]
