#define N 96
extern "C" __global__ void spilled(float *o, const float *a, int n) {
    int i = threadIdx.x; float x[N];
#pragma unroll
    for (int k = 0; k < N; k++) x[k] = a[i + k * n];
    for (int r = 0; r < n; r++) {
#pragma unroll
        for (int k = 0; k < N; k++) x[k] = x[k] * x[(k * 7 + 3) % N] + a[r];
        __syncthreads();
    }
#pragma unroll
    for (int k = 0; k < N; k++) o[i + k * n] = x[k];
}
