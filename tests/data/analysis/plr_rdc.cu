#include <cstdio>
__device__ __noinline__ float helper(float x, int n) { float s = 0; for (int k = 0; k < n; k++) s += x / (k + 1); return s; }
extern __device__ float other(float, int);
__global__ void uses(float *o, int n) { int i = threadIdx.x; o[i] = helper(o[i], n) + other(o[i + 1], n); if (i > n) { printf("%d %f\n", i, o[i]); } }
