"""Compiles Triton kernels for targets that nobody launches them on; for `ptxview compile`.

job      what is asked for, read from the file that the environment names
one      one compilation: timed, recorded, with what was said of it
calls    beside a program that runs: each kernel that it launches, for every target
given    kernels of a module whose signatures are given, without a call
ir       a file of TTIR, TTGIR or LLVM IR
remaining  a program of its own: a recorded stage through the stages that follow it
watched_passes  has the compilers print their IR around every pass, and take each pass's time
said     what an error or a compiler says, as messages at lines
"""
