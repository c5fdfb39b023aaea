"""A recorded call as one script that stands alone: pure functions from texts to a text."""
