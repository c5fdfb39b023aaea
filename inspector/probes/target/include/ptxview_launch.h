// What an extension's host code and its stand-in of the CUDA runtime know of launches: the PTX that
// nvcc made is run by the process's Python, which gives its functions in `Services`.
#pragma once
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace ptxview_cuda {

// PTX text that lies in this library.
struct Module {
  const char* ptx;
  uint64_t bytes;
};

// Functions of the running interpreter and of the shim.  Those that can fail give 0 where all went
// well, and else say why in the text that they are given, of so many bytes; 2: the user interrupts.
struct Services {
  uint64_t version;
  int (*launch)(const char* ptx, uint64_t bytes, const char* kernel, const uint32_t* grid_block_shared,
                void** arguments, char* why, int64_t room);
  int (*symbol)(const char* ptx, uint64_t bytes, const char* name, uint64_t size, uint64_t* address, char* why,
                int64_t room);
  void* (*allocate)(uint64_t bytes);
  int (*release)(void* pointer);
  int (*range)(uint64_t from, uint64_t to, uint64_t* start, uint64_t* end);
  int (*absence)(uint64_t address, char* why, int64_t room);
  void (*mark_absent)(uint64_t address, const char* why);
  void (*interrupt)();
  // cudaFuncSetAttribute's dynamic shared memory: 0 or CUDA's error.
  int (*allow)(const char* ptx, uint64_t bytes, const char* kernel, int64_t dynamic);
  // The program asks for the last error: of a launch that was refused it need not be told otherwise.
  void (*asked)();
  // A device's limit by CUDA's number for it (cudaDeviceAttr), 0 its memory in bytes, -1 what is free of that;
  // negative where it is not known. The device's name, where there is room.
  int64_t (*limit)(int device, int attribute, char* name, int64_t room);
  // What a launch of so many threads and bytes of dynamic shared memory has: blocks an SM, registers, static
  // shared and local memory, the most threads of a block, the most dynamic shared memory.
  int (*resources)(const char* ptx, uint64_t bytes, const char* kernel, int threads, uint64_t dynamic,
                   int64_t* figures, char* why, int64_t room);
};
// What `launch` gives besides: CUDA's error of a launch that the driver would refuse, behind these.
constexpr int kRefused = 16;
constexpr uint64_t kVersion = 4;

}  // namespace ptxview_cuda
