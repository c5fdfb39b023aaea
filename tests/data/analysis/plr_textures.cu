#include <cuda_fp16.h>
template <int W> __device__ float sum(float4 v) { return W == 1 ? v.x : W == 2 ? v.x + v.w : W == 3 ? v.x + v.y + v.z : v.x + v.y + v.z + v.w; }
#define ALL(name, expr) extern "C" __global__ void name(float *o, cudaTextureObject_t t, cudaSurfaceObject_t s, float x, float y, float z, int n) { int i = threadIdx.x; x += i; y *= i; z -= i; o[i] = expr; }
ALL(t1, tex1D<float>(t, x) + sum<2>(tex1D<float4>(t, y))) ALL(t1f, tex1Dfetch<float>(t, n + i) + sum<3>(tex1Dfetch<float4>(t, i)))
ALL(t1lod, sum<4>(tex1DLod<float4>(t, x, y))) ALL(t1grad, sum<3>(tex1DGrad<float4>(t, x, y, z)))
ALL(t2, tex2D<float>(t, x, y)) ALL(t2b, sum<2>(tex2D<float4>(t, x, y))) ALL(t2c, sum<3>(tex2D<float4>(t, x, y))) ALL(t2d, sum<4>(tex2D<float4>(t, x, y)))
ALL(t2lod, sum<4>(tex2DLod<float4>(t, x, y, z))) ALL(t2grad, sum<3>(tex2DGrad<float4>(t, x, y, make_float2(x, z), make_float2(y, z))))
ALL(t3, sum<3>(tex3D<float4>(t, x, y, z))) ALL(t3lod, sum<1>(tex3DLod<float4>(t, x, y, z, x * y))) ALL(t3grad, sum<2>(tex3DGrad<float4>(t, x, y, z, make_float4(x, y, z, 0), make_float4(y, x, z, 0))))
ALL(l1, sum<2>(tex1DLayered<float4>(t, x, n))) ALL(l2, sum<3>(tex2DLayered<float4>(t, x, y, n))) ALL(l2lod, sum<4>(tex2DLayeredLod<float4>(t, x, y, n, z))) ALL(l2grad, sum<4>(tex2DLayeredGrad<float4>(t, x, y, n, make_float2(x, z), make_float2(y, z))))
ALL(c, sum<3>(texCubemap<float4>(t, x, y, z))) ALL(clod, sum<3>(texCubemapLod<float4>(t, x, y, z, x))) ALL(cl, sum<2>(texCubemapLayered<float4>(t, x, y, z, n)))
ALL(g, sum<2>(tex2Dgather<float4>(t, x, y, 2)) + sum<4>(tex2Dgather<float4>(t, y, x, 0)))
ALL(s1, surf1Dread<float>(s, i * 4) + surf1Dread<float2>(s, n).y) ALL(s2, surf2Dread<float4>(s, i * 16, n).z) ALL(s3, surf3Dread<float2>(s, i, n, n * i).x) ALL(sl, surf2DLayeredread<float>(s, i, n, n * i)) ALL(s1l, surf1DLayeredread<float>(s, i, n))
extern "C" __global__ void w(float *o, cudaSurfaceObject_t s, int n) { int i = threadIdx.x; surf1Dwrite(o[i], s, i * 4); surf2Dwrite(((float4 *)o)[i], s, i, n); surf3Dwrite(((float2 *)o)[i], s, i, n, i * n); surf2DLayeredwrite(o[i], s, i, n, i * n); surf1DLayeredwrite(o[i], s, i, n); surfCubemapwrite(o[i], s, i, n, i * n); }
extern "C" __global__ void generic(int *o, int *p) { o[0] = __isShared(p) + __isGlobal(p) * 2 + __isLocal(p) * 4; }
