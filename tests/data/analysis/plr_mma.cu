#include <cstdint>
extern "C" __global__ void mma16816(float *o, const uint32_t *a, const uint32_t *b, int n) {
    int i = threadIdx.x; float d[4] = {0, 0, 0, 0};
    for (int k = 0; k < n; k++) {
        uint32_t x[4], y[2]; for (int j = 0; j < 4; j++) x[j] = a[i + k * 128 + j * 32]; for (int j = 0; j < 2; j++) y[j] = b[i + k * 64 + j * 32];
#if __CUDA_ARCH__ >= 800
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
#else
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(x[0]), "r"(x[1]), "r"(y[0]));
#endif
    }
    for (int j = 0; j < 4; j++) o[i * 4 + j] = d[j];
}
#if __CUDA_ARCH__ >= 800 || !defined(__CUDA_ARCH__)
extern "C" __global__ void asyncs(float *o, const float *a, int n) {
#if __CUDA_ARCH__ >= 800
    __shared__ float s[2][256]; int t = threadIdx.x; float acc = 0;
    for (int k = 0; k < n; k++) { uint32_t p = (uint32_t)__cvta_generic_to_shared(&s[k & 1][t * 4 % 256]);
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\ncp.async.commit_group;\n" :: "r"(p), "l"(a + k * 256 + t * 4)); asm volatile("cp.async.wait_group 0;"); __syncthreads(); acc += s[k & 1][(t * 7) & 255]; uint32_t r0, r1, r2, r3; asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3) : "r"(p)); acc += r0 ^ r1 ^ r2 ^ r3; }
    o[t] = acc;
#endif
}
#endif
#if defined(__CUDA_ARCH_FEAT_SM90_ALL) || !defined(__CUDA_ARCH__)
extern "C" __global__ void wgmma(float *o, uint64_t da, uint64_t db, int n) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    float d[32]; for (int k = 0; k < 32; k++) d[k] = o[k];
    for (int r = 0; r < n; r++) {
    asm volatile("wgmma.fence.sync.aligned;");
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %34, 0; wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, %32, %33, p, 1, 1, 0, 0; }" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]) : "l"(da), "l"(db), "r"(r));
    asm volatile("wgmma.commit_group.sync.aligned;"); asm volatile("wgmma.wait_group.sync.aligned 0;");
    }
    for (int k = 0; k < 32; k++) o[threadIdx.x * 32 + k] = d[k];
#endif
}
#endif
