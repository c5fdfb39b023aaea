"""Compiles Triton kernels for targets without launching them; for `ptxview compile`.

compile_job  the job: kernels that a program launches or whose signatures are given
remaining    as a program: a recorded stage through the stages that follow it, and every pass
diagnostics  errors and compilers' output as messages at lines
"""
