"""Compiles Triton kernels for targets without launching them; for `ptxview compile`.

one       the job, and one compilation: timed, recorded, with its messages
calls     beside a program that runs: each kernel that it launches, for every target
given     kernels whose signatures are given, or a file of TTIR, TTGIR or LLVM IR
remaining       as a program: a recorded stage through the stages that follow it
watched_passes  the compilers' IR around every pass, and each pass's time
said      errors and compilers' output as messages at lines
"""
