#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <mma.h>
using namespace nvcuda;
__device__ __noinline__ int leaf(int a, int b) { return a * b + (a ^ b) / 7; }
__device__ __noinline__ double dleaf(double a, double b) { return a / b + sqrt(a); }
__device__ __noinline__ float4 quad(float4 a, int k) { a.x += k; a.y *= a.x; a.z -= a.w; a.w = sinf(a.x); return a; }
__device__ __noinline__ int nest(int a) { return leaf(a, 3) + leaf(a + 1, a) * 2; }
__device__ int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
__device__ __noinline__ int ack(int m, int n) { if (m == 0) return n + 1; if (n == 0) return ack(m - 1, 1); return ack(m - 1, ack(m, n - 1)); }
extern "C" __global__ void calls(int *o, const int *a, double *d, float4 *q) {
    int i = blockIdx.x * blockDim.x + threadIdx.x; int v = leaf(a[i], a[i + 1]);
    if (v > 7) v += nest(v); o[i] = v; d[i] = dleaf(d[i], d[i + 3]); q[i] = quad(q[i], v);
}
extern "C" __global__ void recursion(int *o, int n) { o[threadIdx.x] = fib(n + threadIdx.x) + ack(2, n & 3); }
typedef int (*fp)(int); __device__ fp table[4]; __device__ __noinline__ int f0(int x){return x+1;} __device__ __noinline__ int f1(int x){return x*x;}
extern "C" __global__ void pointers(int *o, int n) { fp f[2] = {f0, f1}; int v = o[threadIdx.x]; v = f[n & 1](v); v += table[v & 3](v + 2); o[threadIdx.x] = v; }
extern "C" __global__ void switches(int *o, const int *a, int n) {
    int i = threadIdx.x, v = a[i];
    for (int k = 0; k < n; k++) {
        switch (v & 15) { case 0: v = 3; break; case 1: v = o[9]; break; case 2: v = i * 7; break; case 3: v = o[i * 2] / 3; break; case 4: v ^= 5; break; case 5: v = o[77]; break; case 6: o[3] = 1; break; case 7: v--; break; case 8: v += 100; continue; case 9: v = a[v]; break; case 10: goto out; case 11: return; }
        v = v * 3 + k;
    }
out: o[i] = v;
}
extern "C" __global__ void loops(float *o, const float *a, int n, int m) {
    int i = threadIdx.x; float s = 0;
    for (int k = i; k < n; k += 32) { float x = a[k]; if (x < 0) break; for (int j = 0; j < m; j++) { if (a[j] > x) continue; s += x * a[j]; if (s > 1e9f) goto done; } s = s * 2; }
done: o[i] = s; 
    while (atomicAdd((int *)o, 1) < n) { if (a[i] == 3.f) break; __nanosleep(10); }
    do { s = s * s + 1; } while (s < 100.f); o[i + n] = s;
}
extern "C" __global__ void divergent(int *o, const int *a, int n) {
    int i = threadIdx.x; int v = a[i];
    if (i & 1) { v += a[i + 1]; if (i & 2) { v *= 3; __syncwarp(); o[i] = v; if (v == 77) return; } else { v -= a[v]; } } else { v ^= 0x55; if (v & 4) { v = __shfl_sync(~0u, v, 3); } }
    __syncwarp(); v += __shfl_xor_sync(0xffffffff, v, 4);
    if (v > n) __syncthreads(); o[i] = v; if (v == 9) __trap();
}
extern "C" __global__ void doubles(double *o, const double *a, int n) {
    int i = threadIdx.x; double x = a[i], y = a[i + n]; o[i] = x / y; o[i + n] = sqrt(x) + exp(y) + pow(x, y) + sin(x) + 1.0 / y + rsqrt(y) + fmod(x, y) + cbrt(x); o[i+2*n] = x < y ? log(x) : atan2(x, y);
}
extern "C" __global__ void floats(float *o, const float *a, int n) {
    int i = threadIdx.x; float x = a[i], y = a[i + n]; o[i] = x / y + sqrtf(x) + sinf(y) + powf(x, y) + tanf(x) + fmodf(x, y) + __frcp_rn(y) + __fsqrt_ru(y) + erff(x) + lgammaf(y);
}
extern "C" __global__ void longs(long long *o, const long long *a, unsigned long long *u, int n) {
    int i = threadIdx.x; long long x = a[i], y = a[i + n]; o[i] = x / y; o[i + n] = x % y; u[i] = u[i] / 7 + u[i + 1] % u[i + 2]; o[i + 2*n] = x * y + __mul64hi(x, y); __int128 z = (__int128)x * y; o[i+3*n] = (long long)(z >> 64) + (long long)z;
}
extern "C" __global__ void predicates(unsigned *o, const int *a, int n) {
    int i = threadIdx.x; bool p[16]; 
#pragma unroll
    for (int k = 0; k < 16; k++) p[k] = a[i * 16 + k] > n;
    __syncthreads(); unsigned r = 0;
#pragma unroll
    for (int k = 0; k < 16; k++) { if (p[k]) r += a[k] * 3; r = (p[k] && (p[(k + 3) & 15] != p[(k * 7) & 15])) ? r * 5 : r + k; }
    for (int q = 0; q < n; q++) {
#pragma unroll
     for (int k = 0; k < 16; k++) if (p[k]) r ^= o[q + k]; }
    o[i] = r;
}
extern "C" __global__ void atomics(int *o, float *f, double *d, unsigned long long *u, __half2 *h, int n) {
    int i = threadIdx.x; int v = o[i]; __shared__ int s[64]; __shared__ float sf[64]; __shared__ unsigned long long sl[16];
    if (i < 64) { s[i] = 0; sf[i] = 0; } if (i < 16) sl[i] = 0; __syncthreads();
    atomicAdd(s + (v & 63), 1); atomicAdd(sf + (v & 63), 1.f); atomicMax(sl + (v & 15), (unsigned long long)v); int w = atomicCAS(s + 3, v, 2); w += atomicExch(s + 4, w);
    __syncthreads(); w += atomicAdd(o, v) + atomicCAS(o + 1, v, w); atomicAdd(f, 1.f); atomicAdd(d, 2.0); atomicAdd(u, 3ull); f[i] = atomicAdd(f + 1, 2.f) + sf[v & 63]; atomicAdd(h, __floats2half2_rn(1.f, 2.f)); u[i] = atomicCAS(u + 4, 3ull, sl[w & 15]); o[i] = w + s[i & 63];
}
extern "C" __global__ void tensors(float *o, const __half *a, const __half *b, int n) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> fa; wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> fb; wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc; wmma::fill_fragment(fc, 0.f);
    for (int k = 0; k < n; k++) { wmma::load_matrix_sync(fa, a + k * 16, 64); wmma::load_matrix_sync(fb, b + k * 16, 64); wmma::mma_sync(fc, fa, fb, fc); }
    wmma::store_matrix_sync(o, fc, 16, wmma::mem_row_major);
}
extern "C" __global__ void vectors(float4 *o, const float4 *a, const double2 *d, double2 *e, const int2 *c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x; float4 x = a[i], y = __ldg(a + i + n); __shared__ float4 s[128]; s[threadIdx.x] = x; __syncthreads(); float4 z = s[threadIdx.x ^ 9];
    o[i] = make_float4(x.x + y.x, x.y * z.y, z.z - y.z, x.w); double2 w = d[i]; e[i] = make_double2(w.x + w.y, w.x * x.x); int2 k = c[i]; o[i + k.x].x = k.y; 
}
extern "C" __global__ void localmem(int *o, int n) { int buf[64]; int i = threadIdx.x; for (int k = 0; k < 64; k++) buf[k] = o[k * i]; for (int k = 0; k < n; k++) buf[(k * n + i) & 63] += buf[(k + i) & 63]; o[i] = buf[n & 63]; }
extern "C" __global__ void uniform(float *o, const float *a, int n, int m, int k, float f) {
    float s = 0; for (int b = 0; b < n; b++) { int base = b * m + blockIdx.x * k; for (int j = 0; j < m; j += 4) { s += a[base + j] * f + a[base + j + threadIdx.x]; if ((base & 7) == 3) s *= 2; } if (base > k * k) break; } o[blockIdx.x * blockDim.x + threadIdx.x] = s;
}
extern "C" __global__ void vote(int *o, const int *a, int n) { int i = threadIdx.x, v = a[i]; unsigned b = __ballot_sync(~0u, v > n); if (__all_sync(~0u, v < n)) v += __popc(b); if (__any_sync(b, v == 3)) { v ^= __match_any_sync(__activemask(), v); } int p; v += __match_all_sync(~0u, v, &p); o[i] = v + p + __clz(b) + __ffs(v) + __brev(b); }
extern "C" __global__ void nop() {}
extern "C" __global__ void textures(float *o, cudaTextureObject_t t, cudaTextureObject_t t3, cudaSurfaceObject_t s, int n) {
    int i = threadIdx.x; float4 a = tex2D<float4>(t, i * .5f, n * .25f); float b = tex1Dfetch<float>(t, i); float4 c = tex2DLod<float4>(t, i, n, 2.f); float d = tex3D<float>(t3, i, n, i + n); float4 g = tex2Dgather<float4>(t, i, n, 1);
    int x; surf2Dread(&x, s, i * 4, n); surf2Dwrite(x + 1, s, i * 4, n + 1); o[i] = a.x + a.w + b + c.y + d + x + g.x + g.z;
}
__global__ __launch_bounds__(128, 4) void sort(int *a, int n) { __shared__ int s[512]; int t = threadIdx.x; for (int i = t; i < 512; i += 128) s[i] = a[i]; __syncthreads(); for (int k = 2; k <= 512; k <<= 1) for (int j = k >> 1; j > 0; j >>= 1) { for (int i = t; i < 512; i += 128) { int x = i ^ j; if (x > i) { bool up = !(i & k); int u = s[i], v = s[x]; if ((u > v) == up) { s[i] = v; s[x] = u; } } } __syncthreads(); } for (int i = t; i < 512; i += 128) a[i] = s[i]; }
