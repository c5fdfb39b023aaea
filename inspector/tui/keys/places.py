"""Where the interface's own two files lie; known without loading the interface."""

from __future__ import annotations

from pathlib import Path

import platformdirs


def config_path() -> Path:
    """What a user has set: keys and the theme."""
    return Path(platformdirs.user_config_dir("ptxview", appauthor=False)) / "config.toml"


def memory_path() -> Path:
    """What the interface remembers of each recording."""
    return Path(platformdirs.user_state_dir("ptxview", appauthor=False)) / "remembered.json"
