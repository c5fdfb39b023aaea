// What an extension's host code and its stand-in for the CUDA runtime know of launches: the process's
// Python runs the PTX that nvcc made, and gives its functions in `Services`.
#pragma once
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace ptxview_cuda {

// PTX text in this library.
struct Module {
  const char* ptx;
  uint64_t bytes;
};

// Answers of a service: 0, or 1 with a text to raise, of at most `room` bytes; 2: the user interrupts; behind
// kRefused CUDA's error, where the driver would refuse.
constexpr int kInterrupted = 2, kRefused = 16;
constexpr uint64_t kVersion = 6;

// Functions of the running interpreter and of the shim; cudart.py has the same structure.
struct Services {
  uint64_t version;
  int (*launch)(const char* ptx, uint64_t bytes, const char* kernel, const uint32_t* grid_block_cluster_shared,
                void** arguments, char* why, int64_t room);
  int (*symbol)(const char* ptx, uint64_t bytes, const char* name, uint64_t* address, char* why, int64_t room);
  // cudaFuncSetAttribute's dynamic shared memory.
  int (*allow)(const char* ptx, uint64_t bytes, const char* kernel, int64_t dynamic, char* why, int64_t room);
  // Of launches with so many threads and bytes of dynamic shared memory: blocks an SM, registers, static shared
  // and local memory, the most threads of a block, the most dynamic shared memory.
  int (*resources)(const char* ptx, uint64_t bytes, const char* kernel, int threads, uint64_t dynamic,
                   int64_t* figures, char* why, int64_t room);
  // A device's limit by CUDA's number for it (cudaDeviceAttr), 0: its memory in bytes, -1: its free memory; the
  // value is negative if it is unknown.
  int (*limit)(int device, int attribute, int64_t* value, char* why, int64_t room);
  // The program asks for the last error: a refused launch need not be raised.
  void (*asked)();
  void* (*allocate)(uint64_t bytes);
  int (*release)(void* pointer);
  int (*range)(uint64_t from, uint64_t to, uint64_t* start, uint64_t* end);
  int (*absence)(uint64_t address, char* why, int64_t room);
  void (*mark_absent)(uint64_t address, const char* why);
  void (*interrupt)();
  const char* device_name;
};

}  // namespace ptxview_cuda
