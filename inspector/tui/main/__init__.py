"""The main screen: the tree beside panes of code, cards and what the lines mean."""
