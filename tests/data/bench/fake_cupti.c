/* A libcupti that records what it is told to, without a device: its records are those of NVIDIA's
   cupti_activity.h, in the version that KERNEL, COPY, PEER and FILL name; how it behaves is what
   that header says of the activity API. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cupti.h"
#include "cupti_activity_deprecated.h"

static CUpti_BuffersCallbackRequestFunc request;
static CUpti_BuffersCallbackCompleteFunc complete;
static int enabled[256], broken, late;
static uint8_t *buffer;
static size_t size, used;
/* What a flush has not given out yet, since its time stamps were late. */
static int waits;

CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc r,
                                           CUpti_BuffersCallbackCompleteFunc c) {
  request = r;
  complete = c;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiGetResultString(CUptiResult result, const char **text) {
  *text = "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES";
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) {
  if (broken) return CUPTI_ERROR_INSUFFICIENT_PRIVILEGES;
  enabled[kind] = 1;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind) {
  enabled[kind] = 0;
  return CUPTI_SUCCESS;
}

static size_t length(CUpti_ActivityKind kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_MEMCPY: return sizeof(COPY);
    case CUPTI_ACTIVITY_KIND_MEMCPY2: return sizeof(PEER);
    case CUPTI_ACTIVITY_KIND_MEMSET: return sizeof(FILL);
    default: return sizeof(KERNEL);
  }
}

CUptiResult cuptiActivityGetNextRecord(uint8_t *from, size_t valid, CUpti_Activity **record) {
  uint8_t *next = *record ? (uint8_t *)*record + length((*record)->kind) : from;
  if (next >= from + valid) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = (CUpti_Activity *)next;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityFlushAll(uint32_t flag) {
  if (waits && !flag) {
    waits--;
    return CUPTI_SUCCESS;
  }
  if (buffer) complete(NULL, 0, buffer, size, used);
  buffer = NULL;
  return CUPTI_SUCCESS;
}

static void *place(CUpti_ActivityKind kind) {
  if (!enabled[kind]) return NULL;
  if (buffer && used + length(kind) > size) cuptiActivityFlushAll(1);
  if (!buffer) {
    size_t most = 1;
    used = 0;
    request(&buffer, &size, &most);
    if (!buffer || most || (uintptr_t)buffer % 8) abort();
  }
  void *at = buffer + used;
  memset(at, 0xa5, length(kind));
  *(CUpti_ActivityKind *)at = kind;
  used += length(kind);
  waits = late;
  return at;
}

/* What a test has the device do. */
void does_kernel(const char *name, uint64_t start, uint64_t end) {
  KERNEL *at = place(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  if (at) at->name = name, at->start = start, at->end = end;
}

void does_copy(int how, int from, int to, uint64_t start, uint64_t end) {
  COPY *at = place(CUPTI_ACTIVITY_KIND_MEMCPY);
  if (at) at->copyKind = how, at->srcKind = from, at->dstKind = to;
  if (at) at->start = start, at->end = end;
}

void does_copy_to_a_peer(uint64_t start, uint64_t end) {
  PEER *at = place(CUPTI_ACTIVITY_KIND_MEMCPY2);
  if (at) at->copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_PTOP;
  if (at) at->srcKind = at->dstKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  if (at) at->start = start, at->end = end;
}

void does_fill(int kind, uint64_t start, uint64_t end) {
  FILL *at = place(CUPTI_ACTIVITY_KIND_MEMSET);
  if (at) at->memoryKind = kind, at->start = start, at->end = end;
}

void is_late(int flushes) { late = flushes; }
void is_broken(int value) { broken = value; }
int holds_a_buffer(void) { return buffer != NULL; }
