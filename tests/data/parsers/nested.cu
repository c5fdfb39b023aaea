// Three levels of forced inlining, two kernels, a device function that stays a call.
__forceinline__ __device__ float square(float v) {
    return v * v;
}

__forceinline__ __device__ float cube(float v) {
    float s = square(v);
    return s * v + 1.0f;
}

__forceinline__ __device__ float poly(const float *x, int i) {
    float a = cube(x[i]);
    float b = cube(x[i + 1]);
    return a + square(b);
}

__noinline__ __device__ float outer(float v) {
    float t = square(v) * 3.0f;
    return t / (v + 2.0f);
}

__global__ void nested(float *out, const float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        out[i] = poly(x, i);
    }
}

__global__ void calls(float *out, const float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    __shared__ float tile[128];
    tile[threadIdx.x] = i < n ? x[i] : 0.0f;
    __syncthreads();
    float total = 0.0f;
    for (int k = 0; k < n; k++) total += outer(tile[(threadIdx.x + k) & 127]);
    out[i] = total;
}
