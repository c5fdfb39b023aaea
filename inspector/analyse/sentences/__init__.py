"""Instructions read out as sentences, one module a language, and what is known of their launch."""

from __future__ import annotations
