"""Plugins that are broken, each in a way of its own."""
