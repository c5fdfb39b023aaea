"""An error worth meeting once: extern "C" __global__, listed in `functions`.

load_inline writes a pybind11 binding for every name in `functions`. A kernel is not a function that
C++ can call: it is launched, and returns nothing to wrap. And main.cpp, which holds the bindings,
is compiled by g++, which knows no __global__. So the build fails, and the message comes from the
middle of the toolchain. The mend is a C++ function around the launch, as in examples/05.
"""

from torch.utils.cpp_extension import load_inline

KERNEL = 'extern "C" __global__ void square_kernel(const float* in, float* out, int n)'
CUDA_SOURCE = (
    KERNEL
    + """ {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = in[i] * in[i];
}
"""
)


def main():
    try:
        load_inline(
            name="extern_c_global_example",
            cpp_sources=KERNEL + ";",
            cuda_sources=CUDA_SOURCE,
            functions=["square_kernel"],
            with_cuda=True,
        )
    except Exception as error:
        lines = [line.strip() for line in str(error).splitlines() if "error" in line.lower()]
        print("It does not build, as expected:")
        for line in lines[:4] or [str(error)[:300]]:
            print(f"  {line[:200]}")
    else:
        raise SystemExit("It built: this torch binds kernels, and the lecture's error is history.")


if __name__ == "__main__":
    main()
