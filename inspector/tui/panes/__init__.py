"""Panes side by side, each with one stage, and what is said of their lines."""
