// What an extension calls of the CUDA runtime and of libc10_cuda, over host memory: linked into the
// extension itself, with hidden names, so that no CUDA library is needed or disturbed.
#include <c10/core/Allocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime.h>

#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <limits>
#include <map>
#include <mutex>
#include <ostream>
#include <stdexcept>
#include <string>

#include "ptxview_launch.h"
#include "ptxview_tensor_map.h"

static const c10::impl::DeviceGuardImplInterface* guard() {
  return c10::impl::getDeviceGuardImpl(c10::DeviceType::CUDA);
}

namespace ptxview_cuda {

// "<pid>:<address>", as the interpreter of this very process has set it.
static const Services* found() {
  const char* text = std::getenv("PTXVIEW_RUNTIME");
  long pid = 0;
  unsigned long long address = 0;
  if (!text || std::sscanf(text, "%ld:%llu", &pid, &address) != 2 || pid != long(getpid())) return nullptr;
  const auto* given = reinterpret_cast<const Services*>(static_cast<uintptr_t>(address));
  return given->version >= kVersion ? given : nullptr;
}
static const Services& services() {
  const Services* given = found();
  if (!given)
    throw std::runtime_error(
        "ptxview: this extension was built for ptxview's device, which this process lacks: run it with "
        "`ptxview run`, or rebuild it without");
  return *given;
}

static thread_local cudaError_t last_error = cudaSuccess;
static cudaError_t noted(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}
[[noreturn]] static void refuse(const char* what) {
  throw std::runtime_error(std::string("ptxview: ") + what + " cannot run here: there is no GPU");
}

// Calls a service: raises its text, and returns CUDA's error where the driver would refuse.
template <class Service, class... Given>
static cudaError_t ask(Service service, Given... given) {
  char why[4000] = "";
  const int status = (services().*service)(given..., why, int64_t(sizeof why));
  if (status >= kRefused) return noted(cudaError_t(status - kRefused));
  if (status == kInterrupted) services().interrupt();
  if (status) throw std::runtime_error(why);
  return cudaSuccess;
}

struct Configuration {
  dim3 grid, block;
  size_t shared;
  cudaStream_t stream;
  dim3 cluster{0, 0, 0};  // what the kernel says
};
static thread_local Configuration next{};

static cudaError_t launch(const Module& module, const char* kernel, void** arguments, const Configuration& c) {
  const uint32_t numbers[] = {c.grid.x,    c.grid.y,    c.grid.z,    c.block.x,         c.block.y, c.block.z,
                              c.cluster.x, c.cluster.y, c.cluster.z, uint32_t(c.shared)};
  return ask(&Services::launch, module.ptx, module.bytes, kernel, static_cast<const uint32_t*>(numbers), arguments);
}
// -- what the library declares as it is loaded ------------------------------------------------------

struct Symbol {
  Module module;
  std::string name;
  size_t size;
};
struct Managed {
  Symbol symbol;
  void** pointer;
};
struct Tables {
  std::mutex lock;
  std::map<const void*, Symbol> variables, kernels;
  std::map<const void*, Managed> managed;
};
static Tables& tables() {
  static Tables& all = *new Tables;
  return all;
}

static char* address_of(const Symbol& symbol) {
  uint64_t address = 0;
  ask(&Services::symbol, symbol.module.ptx, symbol.module.bytes, symbol.name.c_str(), &address);
  return reinterpret_cast<char*>(address);
}
static const Symbol* known(const std::map<const void*, Symbol>& among, const void* host) {
  std::lock_guard<std::mutex> held(tables().lock);
  auto one = among.find(host);
  return one == among.end() ? nullptr : &one->second;
}

// -- memory -----------------------------------------------------------------------------------------

static bool on_device(const void* pointer, uint64_t* end) {
  uint64_t start = 0;
  const auto at = reinterpret_cast<uint64_t>(pointer);
  return found() && found()->range(at, at + 1, &start, end);
}
static bool reaches_past(const void* pointer, size_t bytes) {
  uint64_t end = 0;
  return on_device(pointer, &end) && reinterpret_cast<uint64_t>(pointer) + bytes > end;
}
// A copy: what is absent stays so where it goes, and cannot go to the host.
static cudaError_t copy(void* to, const void* from, size_t bytes) {
  if (!bytes) return cudaSuccess;
  if (reaches_past(to, bytes) || reaches_past(from, bytes)) return cudaErrorInvalidValue;
  char why[4000] = "";
  if (found() && found()->absence(reinterpret_cast<uint64_t>(from), why, sizeof why)) {
    uint64_t end = 0;
    if (on_device(to, &end)) {
      found()->mark_absent(reinterpret_cast<uint64_t>(to), why);
      return cudaSuccess;
    }
    throw std::runtime_error(std::string("ptxview: cudaMemcpy needs a value that is absent: ") + why);
  }
  std::memmove(to, from, bytes);
  return cudaSuccess;
}
static cudaError_t copy_rows(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t rows) {
  for (size_t row = 0; row < rows; row++) {
    cudaError_t error =
        copy(static_cast<char*>(to) + row * to_pitch, static_cast<const char*>(from) + row * from_pitch, width);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}
}  // namespace ptxview_cuda

using namespace ptxview_cuda;

extern "C" {
// -- what nvcc's host code calls --------------------------------------------------------------------
struct Fatbin {  // "fatbinary" of nvcc: a header, then entries, each with its own header
  uint32_t magic;
  uint16_t version, header;
  uint64_t bytes;
};
struct FatbinEntry {
  uint16_t kind, version;  // 1: PTX, 2: machine code
  uint32_t header;
  uint64_t bytes;
};
struct FatbinWrapper {
  uint32_t magic, version;
  const char* data;
  void* more;
};
void** __cudaRegisterFatBinary(void* given) {
  auto* module = new Module{"", 0};
  const char* data = static_cast<FatbinWrapper*>(given)->data;
  const auto* whole = reinterpret_cast<const Fatbin*>(data);
  const char* end = data + whole->header + whole->bytes;
  for (const char* at = data + whole->header; at + sizeof(FatbinEntry) <= end;) {
    const auto* entry = reinterpret_cast<const FatbinEntry*>(at);
    if (entry->kind == 1) *module = {at + entry->header, entry->bytes};
    at += entry->header + entry->bytes;
  }
  return reinterpret_cast<void**>(module);
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
void __cudaRegisterFunction(void** module, const char* host, char*, const char* name, int, uint3*, uint3*, dim3*, dim3*,
                            int*) {
  std::lock_guard<std::mutex> held(tables().lock);
  tables().kernels[host] = {*reinterpret_cast<Module*>(module), name, 0};
}
void __cudaRegisterVar(void** module, char* host, char*, const char* name, int, size_t size, int, int) {
  std::lock_guard<std::mutex> held(tables().lock);
  tables().variables[host] = {*reinterpret_cast<Module*>(module), name, size};
}
void __cudaRegisterManagedVar(void** module, void** pointer, char*, const char* name, int, size_t size, int, int) {
  std::lock_guard<std::mutex> held(tables().lock);
  tables().managed[pointer] = {{*reinterpret_cast<Module*>(module), name, size}, pointer};
}
char __cudaInitModule(void**) {
  for (auto& [key, managed] : tables().managed)
    if (!*managed.pointer) *managed.pointer = address_of(managed.symbol);
  return 1;
}
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream) {
  next = {grid, block, shared, stream};
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
  *grid = next.grid;
  *block = next.block;
  *shared = next.shared;
  *static_cast<cudaStream_t*>(stream) = next.stream;
  return cudaSuccess;
}
static cudaError_t launch_symbol(const void* kernel, void** arguments, const Configuration& configuration) {
  const Symbol* symbol = known(tables().kernels, kernel);
  if (!symbol) return noted(cudaErrorInvalidDeviceFunction);
  return launch(symbol->module, symbol->name.c_str(), arguments, configuration);
}
cudaError_t cudaLaunchKernel(const void* kernel, dim3 grid, dim3 block, void** arguments, size_t shared,
                             cudaStream_t stream) {
  return launch_symbol(kernel, arguments, {grid, block, shared, stream});
}
cudaError_t __cudaGetKernel(cudaKernel_t* handle, const void* kernel) {
  *handle = reinterpret_cast<cudaKernel_t>(const_cast<void*>(kernel));
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments, size_t shared,
                               cudaStream_t stream) {
  return cudaLaunchKernel(kernel, grid, block, arguments, shared, stream);
}
cudaError_t cudaLaunchCooperativeKernel(const void*, dim3, dim3, void**, size_t, cudaStream_t) {
  refuse("a cooperative launch (cudaLaunchCooperativeKernel)");
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* c, const void* kernel, void** arguments) {
  Configuration configuration{c->gridDim, c->blockDim, c->dynamicSmemBytes, c->stream};
  for (unsigned i = 0; i < c->numAttrs; i++) {
    const auto& a = c->attrs[i];
    if (a.id == cudaLaunchAttributeCooperative && a.val.cooperative) refuse("a cooperative launch");
    if (a.id == cudaLaunchAttributeClusterDimension)
      configuration.cluster = dim3(a.val.clusterDim.x, a.val.clusterDim.y, a.val.clusterDim.z);
  }
  return launch_symbol(kernel, arguments, configuration);
}

// -- the driver's functions -------------------------------------------------------------------------
CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address,
                                const cuuint64_t* dims, const cuuint64_t* strides, const cuuint32_t* box,
                                const cuuint32_t* steps, CUtensorMapInterleave interleave,
                                CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                                CUtensorMapFloatOOBfill fill) {
  if (interleave != CU_TENSOR_MAP_INTERLEAVE_NONE) refuse("a tensor map of an interleaved layout");
  return encode_tiled(map, type, rank, address, dims, strides, box, steps, interleave, swizzle, promotion, fill);
}
static cudaError_t entry_point(const char* name, void** function, cudaDriverEntryPointQueryResult* result) {
  if (std::strcmp(name, "cuTensorMapEncodeTiled"))
    refuse((std::string("the driver's ") + name + " (cudaGetDriverEntryPoint)").c_str());
  *function = reinterpret_cast<void*>(&cuTensorMapEncodeTiled);
  if (result) *result = cudaDriverEntryPointSuccess;
  return cudaSuccess;
}
cudaError_t cudaGetDriverEntryPoint(const char* name, void** function, unsigned long long,
                                    cudaDriverEntryPointQueryResult* result) {
  return entry_point(name, function, result);
}
#if CUDART_VERSION >= 12050
cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
  return entry_point(name, function, result);
}
#endif

// -- the runtime ------------------------------------------------------------------------------------
cudaError_t cudaPeekAtLastError() {
  if (last_error != cudaSuccess && found()) found()->asked();
  return last_error;
}
cudaError_t cudaGetLastError() {
  cudaError_t error = cudaPeekAtLastError();
  last_error = cudaSuccess;
  return error;
}
// Everything has already happened when a call returns.
#define SUCCEEDS(name, ...) \
  cudaError_t name(__VA_ARGS__) { return cudaSuccess; }
#define GIVES(name, value, pointer, ...) \
  cudaError_t name(__VA_ARGS__) {        \
    *pointer = value;                    \
    return cudaSuccess;                  \
  }
SUCCEEDS(cudaDeviceSynchronize)
SUCCEEDS(cudaDeviceReset)
SUCCEEDS(cudaDeviceSetLimit, cudaLimit, size_t)
SUCCEEDS(cudaDeviceSetCacheConfig, cudaFuncCache)
SUCCEEDS(cudaFuncSetCacheConfig, const void*, cudaFuncCache)
SUCCEEDS(cudaFuncSetSharedMemConfig, const void*, cudaSharedMemConfig)
SUCCEEDS(cudaThreadExchangeStreamCaptureMode, cudaStreamCaptureMode*)
SUCCEEDS(cudaStreamSynchronize, cudaStream_t)
SUCCEEDS(cudaStreamQuery, cudaStream_t)
SUCCEEDS(cudaStreamWaitEvent, cudaStream_t, cudaEvent_t, unsigned)
SUCCEEDS(cudaEventRecord, cudaEvent_t, cudaStream_t)
SUCCEEDS(cudaEventSynchronize, cudaEvent_t)
SUCCEEDS(cudaEventQuery, cudaEvent_t)
GIVES(cudaStreamCreate, reinterpret_cast<cudaStream_t>(new char), stream, cudaStream_t* stream)
GIVES(cudaEventCreate, reinterpret_cast<cudaEvent_t>(new char), event, cudaEvent_t* event)
GIVES(cudaStreamGetPriority, 0, priority, cudaStream_t, int* priority)
GIVES(cudaStreamIsCapturing, cudaStreamCaptureStatusNone, status, cudaStream_t, cudaStreamCaptureStatus* status)
GIVES(cudaDriverGetVersion, CUDART_VERSION, version, int* version)
GIVES(cudaRuntimeGetVersion, CUDART_VERSION, version, int* version)
GIVES(cudaDeviceCanAccessPeer, device != peer, can, int* can, int device, int peer)
GIVES(cudaHostGetDevicePointer, host, device, void** device, void* host, unsigned)
GIVES(cudaGetDevice, guard()->getDevice().index(), device, int* device)
GIVES(cudaGetDeviceCount, guard()->deviceCount(), count, int* count)
// Nothing is measured.
GIVES(cudaEventElapsedTime, std::numeric_limits<float>::quiet_NaN(), milliseconds, float* milliseconds, cudaEvent_t,
      cudaEvent_t)
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) { return cudaStreamCreate(stream); }
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) { return cudaStreamCreate(stream); }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) { return cudaEventCreate(event); }
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete reinterpret_cast<char*>(stream);
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete reinterpret_cast<char*>(event);
  return cudaSuccess;
}
struct ErrorWords {
  cudaError_t error;
  const char *name, *text;
};
static const ErrorWords& words_of(cudaError_t error) {
  static const ErrorWords all[] = {
      {cudaSuccess, "cudaSuccess", "no error"},
      {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
      {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
      {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
      {cudaErrorInvalidDeviceFunction, "cudaErrorInvalidDeviceFunction", "invalid device function"},
      {cudaErrorInvalidSymbol, "cudaErrorInvalidSymbol", "invalid device symbol"},
      {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration", "invalid configuration argument"},
      {cudaErrorLaunchOutOfResources, "cudaErrorLaunchOutOfResources", "too many resources requested for launch"},
      {cudaErrorUnknown, "cudaError", "CUDA error"}};
  for (const auto& words : all)
    if (words.error == error) return words;
  return *std::rbegin(all);
}
const char* cudaGetErrorString(cudaError_t error) { return words_of(error).text; }
const char* cudaGetErrorName(cudaError_t error) { return words_of(error).name; }
cudaError_t cudaSetDevice(int device) {
  guard()->setDevice(c10::Device(c10::DeviceType::CUDA, c10::DeviceIndex(device)));
  return cudaSuccess;
}
static bool is_device(int device) { return 0 <= device && device < guard()->deviceCount(); }
static int64_t limit(int device, int attribute) {
  int64_t value = -1;
  ask(&Services::limit, device, attribute, &value);
  return value;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  if (!is_device(device)) return noted(cudaErrorInvalidDevice);
  const int64_t found = limit(device, attribute);
  if (found < 0)
    throw std::runtime_error("ptxview: cudaDeviceGetAttribute: attribute " + std::to_string(int(attribute)) +
                             " is not known of the emulated device");
  *value = int(found);
  return cudaSuccess;
}
// Unknown limits stay 0.
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* all, int device) {
  if (!is_device(device)) return noted(cudaErrorInvalidDevice);
  *all = cudaDeviceProp{};
  const auto set = [device](auto& field, int attribute) {
    const int64_t found = limit(device, attribute);
    if (found > 0) field = found;
  };
  std::snprintf(all->name, sizeof all->name, "%s", services().device_name);
  set(all->totalGlobalMem, 0);
  set(all->sharedMemPerBlock, cudaDevAttrMaxSharedMemoryPerBlock);
  set(all->regsPerBlock, cudaDevAttrMaxRegistersPerBlock);
  set(all->warpSize, cudaDevAttrWarpSize);
  set(all->memPitch, cudaDevAttrMaxPitch);
  set(all->maxThreadsPerBlock, cudaDevAttrMaxThreadsPerBlock);
  for (int axis = 0; axis < 3; axis++) {
    set(all->maxThreadsDim[axis], cudaDevAttrMaxBlockDimX + axis);
    set(all->maxGridSize[axis], cudaDevAttrMaxGridDimX + axis);
  }
  set(all->totalConstMem, cudaDevAttrTotalConstantMemory);
  set(all->major, cudaDevAttrComputeCapabilityMajor);
  set(all->minor, cudaDevAttrComputeCapabilityMinor);
  set(all->multiProcessorCount, cudaDevAttrMultiProcessorCount);
  set(all->canMapHostMemory, cudaDevAttrCanMapHostMemory);
  set(all->concurrentKernels, cudaDevAttrConcurrentKernels);
  set(all->unifiedAddressing, cudaDevAttrUnifiedAddressing);
  set(all->memoryBusWidth, cudaDevAttrGlobalMemoryBusWidth);
  set(all->l2CacheSize, cudaDevAttrL2CacheSize);
  set(all->maxThreadsPerMultiProcessor, cudaDevAttrMaxThreadsPerMultiProcessor);
  set(all->streamPrioritiesSupported, cudaDevAttrStreamPrioritiesSupported);
  set(all->globalL1CacheSupported, cudaDevAttrGlobalL1CacheSupported);
  set(all->localL1CacheSupported, cudaDevAttrLocalL1CacheSupported);
  set(all->sharedMemPerMultiprocessor, cudaDevAttrMaxSharedMemoryPerMultiprocessor);
  set(all->regsPerMultiprocessor, cudaDevAttrMaxRegistersPerMultiprocessor);
  set(all->managedMemory, cudaDevAttrManagedMemory);
  set(all->cooperativeLaunch, cudaDevAttrCooperativeLaunch);
  set(all->sharedMemPerBlockOptin, cudaDevAttrMaxSharedMemoryPerBlockOptin);
  set(all->maxBlocksPerMultiProcessor, cudaDevAttrMaxBlocksPerMultiprocessor);
  set(all->reservedSharedMemPerBlock, cudaDevAttrReservedSharedMemoryPerBlock);
  set(all->memoryPoolsSupported, cudaDevAttrMemoryPoolsSupported);
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  const int device = guard()->getDevice().index();
  *free = limit(device, -1);
  *total = limit(device, 0);
  return cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  if (least) *least = 0;
  if (greatest) *greatest = -5;
  return cudaSuccess;
}

// -- kernels' resources -------------------------------------------------------------------------------
static bool resources(const void* kernel, int threads, size_t dynamic, std::array<int64_t, 6>& figures) {
  const Symbol* symbol = known(tables().kernels, kernel);
  if (!symbol) return false;
  ask(&Services::resources, symbol->module.ptx, symbol->module.bytes, symbol->name.c_str(), threads,
      uint64_t(dynamic), figures.data());
  return true;
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* all, const void* kernel) {
  std::array<int64_t, 6> figures{};
  if (!resources(kernel, 1, 0, figures)) return noted(cudaErrorInvalidDeviceFunction);
  const int device = guard()->getDevice().index();
  *all = cudaFuncAttributes{};
  all->numRegs = figures[1];
  all->sharedSizeBytes = figures[2];
  all->localSizeBytes = figures[3];
  all->maxThreadsPerBlock = figures[4];
  all->maxDynamicSharedSizeBytes = figures[5];
  all->ptxVersion = all->binaryVersion = 10 * limit(device, cudaDevAttrComputeCapabilityMajor) +
                                         limit(device, cudaDevAttrComputeCapabilityMinor);
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* kernel, int threads,
                                                                   size_t dynamic, unsigned) {
  if (threads < 1) return noted(cudaErrorInvalidValue);
  std::array<int64_t, 6> figures{};
  if (!resources(kernel, threads, dynamic, figures)) return noted(cudaErrorInvalidDeviceFunction);
  *blocks = int(figures[0]);
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* kernel, int threads,
                                                          size_t dynamic) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, kernel, threads, dynamic, 0);
}
cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  *pointer = bytes ? (found() ? found()->allocate(bytes) : std::malloc(bytes)) : nullptr;
  return noted(*pointer || !bytes ? cudaSuccess : cudaErrorMemoryAllocation);
}
cudaError_t cudaMallocAsync(void** pointer, size_t bytes, cudaStream_t) { return cudaMalloc(pointer, bytes); }
cudaError_t cudaMallocManaged(void** pointer, size_t bytes, unsigned) { return cudaMalloc(pointer, bytes); }
cudaError_t cudaMallocHost(void** pointer, size_t bytes) { return cudaMalloc(pointer, bytes); }
cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned) { return cudaMalloc(pointer, bytes); }
cudaError_t cudaFree(void* pointer) {
  if (pointer && !(found() && found()->release(pointer))) std::free(pointer);
  return cudaSuccess;
}
cudaError_t cudaFreeAsync(void* pointer, cudaStream_t) { return cudaFree(pointer); }
cudaError_t cudaFreeHost(void* pointer) { return cudaFree(pointer); }
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) { return noted(copy(to, from, bytes)); }
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t) {
  return noted(copy(to, from, bytes));
}
cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t rows,
                         cudaMemcpyKind) {
  return noted(copy_rows(to, to_pitch, from, from_pitch, width, rows));
}
cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t rows,
                              cudaMemcpyKind, cudaStream_t) {
  return noted(copy_rows(to, to_pitch, from, from_pitch, width, rows));
}
cudaError_t cudaMemset(void* to, int value, size_t bytes) {
  if (reaches_past(to, bytes)) return noted(cudaErrorInvalidValue);
  std::memset(to, value, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t) { return cudaMemset(to, value, bytes); }
cudaError_t cudaGetSymbolAddress(void** address, const void* host) {
  const Symbol* symbol = known(tables().variables, host);
  if (!symbol) return noted(cudaErrorInvalidSymbol);
  *address = address_of(*symbol);
  return cudaSuccess;
}
cudaError_t cudaGetSymbolSize(size_t* size, const void* host) {
  const Symbol* symbol = known(tables().variables, host);
  if (!symbol) return noted(cudaErrorInvalidSymbol);
  *size = symbol->size;
  return cudaSuccess;
}
static cudaError_t copy_symbol(const void* host, size_t bytes, size_t offset, void* to, const void* from) {
  const Symbol* symbol = known(tables().variables, host);
  if (!symbol) return noted(cudaErrorInvalidSymbol);
  if (offset + bytes > symbol->size) return noted(cudaErrorInvalidValue);
  char* place = address_of(*symbol) + offset;
  return noted(copy(to ? to : place, from ? from : place, bytes));
}
cudaError_t cudaMemcpyToSymbol(const void* host, const void* from, size_t bytes, size_t offset, cudaMemcpyKind) {
  return copy_symbol(host, bytes, offset, nullptr, from);
}
cudaError_t cudaMemcpyToSymbolAsync(const void* host, const void* from, size_t bytes, size_t offset, cudaMemcpyKind,
                                    cudaStream_t) {
  return copy_symbol(host, bytes, offset, nullptr, from);
}
cudaError_t cudaMemcpyFromSymbol(void* to, const void* host, size_t bytes, size_t offset, cudaMemcpyKind) {
  return copy_symbol(host, bytes, offset, to, nullptr);
}
cudaError_t cudaMemcpyFromSymbolAsync(void* to, const void* host, size_t bytes, size_t offset, cudaMemcpyKind,
                                      cudaStream_t) {
  return copy_symbol(host, bytes, offset, to, nullptr);
}
cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize || !found()) return cudaSuccess;
  if (const Symbol* symbol = known(tables().kernels, kernel))
    return ask(&Services::allow, symbol->module.ptx, symbol->module.bytes, symbol->name.c_str(), int64_t(value));
  return noted(cudaErrorInvalidDeviceFunction);
}
}

// Members of CUDAStream that its header has inline, or here, by the version of torch.
extern "C" bool _ZNK3c104cuda10CUDAStream5queryEv(const void*) { return true; }
extern "C" void _ZNK3c104cuda10CUDAStream11synchronizeEv(const void*) {}

namespace c10::cuda {
// The line's type differs between versions of torch.
void c10_cuda_check_implementation(const int32_t error, const char* file, const char*, const uint32_t line, const bool) {
  TORCH_CHECK(error == cudaSuccess, "CUDA error: ", cudaGetErrorString(cudaError_t(error)), " at ", file, ":", line);
}
void c10_cuda_check_implementation(const int32_t error, const char* file, const char*, const int line, const bool) {
  TORCH_CHECK(error == cudaSuccess, "CUDA error: ", cudaGetErrorString(cudaError_t(error)), " at ", file, ":", line);
}
DeviceIndex device_count() noexcept { return guard()->deviceCount(); }
DeviceIndex device_count_ensure_non_zero() { return device_count(); }
DeviceIndex current_device() { return guard()->getDevice().index(); }
void device_synchronize() {}
void warn_or_error_on_sync() {}
const char* get_cuda_check_suffix() noexcept { return ""; }
bool hasPrimaryContext(DeviceIndex) { return true; }

cudaError_t GetDeviceCount(int* count) { return cudaGetDeviceCount(count); }
cudaError_t GetDevice(DeviceIndex* device) {
  *device = current_device();
  return cudaSuccess;
}
// Whether a device is set by force is asked for by newer versions of torch.
void set_device(DeviceIndex device) { cudaSetDevice(device); }
void set_device(DeviceIndex device, const bool) { cudaSetDevice(device); }
cudaError_t SetDevice(DeviceIndex device) { return cudaSetDevice(device); }
cudaError_t SetDevice(DeviceIndex device, const bool) { return cudaSetDevice(device); }
cudaError_t MaybeSetDevice(DeviceIndex device) { return cudaSetDevice(device); }
void SetTargetDevice() {}
DeviceIndex ExchangeDevice(DeviceIndex device) {
  const DeviceIndex before = current_device();
  if (device >= 0) cudaSetDevice(device);
  return before;
}
DeviceIndex MaybeExchangeDevice(DeviceIndex device) { return ExchangeDevice(device); }

cudaStream_t CUDAStream::stream() const { return nullptr; }
static c10::Device on(DeviceIndex device) {
  return c10::Device(c10::DeviceType::CUDA, device < 0 ? current_device() : device);
}
CUDAStream getCurrentCUDAStream(DeviceIndex device) { return CUDAStream(guard()->getStream(on(device))); }
CUDAStream getDefaultCUDAStream(DeviceIndex device) { return CUDAStream(guard()->getDefaultStream(on(device))); }
CUDAStream getStreamFromPool(const bool, DeviceIndex device) {
  return CUDAStream(guard()->getStreamFromGlobalPool(on(device)));
}
CUDAStream getStreamFromPool(const int, DeviceIndex device) { return getStreamFromPool(false, device); }
CUDAStream getStreamFromExternal(cudaStream_t, DeviceIndex device) { return getDefaultCUDAStream(device); }
void setCurrentCUDAStream(CUDAStream stream) { guard()->exchangeStream(stream.unwrap()); }
std::ostream& operator<<(std::ostream& out, const CUDAStream& stream) { return out << stream.unwrap(); }

namespace CUDACachingAllocator {
// Its class differs between versions of torch: one of which every function refuses.
class CUDAAllocator;
static void refuse_to_allocate() { refuse("c10::cuda::CUDACachingAllocator"); }
static const auto refusing_functions = [] {
  std::array<void (*)(), 256> each{};
  each.fill(refuse_to_allocate);
  return each;
}();
static const void* const refusing = refusing_functions.data();
std::atomic<CUDAAllocator*> allocator{reinterpret_cast<CUDAAllocator*>(const_cast<const void**>(&refusing))};
}  // namespace CUDACachingAllocator
}  // namespace c10::cuda

namespace at::cuda {
cudaDeviceProp* getDeviceProperties(c10::DeviceIndex device) {
  static std::mutex lock;
  static std::map<int, cudaDeviceProp> all;
  std::lock_guard<std::mutex> held(lock);
  auto [one, made] = all.try_emplace(device < 0 ? c10::cuda::current_device() : device);
  if (made) cudaGetDeviceProperties(&one->second, one->first);
  return &one->second;
}
cudaDeviceProp* getCurrentDeviceProperties() { return getDeviceProperties(-1); }
int warp_size() { return getCurrentDeviceProperties()->warpSize; }
bool canDeviceAccessPeer(c10::DeviceIndex device, c10::DeviceIndex peer) { return device != peer; }
c10::Allocator* getCUDADeviceAllocator() { return c10::GetAllocator(c10::DeviceType::CUDA); }
}  // namespace at::cuda
