"""What a call does when its PTX is run: new inputs of its kind, facts by line, steps of a block.

Pure: recordings, files and terminals are others'; values come from a seed.
"""
