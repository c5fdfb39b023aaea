/* A CUDA driver and a CUPTI in one library, for machines without a GPU: what driver.c asks of both.
 *
 * Compiled with the headers of CUDA and CUPTI that Triton's wheel has: the structures passed are where
 * those headers say. A test loads it as libcuda.so.1 and as libcupti, and calls what begins with
 * stand_: the driver's functions as a program would call them, each with its callbacks.
 */
#define _GNU_SOURCE
#include <cuda.h>
#include <cupti.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static CUpti_CallbackFunc subscriber;
static void *user;
static char enabled[4096];
static int resources[64], capturing;
static const char *parameters_of;
static CUmodule unknown_module = (CUmodule)0x7;

CUptiResult cuptiSubscribe(CUpti_SubscriberHandle *handle, CUpti_CallbackFunc callback, void *data) {
  if (subscriber) return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  subscriber = callback, user = data, *handle = (CUpti_SubscriberHandle)1;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle handle) { (void)handle; subscriber = 0; return 0; }
CUptiResult cuptiEnableCallback(uint32_t on, CUpti_SubscriberHandle handle, CUpti_CallbackDomain domain, CUpti_CallbackId id) {
  (void)handle;
  if (domain == CUPTI_CB_DOMAIN_DRIVER_API && id < sizeof enabled) enabled[id] = (char)on;
  else if (domain == CUPTI_CB_DOMAIN_RESOURCE && id < 64) resources[id] = (int)on;
  else return CUPTI_ERROR_INVALID_PARAMETER;
  return 0;
}
CUptiResult cuptiGetDeviceId(CUcontext context, uint32_t *device) { *device = (uint32_t)(uintptr_t)context - 1; return 0; }

/* Activity: a record for each launch while it is enabled, handed over when it is flushed. */
static CUpti_BuffersCallbackRequestFunc request_buffer;
static CUpti_BuffersCallbackCompleteFunc complete_buffer;
static char recorded[64];
static uint8_t *buffer;
static size_t buffer_room, used;
static uint64_t clock_now = 1000, duration = 500;
static uint32_t correlation;
static size_t dropped;

CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request, CUpti_BuffersCallbackCompleteFunc complete) {
  request_buffer = request, complete_buffer = complete;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) { recorded[kind] = 1; return CUPTI_SUCCESS; }
CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind) { recorded[kind] = 0; return CUPTI_SUCCESS; }
CUptiResult cuptiGetTimestamp(uint64_t *now) { *now = clock_now; return CUPTI_SUCCESS; }
CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext context, uint32_t stream, size_t *count) {
  (void)context, (void)stream;
  *count = dropped, dropped = 0;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityGetNextRecord(uint8_t *data, size_t bytes, CUpti_Activity **record) {
  size_t at = 0;
  if (*record) {
    int is_copy = (*record)->kind == CUPTI_ACTIVITY_KIND_MEMCPY;
    size_t size = is_copy ? sizeof(CUpti_ActivityMemcpy6) : sizeof(CUpti_ActivityKernel9);
    at = (size_t)((uint8_t *)*record - data) + size;
  }
  if (at >= bytes) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = (CUpti_Activity *)(data + at);
  return CUPTI_SUCCESS;
}
/* CUPTI asks for a buffer when a record comes and it has no buffer. */
static void *new_record(CUpti_ActivityKind kind, size_t size) {
  if (!recorded[kind]) return 0;
  if (!buffer) request_buffer(&buffer, &buffer_room, &(size_t){0});
  if (!buffer || used + size > buffer_room) { dropped++; return 0; }
  void *record = memset(buffer + used, 0, size);
  used += size;
  return record;
}
static void ran(const char *name, const unsigned *grid, const unsigned *block, unsigned shared, unsigned stream) {
  CUpti_ActivityKernel9 *record = new_record(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, sizeof *record);
  if (!record) return;
  record->kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
  record->start = clock_now, record->end = clock_now += duration;
  record->streamId = stream, record->correlationId = correlation, record->name = name;
  record->gridX = (int)grid[0], record->gridY = (int)grid[1], record->gridZ = 1;
  record->blockX = (int)block[0], record->blockY = (int)block[1], record->blockZ = 1;
  record->dynamicSharedMemory = (int)shared;
}
void stand_duration(uint64_t ns) { duration = ns; }
void stand_wait(uint64_t ns) { clock_now += ns; }
void stand_copy(uint64_t bytes) {
  CUpti_ActivityMemcpy6 *record = new_record(CUPTI_ACTIVITY_KIND_MEMCPY, sizeof *record);
  if (!record) return;
  record->kind = CUPTI_ACTIVITY_KIND_MEMCPY, record->copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_HTOD;
  record->bytes = bytes, record->start = clock_now, record->end = clock_now += duration;
}
CUptiResult cuptiActivityFlushAll(uint32_t forced) {
  (void)forced;
  if (buffer) complete_buffer((CUcontext)1, 0, buffer, buffer_room, used);
  buffer = 0, used = 0;
  return CUPTI_SUCCESS;
}

/* Handles: a kernel is a pointer to this. */
typedef struct { const char *name; CUmodule module; int sizes[8]; int count; } Kernel;

CUresult cuFuncGetModule(CUmodule *module, CUfunction f) { *module = ((Kernel *)f)->module; return 0; }
CUresult cuFuncGetName(const char **name, CUfunction f) { *name = ((Kernel *)f)->name; return 0; }
CUresult cuFuncGetParamInfo(CUfunction f, size_t i, size_t *offset, size_t *size) {
  Kernel *kernel = (Kernel *)f;
  if ((int)i >= kernel->count) return CUDA_ERROR_INVALID_VALUE;
  *offset = 0, *size = (size_t)kernel->sizes[i];
  for (size_t j = 0; j < i; j++) *offset += (size_t)kernel->sizes[j];
  return 0;
}
CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status) {
  *status = capturing && stream == (CUstream)2 ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
  return 0;
}

/* Of cuda.h's errors, in the driver's own words. */
static const struct { CUresult error; const char *name, *words; } ERRORS[] = {
  {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
  {CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
  {CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE", "too many blocks in cooperative launch"},
  {CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"},
};
static CUresult of_error(CUresult error, const char **name, const char **words) {
  for (size_t i = 0; i < sizeof ERRORS / sizeof *ERRORS; i++)
    if (ERRORS[i].error == error) {
      *(name ? name : words) = name ? ERRORS[i].name : ERRORS[i].words;
      return CUDA_SUCCESS;
    }
  return CUDA_ERROR_INVALID_VALUE;
}
CUresult cuGetErrorName(CUresult error, const char **name) { return of_error(error, name, 0); }
CUresult cuGetErrorString(CUresult error, const char **words) { return of_error(error, 0, words); }

/* Graphs: an array of nodes. */
typedef struct { CUgraphNodeType type; CUDA_KERNEL_NODE_PARAMS params; void *child; } Node;
typedef struct { size_t count; Node *nodes[8]; } Graph;
CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *n) {
  Graph *g = (Graph *)graph;
  if (nodes && !*n) return CUDA_ERROR_INVALID_VALUE;
  if (nodes) memcpy(nodes, g->nodes, g->count * sizeof *nodes);
  *n = g->count;
  return 0;
}
CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type) { *type = ((Node *)node)->type; return 0; }
CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *params) { *params = ((Node *)node)->params; return 0; }
CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph *graph) { *graph = (CUgraph)((Node *)node)->child; return 0; }

static void call(CUpti_CallbackId id, CUpti_ApiCallbackSite site, const char *function, const void *params, CUresult *result, const char *symbol) {
  CUpti_CallbackData data = {0};
  if (!subscriber || !__atomic_load_n(&enabled[id], __ATOMIC_ACQUIRE)) return;
  data.callbackSite = site, data.functionName = function, data.functionParams = params;
  data.functionReturnValue = result, data.symbolName = symbol, data.context = (CUcontext)1;
  data.correlationId = correlation;
  subscriber(user, CUPTI_CB_DOMAIN_DRIVER_API, id, &data);
}
#define CALLED(id, params, symbol, result, body) do { CUresult done = result; correlation++; \
  call(CUPTI_DRIVER_TRACE_CBID_##id, CUPTI_API_ENTER, #id, &params, 0, symbol); body \
  call(CUPTI_DRIVER_TRACE_CBID_##id, CUPTI_API_EXIT, #id, &params, &done, symbol); } while (0)

static void loaded(const char *cubin, size_t bytes) {
  CUpti_ModuleResourceData module = {1, bytes, cubin};
  CUpti_ResourceData data = {0};
  data.context = (CUcontext)1, data.resourceDescriptor = &module;
  if (subscriber && resources[CUPTI_CBID_RESOURCE_MODULE_LOADED])
    subscriber(user, CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_MODULE_LOADED, &data);
}

int stand_enabled(void) { return enabled[CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel]; }

/* cuInit: the driver loads what the environment names. */
int stand_init(void) {
  const char *path = getenv("CUDA_INJECTION64_PATH");
  void *library = path ? dlopen(path, RTLD_NOW) : 0;
  int (*begin)(void) = library ? (int (*)(void))dlsym(library, "InitializeInjection") : 0;
  return begin ? begin() : -1;
}

void stand_load(CUmodule module, const char *cubin, size_t bytes) {
  CUmodule out;
  cuModuleLoadData_params params = {&out, cubin};
  CALLED(cuModuleLoadData, params, 0, CUDA_SUCCESS, { loaded(cubin, bytes); out = module; });
}
/* As a library's modules come: with the first launch of one of their kernels. */
void stand_load_lazily(const char *cubin, size_t bytes) { loaded(cubin, bytes); }
Kernel *stand_kernel(const char *name, CUmodule module, const int *sizes, int count) {
  Kernel *kernel = calloc(1, sizeof *kernel);
  kernel->name = strdup(name), kernel->module = module ? module : unknown_module, kernel->count = count;
  memcpy(kernel->sizes, sizes, (size_t)count * sizeof *sizes);
  return kernel;
}
void stand_get_function(Kernel *kernel, CUmodule module) {
  CUfunction out;
  cuModuleGetFunction_params params = {&out, module, kernel->name};
  CALLED(cuModuleGetFunction, params, 0, CUDA_SUCCESS, { out = (CUfunction)kernel; });
}
void stand_launch(Kernel *kernel, unsigned gx, unsigned gy, unsigned bx, unsigned by, unsigned shared, int stream, void **arguments, int result) {
  cuLaunchKernel_params params = {(CUfunction)kernel, gx, gy, 1, bx, by, 1, shared, (CUstream)(uintptr_t)stream, arguments, 0};
  unsigned grid[] = {gx, gy}, block[] = {bx, by};
  CALLED(cuLaunchKernel, params, kernel->name, (CUresult)result, {});
  if (!result && !(capturing && stream == 2)) ran(kernel->name, grid, block, shared, (unsigned)stream);
}
void stand_launch_buffer(Kernel *kernel, void *buffer, size_t bytes) {
  void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
  cuLaunchKernel_params params = {(CUfunction)kernel, 1, 1, 1, 32, 1, 1, 0, 0, 0, extra};
  CALLED(cuLaunchKernel, params, kernel->name, CUDA_SUCCESS, {});
}
void stand_launch_cluster(Kernel *kernel, unsigned gx, unsigned cluster) {
  CUlaunchAttribute attribute = {0};
  attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  attribute.value.clusterDim.x = cluster, attribute.value.clusterDim.y = attribute.value.clusterDim.z = 1;
  CUlaunchConfig config = {gx, 1, 1, 128, 1, 1, 0, 0, &attribute, 1};
  cuLaunchKernelEx_params params = {&config, (CUfunction)kernel, 0, 0};
  CALLED(cuLaunchKernelEx, params, kernel->name, CUDA_SUCCESS, {});
}
void stand_launch_lazily(Kernel *kernel, const char *cubin, size_t bytes) {
  cuLaunchKernel_params params = {(CUfunction)kernel, 4, 1, 1, 64, 1, 1, 0, 0, 0, 0};
  CALLED(cuLaunchKernel, params, kernel->name, CUDA_SUCCESS, { loaded(cubin, bytes); });
}
void stand_capture(int on) {
  CUgraph graph = 0;
  cuStreamBeginCapture_v2_params begin = {(CUstream)2, CU_STREAM_CAPTURE_MODE_GLOBAL};
  cuStreamEndCapture_params end = {(CUstream)2, &graph};
  if (on) CALLED(cuStreamBeginCapture_v2, begin, 0, CUDA_SUCCESS, { capturing = 1; });
  else CALLED(cuStreamEndCapture, end, 0, CUDA_SUCCESS, { capturing = 0; });
}
Graph *stand_graph(void) { return calloc(1, sizeof(Graph)); }
void stand_add(Graph *graph, int type, Kernel *kernel, unsigned gx, Graph *child) {
  Node *node = calloc(1, sizeof *node);
  node->type = (CUgraphNodeType)type, node->child = child;
  node->params.func = (CUfunction)kernel;
  node->params.gridDimX = gx, node->params.gridDimY = node->params.gridDimZ = 1;
  node->params.blockDimX = 32, node->params.blockDimY = node->params.blockDimZ = 1;
  graph->nodes[graph->count++] = node;
}
static Graph *graph_of_last;   /* the one that was instantiated last: what a replay runs */
void stand_instantiate(Graph *graph, CUgraphExec exec) {
  graph_of_last = graph;
  CUgraphExec out;
  cuGraphInstantiateWithFlags_params params = {&out, (CUgraph)graph, 0};
  CALLED(cuGraphInstantiateWithFlags, params, 0, CUDA_SUCCESS, { out = exec; });
}
void stand_update(CUgraphExec exec, Graph *graph) {
  cuGraphExecUpdate_v2_params params = {exec, (CUgraph)graph, 0};
  CALLED(cuGraphExecUpdate_v2, params, 0, CUDA_SUCCESS, {});
}
void stand_replay(CUgraphExec exec) {
  cuGraphLaunch_params params = {exec, 0};
  CALLED(cuGraphLaunch, params, 0, CUDA_SUCCESS, {});
  if (graph_of_last) for (size_t i = 0; i < graph_of_last->count; i++) {
    CUDA_KERNEL_NODE_PARAMS *node = &graph_of_last->nodes[i]->params;
    if (!node->func) continue;
    unsigned grid[] = {node->gridDimX, node->gridDimY}, block[] = {node->blockDimX, node->blockDimY};
    ran(((Kernel *)node->func)->name, grid, block, 0, 0);
  }
}
void stand_destroy(CUgraphExec exec) {
  cuGraphExecDestroy_params params = {exec};
  CALLED(cuGraphExecDestroy, params, 0, CUDA_SUCCESS, {});
}
