"""The core without the terminal interface: recording, capture, the commands and their JSON."""
