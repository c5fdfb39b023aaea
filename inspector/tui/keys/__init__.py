"""Commands as data: ids, keys, titles and actions."""
