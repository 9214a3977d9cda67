"""Wheels: resolve, download, repair, install into a prefix."""
