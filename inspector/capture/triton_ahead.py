"""x"""

from dataclasses import dataclass


@dataclass(frozen=True)
class GivenKernels:
    pass
