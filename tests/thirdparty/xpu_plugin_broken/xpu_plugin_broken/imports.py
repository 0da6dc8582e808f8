"""Its library is not installed."""

import libacme_driver  # type: ignore[import-not-found]  # noqa: F401
