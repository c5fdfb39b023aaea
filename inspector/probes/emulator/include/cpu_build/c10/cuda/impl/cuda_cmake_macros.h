// The one header of c10/cuda that torch's CPU wheels leave out: CMake makes it for CUDA builds.
#pragma once
#define C10_CUDA_BUILD_SHARED_LIBS
