"""Fault injection: every function of the probes raises once, and the program must not notice.

``python -m tests.faults`` prints functions × faults × programs; ``instrument`` makes the copy of
the probes that faults are raised in, ``hit`` raises them, ``server`` forks a child for each, and
``injector`` draws, runs and compares them.
"""
