"""Paths of the interface's configuration and memory, importable without the interface."""

from __future__ import annotations

from pathlib import Path

import platformdirs


def config_path() -> Path:
    """Return the file with the user's keys and theme."""
    return Path(platformdirs.user_config_dir("ptxview", appauthor=False)) / "config.toml"


def memory_path() -> Path:
    """Return the file with the remembered state of each recording."""
    return Path(platformdirs.user_state_dir("ptxview", appauthor=False)) / "remembered.json"
