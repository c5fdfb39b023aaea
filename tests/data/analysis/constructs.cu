// What sentences of SASS are tested with. constructs_sm90a.sass, and so on, with CUDA 13.0:
//   nvcc -arch=sm_90a -cubin constructs.cu -o constructs.cubin
//   nvdisasm -c constructs.cubin | grep -E '^\s+/\*[0-9a-f]{4}\*/|^\.L|\.section|\.target' |
//     grep -vE ' NOP ?;|\.nv\.|\.debug|\.str|\.sym|\.note|\.rel' | tr -s ' '
#include <cuda_fp16.h>
extern "C" __global__ void vectors(float4 *out, const float4 *__restrict__ in, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) { float4 v = in[i]; v.x *= 2.f; v.w = fabsf(v.w) - v.y; out[i] = v; }
}
extern "C" __global__ void divide(float *out, const float *a, const float *b) {
  int i = threadIdx.x; out[i] = a[i] / b[i];
}
extern "C" __global__ void bits(unsigned *out, unsigned a, unsigned b, unsigned c) {
  unsigned x = a ^ threadIdx.x, y = b + threadIdx.x, z = c * threadIdx.x;
  out[0] = x & ~y; out[1] = x ^ y ^ z; out[2] = (x & y) | (~x & z); out[3] = (x & y) | (x & z) | (y & z);
  out[4] = x & 127; out[5] = __byte_perm(x, y, 0x5410); out[6] = __funnelshift_l(x, y, 3); out[7] = __popc(x);
  out[8] = __brev(x); out[9] = min(x, y); out[10] = ((int)x) >> 5; out[11] = x | 0x80000000u;
}
extern "C" __global__ void shared(float *out, const float *in) {
  __shared__ float s[256];
  s[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  float v = s[255 - threadIdx.x];
  for (int k = 16; k; k >>= 1) v += __shfl_xor_sync(~0u, v, k);
  v += __shfl_down_sync(~0u, v, 1);
  if (__any_sync(~0u, v > 0.f)) atomicAdd(out, v);
  out[threadIdx.x] = __expf(v) + rsqrtf(v) + tanhf(v);
}
extern "C" __global__ void converts(double *d, float *f, int *i, __half *h) {
  d[0] = f[0]; f[1] = d[1]; i[0] = (int)f[2]; f[3] = i[1]; h[0] = __float2half(f[4]); f[5] = __half2float(h[1]); f[6] = rintf(f[7]);
  d[2] = d[3] * d[4] + d[5];
  h[2] = __hfma(h[3], h[4], h[5]);
}
extern "C" __global__ void packs(__half2 *h, const float2 *f, const long long *a, long long *q) {
  h[threadIdx.x] = __float22half2_rn(f[threadIdx.x]);
  q[threadIdx.x] = a[threadIdx.x] / 7 + (a[1] >> 33);
}
