"""Panes side by side, each with one stage, and annotations of their lines."""
