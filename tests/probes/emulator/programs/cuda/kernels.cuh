// A kernel in a header, and a constant that has the name of another source's.
#pragma once
namespace constants {
__constant__ int table[2];
}
template <class F>
__global__ void apply(int* out, F f) { out[threadIdx.x] = f(threadIdx.x) + constants::table[1]; }
