// NVIDIA's occupancy calculator behind a pipe: numbers in, a line a question, its answers out.
//
// In:  major minor threads_sm threads_block regs_block regs_sm warp smem_block smem_sm sms
//      smem_optin smem_reserved | regs static dynamic barriers block_size
// Out: blocks regs_limit smem_limit warps_limit blocks_limit barriers_limit factors smem_a_block
#include <climits>
#include <cstdio>
#include "cuda_occupancy.h"

int main() {
    long d[12], k[5];
    for (;;) {
        for (long &v : d)
            if (std::scanf("%ld", &v) != 1) return 0;
        for (long &v : k)
            if (std::scanf("%ld", &v) != 1) return 1;
        cudaOccDeviceProp device;
        device.computeMajor = d[0];
        device.computeMinor = d[1];
        device.maxThreadsPerMultiprocessor = d[2];
        device.maxThreadsPerBlock = d[3];
        device.regsPerBlock = d[4];
        device.regsPerMultiprocessor = d[5];
        device.warpSize = d[6];
        device.sharedMemPerBlock = d[7];
        device.sharedMemPerMultiprocessor = d[8];
        device.numSms = d[9];
        device.sharedMemPerBlockOptin = d[10];
        device.reservedSharedMemPerBlock = d[11];
        cudaOccFuncAttributes kernel;
        kernel.maxThreadsPerBlock = INT_MAX;
        kernel.numRegs = k[0];
        kernel.sharedSizeBytes = k[1];
        kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
        kernel.maxDynamicSharedSizeBytes = k[2];
        kernel.numBlockBarriers = k[3];
        cudaOccDeviceState state;
        state.carveoutConfig = -1;
        cudaOccResult r;
        if (cudaOccMaxActiveBlocksPerMultiprocessor(&r, &device, &kernel, &state, k[4], k[2])
            != CUDA_OCC_SUCCESS) {
            std::puts("error");
            continue;
        }
        std::printf("%d %d %d %d %d %d %u %zu\n", r.activeBlocksPerMultiprocessor,
                    r.blockLimitRegs, r.blockLimitSharedMem, r.blockLimitWarps,
                    r.blockLimitBlocks, r.blockLimitBarriers, r.limitingFactors,
                    r.allocatedSharedMemPerBlock);
    }
}
