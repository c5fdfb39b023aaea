#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <mma.h>
using namespace nvcuda;
extern "C" __global__ void doubles(double *o, const double *a, const float *f, const long long *l, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    double x = a[i], y = a[i + n];
    double z = x * y + sqrt(x) - fmin(x, y) + (double)f[i] + (double)l[i];
    if (x < y) z += exp(z);
    o[i] = z; ((long long *)o)[i + n] = (long long)z; ((int*)o)[i + 3*n] = (int)z; ((float*)o)[i+7*n] = (float)z;
}
extern "C" __global__ void longs(long long *o, const long long *a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    long long x = a[i], y = a[i + n];
    o[i] = x * y + (x >> 3) + (y << (i & 31)); o[i + n] = x / y; o[i + 2 * n] = x < y ? x & y : x ^ ~y;
    unsigned long long u = x; o[i + 3 * n] = __popcll(u) + __clzll(u) + __umul64hi(u, y); o[i+4*n] = max(x, y);
}
extern "C" __global__ void vectors(float4 *o, const float4 *a, uint4 *q, const double2 *d, int n) {
    __shared__ float4 s[256];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    s[threadIdx.x] = a[i]; q[i].x = 3; __syncthreads();
    float4 v = s[threadIdx.x ^ 5]; float2 w = ((float2 *)s)[threadIdx.x];
    o[i] = make_float4(v.x + w.x, v.y * w.y, v.z, v.w); ((float2 *)o)[i + n] = w; ((double2*)o)[i + 9*n] = d[i];
}
extern "C" __global__ void warps(int *o, const int *a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x; int v = a[i];
    v += __shfl_xor_sync(~0u, v, 4); v += __shfl_down_sync(~0u, v, 2); unsigned b = __ballot_sync(~0u, v > 3);
    if (__any_sync(~0u, v == 7)) v += __popc(b) + __ffs(b) + __clz(v) + __brev(v);
    if (__all_sync(~0u, v > 1)) v ^= __activemask();
#if __CUDA_ARCH__ >= 800
    v += __reduce_add_sync(~0u, v); 
#endif
    v += __match_any_sync(~0u, v); int p; v += __match_all_sync(~0u, v, &p) + p;
    atomicAdd(o, v); int old = atomicCAS(o + 1, v, 3); o[i + 4] = atomicExch(o + 2, v) + old + atomicMax(o + 3, 4);
    atomicAdd((float *)o + 9, 1.0f); atomicAdd((double *)o + 20, 1.0); atomicAdd((unsigned long long *)o + 30, 5ull);
    __shared__ int s[64]; if (threadIdx.x < 64) s[threadIdx.x] = 0; __syncthreads(); atomicAdd(s + (v & 63), 1); int w = atomicAdd(s + (v & 31), 2); atomicCAS(s+3, 1, w);
    __syncthreads(); o[i] = s[v & 63] + w + __syncthreads_count(v > 3) + __dp4a(v, w, i) + __byte_perm(v, w, 0x3201) + __sad(v, w, 2) + max(min(v, w), i) + abs(w) + __vadd2(v, w) + __funnelshift_l(v, w, i) + v % 7 + w / i;
    o[i + n] = clock() + (int)clock64(); __nanosleep(100); __threadfence();
}
extern "C" __global__ void halves(__half2 *o, const __half2 *a, __nv_bfloat162 *b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    __half2 x = a[i], y = a[i + n]; o[i] = __hfma2(x, y, __hadd2(x, y)); if (__hbgt2(x, y)) o[i + n] = h2exp(x);
    o[i+2*n] = __hmax2(x, y);  o[i + 3*n] = __floats2half2_rn(__low2float(x), __high2float(y)); 
    ((float*)o)[i+ 9*n] = __half2float(__low2half(x)) + tanhf(__bfloat162float(b[i].x)) + __expf(3.f + i) + __logf(i) + __sinf(i) + rsqrtf(i) + sqrtf(i) + sinf(i) ;
}
extern "C" __global__ void tensors(float *o, const __half *a, const __half *b, const signed char *c, int *d) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> fa; wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc; wmma::fragment<wmma::accumulator, 16, 16, 16, __half> fh; wmma::fill_fragment(fc, 0.f); wmma::fill_fragment(fh, (__half)0.f);
    wmma::load_matrix_sync(fa, a, 16); wmma::load_matrix_sync(fb, b, 16); wmma::mma_sync(fc, fa, fb, fc); wmma::mma_sync(fh, fa, fb, fh); wmma::store_matrix_sync(o, fc, 16, wmma::mem_row_major); wmma::store_matrix_sync((__half*)o+999, fh, 16, wmma::mem_row_major);
    wmma::fragment<wmma::matrix_a, 16, 16, 16, signed char, wmma::row_major> ia; wmma::fragment<wmma::matrix_b, 16, 16, 16, signed char, wmma::col_major> ib; wmma::fragment<wmma::accumulator, 16, 16, 16, int> ic;
    wmma::fill_fragment(ic, 0); wmma::load_matrix_sync(ia, c, 16); wmma::load_matrix_sync(ib, c + 256, 16); wmma::mma_sync(ic, ia, ib, ic); wmma::store_matrix_sync(d, ic, 16, wmma::mem_row_major);
#if __CUDA_ARCH__ >= 800
    wmma::fragment<wmma::matrix_a, 8, 8, 4, double, wmma::row_major> da; wmma::fragment<wmma::matrix_b, 8, 8, 4, double, wmma::col_major> db; wmma::fragment<wmma::accumulator, 8, 8, 4, double> dc;
    wmma::fill_fragment(dc, 0.0); wmma::load_matrix_sync(da, (double*)a, 4); wmma::load_matrix_sync(db, (double*)b, 4); wmma::mma_sync(dc, da, db, dc); wmma::store_matrix_sync((double*)o, dc, 8, wmma::mem_row_major);
    wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major> ta; wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::col_major> tb; wmma::fragment<wmma::accumulator, 16, 16, 8, float> tc;
    wmma::fill_fragment(tc, 0.f); wmma::load_matrix_sync(ta, (float*)a, 8); wmma::load_matrix_sync(tb, (float*)b, 8); wmma::mma_sync(tc, ta, tb, tc); wmma::store_matrix_sync(o, tc, 16, wmma::mem_row_major);
#endif
}
__device__ int (*table[4])(int);
extern "C" __global__ void control(int *o, int n) {
    int i = threadIdx.x; int v = o[i];
    switch (v) { case 0: v = 3; break; case 1: v = o[9]; break; case 2: v = i * 7; break; case 3: v = o[i * 2] / 3; break; case 4: v ^= 5; break; case 5: v = o[77]; break; case 6: o[3] = 1; break; case 7: v--; break;}
    v += table[v & 3](v); int buf[40]; for (int k = 0; k < n; k++) buf[(k * v) % 40] = k; o[i] = buf[v % 40];
    asm volatile("{ .reg .pred p; setp.ne.s32 p, %1, 0; @p add.s32 %0, %0, 1; }" : "+r"(v) : "r"(n)); o[i+1] = v; if (v == 9) __trap();
}
