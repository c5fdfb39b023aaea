"""What a recording is: its layout on disk, and what its events say, put together."""
