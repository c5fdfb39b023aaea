"""The same GELU as a package: what load_inline does behind the scenes, spelt out.

Built by `python setup.py build_ext --inplace`; run.py does it in a folder of its own.
"""

from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CUDAExtension

setup(
    name="gelu_extension",
    ext_modules=[CUDAExtension("gelu_extension", ["gelu.cu"])],
    cmdclass={"build_ext": BuildExtension},
)
