/* Modules that the CUDA driver loads and kernels that it launches, by any compiler or library.
 *
 * A subscriber of CUPTI's callbacks: no counters, no permission. A callback copies numbers, texts and
 * the bytes of modules into a queue; a thread of this library appends them to one file, as the
 * records below, and turns launches' callbacks and activity records (activity.c) off while nothing
 * new is launched. inspector/recording/driver_records.py reads the file and knows what it means.
 *
 * No header of NVIDIA's is needed to compile this: what is declared here is the documented ABI of
 * CUPTI (cupti_callbacks.h, generated_cuda_meta.h) and of the driver (cuda.h); tests compare it
 * with those headers.
 *
 * Locks, in the order in which they are taken:
 *   writing     one thread at a time takes from the queue and appends to the file
 *   switching   turns callbacks on and off, or leaves: CUPTI is called within it, no other lock is taken
 *               but ``queued``
 *   lock        entries, graphs and handles. Callbacks of calls that have returned hold it, and ask
 *               the driver within it
 *   queued      the queue. Nothing is called within it. Callbacks of modules, which the driver makes
 *               within its own locks, take this one alone, and CUPTI's callbacks of buffers
 */
#include "driver.h"
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* -- what CUPTI and the driver hand over ------------------------------------------------------ */

typedef struct {
  int site;                  /* 0 when the call begins, 1 when it has returned */
  const char *function;
  const void *params;        /* the structure of generated_cuda_meta.h */
  void *result;              /* a CUresult, when it has returned */
  const char *symbol;        /* of launches: the kernel's mangled name */
  void *context;
  uint32_t context_uid;
  uint64_t *correlation_data;
  uint32_t correlation_id;
} Callback;

typedef struct { void *context, *handle, *descriptor; } Resource;
typedef struct { uint32_t id; size_t bytes; const char *cubin; } ModuleLoaded;

typedef struct {
  void *f;
  unsigned grid[3], block[3], shared;
  void *stream;
  void **params, **extra;
} Launch;

typedef struct { unsigned id; char pad[4]; unsigned value[16]; } Attribute;
typedef struct {
  unsigned grid[3], block[3], shared;
  void *stream;
  Attribute *attributes;
  unsigned count;
} Config;
typedef struct { const Config *config; void *f; void **params, **extra; } LaunchEx;

typedef struct {
  void *f;
  unsigned grid[3], block[3], shared;
  void **params, **extra;
  void *kernel, *context;
} NodeParams;

enum { DRIVER_API = 1, RESOURCE = 3 };
enum { MODULE_LOADED = 6 };
enum {
  LOAD = 18, LOAD_DATA = 19, LOAD_DATA_EX = 20, LOAD_FATBIN = 21, GET_FUNCTION = 23,
  LAUNCH = 307, LAUNCH_PTSZ = 442, COOPERATIVE = 477, COOPERATIVE_PTSZ = 478,
  COOPERATIVE_MULTI = 480,
  CAPTURE = 495, CAPTURE_PTSZ = 496, CAPTURED = 497, CAPTURED_PTSZ = 498,
  CAPTURE_2 = 539, CAPTURE_2_PTSZ = 540, CAPTURE_TO = 720, CAPTURE_TO_PTSZ = 721,
  INSTANTIATE = 513, INSTANTIATE_2 = 578, INSTANTIATE_FLAGS = 643, INSTANTIATE_PARAMS = 656,
  INSTANTIATE_PARAMS_PTSZ = 657,
  GRAPH_LAUNCH = 514, GRAPH_LAUNCH_PTSZ = 515, EXEC_DESTROY = 516,
  SET_NODE = 538, SET_NODE_2 = 692, SET_ANY_NODE = 714, UPDATE = 561, UPDATE_2 = 696,
  LAUNCH_EX = 652, LAUNCH_EX_PTSZ = 653, GET_KERNEL = 681, KERNEL_FUNCTION = 683
};
static const uint32_t WATCHED[] = {
  LOAD, LOAD_DATA, LOAD_DATA_EX, LOAD_FATBIN, GET_FUNCTION, CAPTURE, CAPTURE_PTSZ, CAPTURED,
  CAPTURED_PTSZ, CAPTURE_2, CAPTURE_2_PTSZ, CAPTURE_TO, CAPTURE_TO_PTSZ, INSTANTIATE, INSTANTIATE_2,
  INSTANTIATE_FLAGS, INSTANTIATE_PARAMS, INSTANTIATE_PARAMS_PTSZ, GRAPH_LAUNCH, GRAPH_LAUNCH_PTSZ,
  EXEC_DESTROY, SET_NODE, SET_NODE_2, SET_ANY_NODE, UPDATE, UPDATE_2, GET_KERNEL, KERNEL_FUNCTION,
};
/* Enabled for a part of the time, once nothing new has been launched for a while. */
static const uint32_t SAMPLED[] = {
  LAUNCH, LAUNCH_PTSZ, COOPERATIVE, COOPERATIVE_PTSZ, COOPERATIVE_MULTI, LAUNCH_EX, LAUNCH_EX_PTSZ,
};

static struct {
  Answer subscribe, unsubscribe, enable, device_of;                                /* CUPTI */
  Answer module_of, param_info, kernel_param_info, is_capturing, name_of, kernel_name;   /* driver */
  Answer nodes, node_type, node_params, child;
  Answer error_name, error_words;
} ask;

/* -- records: what the file consists of; driver_records.py has the same ------------------------- */

typedef struct { uint32_t format; int32_t error; } Began;                /* the program's path */
typedef struct { uint32_t number, lost; } ModuleHead;                    /* the cubin, unless lost */
typedef struct {
  uint32_t entry;
  int32_t module, device;
  uint32_t grid[3], block[3], shared, cluster[3], flags, frames, parameters, bytes, text;
} EntryHead;   /* frames: u64 each; parameters' sizes: u16 each; their bytes; the symbol */
enum { OTHERS = 1, IN_GRAPH = 2, BY_OPERATOR = 4, TUNING = 8, CANDIDATE_SHIFT = 8 };
typedef struct { int32_t module; uint32_t dims[7]; uint32_t texts[3]; } RefusedHead;
typedef struct { uint32_t sampled, counts; uint64_t lost[6]; } CountsHead;
typedef struct { uint64_t entry, count, replayed, varied, captured; } Count;
typedef struct { uint64_t address; uint32_t library, symbol; } FrameHead;

/* -- state ------------------------------------------------------------------------------------ */

#define MAX_ENTRIES_OF_KERNEL 256
#define MAX_QUEUED_BYTES (256ul << 20)
#define MAX_FILE_BYTES (768ul << 20)
#define MAX_PARAMETERS 64
#define MAX_PARAMETER_BYTES 4096      /* of one launch: CUDA 12.0 allows no more */
#define MAX_REFUSED 64                /* distinct refused launches */
#define MAX_FRAMES 96
#define MAX_ADDRESSES 16384           /* distinct frames that are named */
#define TICK_MS 250                   /* between two records of counts */
#define TIMES_MS 2000                 /* between two records of times: CUPTI's flush is dear */

typedef struct { uint16_t offset, size, at; } Parameter;

/* What every launch reads and writes is in one line of a cache, the rest after it. */
typedef struct {
  void *f;                   /* 0 when its module was unloaded */
  uint64_t count;
  uint64_t varied;           /* a bit for each parameter that not every such launch had alike */
  uint64_t captured;         /* into graphs: asked for, and not launched */
  Parameter *sizes;          /* as the first such launch had them */
  unsigned char *bytes;      /* in the same block */
  int parameters;
  int others;                /* launches of a kernel that are not told apart */
  uint64_t told;             /* the sum of all counts that is written already */
  uint64_t replayed;         /* by graphs */
  char *symbol;
  int module, device, operator, tuning;
  unsigned dims[7], cluster[3];
} __attribute__((aligned(64))) Entry;

typedef struct {
  void *exec;
  int *entries;
  int count, gone;
  uint64_t launched;
} Exec;

static pthread_mutex_t writing = PTHREAD_MUTEX_INITIALIZER, switching = PTHREAD_MUTEX_INITIALIZER;
pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER, queued = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work;
static Item *first_item, **last_item = &first_item;
static size_t queued_bytes, file_bytes;
static int module_count, on, sampled, may_switch;   /* under ``queued``, as is ``news`` */
static uint64_t news;                               /* when something new was seen, in ms */
static uint64_t quiet_ms = 2000, window_ms = 1000, period_ms = 10000;
static Entry *entries;
static int entry_count;
static uint16_t table[MAX_ENTRIES * 2];   /* entries by their hash, from 1 */
static struct Handle { void *handle; int module; } *handles;
static int handle_count, handle_room;
static Exec *execs;
static int exec_count, exec_room;
static int by_operator, capturing, active, ready, owner, written, forced;
static uint64_t lost[6], lost_told, addresses[MAX_ADDRESSES];
static int address_count;
static void *subscriber;
static char root[4096], path[4400], timeline_path[4400], cupti_path[4096], file_tag[64];
static __thread int loaded_here = -1, busy, tuning;

void lose(int what, uint64_t n) { __atomic_fetch_add(&lost[what], n, __ATOMIC_RELAXED); }

uint64_t clock_ns(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}
static uint64_t now_ms(void) { return clock_ns(CLOCK_MONOTONIC) / 1000000; }

/* -- the queue -------------------------------------------------------------------------------- */

Item *item_of(uint32_t kind, size_t bytes) {
  Item *item = bytes < UINT32_MAX ? malloc(sizeof *item + bytes) : 0;
  if (item) *item = (Item){0, {kind, (uint32_t)bytes, clock_ns(CLOCK_REALTIME)}};
  return item;
}
char *data_of(Item *item) { return (char *)(item + 1); }

/* With ``queued`` held. 0 where the queue is full; the item is freed. */
static int push_locked(Item *item) {
  size_t bytes = sizeof *item + item->head.bytes;
  if (queued_bytes + bytes > MAX_QUEUED_BYTES) { free(item); return 0; }
  queued_bytes += bytes;
  *last_item = item, last_item = &item->next;
  news = now_ms();
  pthread_cond_signal(&work);
  return 1;
}
static int push(Item *item) {
  if (!item) return 0;
  pthread_mutex_lock(&queued);
  int done = push_locked(item);
  pthread_mutex_unlock(&queued);
  return done;
}
void push_quietly(Item *item) {
  pthread_mutex_lock(&queued);
  uint64_t before = news;
  push_locked(item), news = before;
  pthread_mutex_unlock(&queued);
}

void put(char **to, const void *from, size_t bytes) {
  if (bytes) memcpy(*to, from, bytes);
  *to += bytes;
}

static void push_texts(uint32_t kind, const void *head, size_t size, const char *one, const char *two,
                       const char *three) {
  size_t n[3] = {one ? strlen(one) : 0, two ? strlen(two) : 0, three ? strlen(three) : 0};
  Item *item = item_of(kind, size + n[0] + n[1] + n[2]);
  if (!item) return;
  char *to = data_of(item);
  put(&to, head, size), put(&to, one, n[0]), put(&to, two, n[1]), put(&to, three, n[2]);
  push(item);
}

static void module_loaded(const ModuleLoaded *loaded) {
  size_t bytes = loaded->cubin ? loaded->bytes : 0;
  pthread_mutex_lock(&queued);
  int full = queued_bytes + bytes > MAX_QUEUED_BYTES || file_bytes + bytes > MAX_FILE_BYTES;
  int number = loaded_here = module_count++;
  pthread_mutex_unlock(&queued);
  Item *item = item_of(MODULE, sizeof(ModuleHead) + (full ? 0 : bytes));
  if (item) {
    ModuleHead head = {(uint32_t)number, full || !bytes};
    char *to = data_of(item);
    put(&to, &head, sizeof head), put(&to, loaded->cubin, full ? 0 : bytes);
  }
  if (!push(item) || full || !bytes) lose(LOST_MODULES, 1);
}

/* -- the file --------------------------------------------------------------------------------- */

int above_streams(int fd) {
  /* The program may have closed one of its streams: what it opens next may become it. */
  if (fd < 0 || fd > 2) return fd;
  int high = fcntl(fd, F_DUPFD_CLOEXEC, 3);
  close(fd);
  return high;
}

int write_all(int fd, const char *data, size_t n) {
  while (n) {
    ssize_t done = write(fd, data, n);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return -1;
    data += done, n -= (size_t)done;
  }
  return 0;
}

/* The library and the function of a frame: once for each address, since dladdr looks through all of a
 * library's symbols, of which libtorch_cpu has 200,000. */
static void name_frame(int fd, uint64_t address) {
  uint64_t at = address * 0x9e3779b97f4a7c15ull >> 50;   /* 14 bits */
  while (addresses[at] && addresses[at] != address) at = (at + 1) % MAX_ADDRESSES;
  if (addresses[at] || address_count > MAX_ADDRESSES / 4 * 3) return;
  addresses[at] = address, address_count++;
  Dl_info info = {0};
  if (!dladdr((void *)(uintptr_t)(address - 1), &info)) return;
  const char *library = info.dli_fname ? info.dli_fname : "", *symbol = info.dli_sname ? info.dli_sname : "";
  struct { Record head; FrameHead frame; } record = {
    {FRAME, (uint32_t)(sizeof(FrameHead) + strlen(library) + strlen(symbol)), 0},
    {address, (uint32_t)strlen(library), (uint32_t)strlen(symbol)}};
  if (write_all(fd, (char *)&record, sizeof record) || write_all(fd, library, record.frame.library)
      || write_all(fd, symbol, record.frame.symbol)) lose(FAILED_WRITES, 1);
}

/* Append what is queued. */
static void write_queue(void) {
  pthread_mutex_lock(&writing);
  pthread_mutex_lock(&queued);
  Item *items = first_item;
  first_item = 0, last_item = &first_item;
  pthread_mutex_unlock(&queued);
  if (items) {
    /* A file that was deleted is gone on purpose: only the first write makes it. */
    int flags = O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW | (written ? 0 : O_CREAT);
    int fd = above_streams(open(path, flags, 0644));
    struct stat before;
    for (Item *item = items; item; item = item->next) {
      size_t bytes = sizeof item->head + item->head.bytes;
      if (fd < 0 || fstat(fd, &before) || write_all(fd, (char *)&item->head, bytes)) {
        lose(FAILED_WRITES, 1);
        /* A record that is cut short would swallow the next. */
        if (fd >= 0 && ftruncate(fd, before.st_size)) lose(FAILED_WRITES, 1);
      } else written = 1;
    }
    size_t total = 0;
    for (Item *item = items, *next; item; free(item), item = next) {
      next = item->next, total += sizeof *item + item->head.bytes;
      if (item->head.kind != ENTRY || fd < 0) continue;
      EntryHead head;
      memcpy(&head, data_of(item), sizeof head);
      for (uint32_t i = 0; i < head.frames; i++) {
        uint64_t frame;
        memcpy(&frame, data_of(item) + sizeof head + i * sizeof frame, sizeof frame);
        name_frame(fd, frame);
      }
    }
    if (fd >= 0) close(fd);
    pthread_mutex_lock(&queued);
    queued_bytes -= total, file_bytes += total;
    pthread_mutex_unlock(&queued);
  }
  pthread_mutex_unlock(&writing);
}

/* Queue counts that have changed. Asks nobody. */
static void queue_counts(void) {
  pthread_mutex_lock(&lock);
  for (int i = 0; i < exec_count; i++) {
    for (int j = 0; j < execs[i].count && execs[i].launched; j++)
      if (execs[i].entries[j] >= 0) entries[execs[i].entries[j]].replayed += execs[i].launched;
    execs[i].launched = 0;
  }
  int changed = 0;
  uint64_t sum = sampled ? 1ull << 63 : 0;
  for (int i = 0; i < entry_count; i++)
    changed += entries[i].count + entries[i].replayed + entries[i].captured != entries[i].told;
  for (int i = 0; i < 6; i++) sum += lost[i];
  Item *item = changed || sum != lost_told
    ? item_of(COUNTS, sizeof(CountsHead) + (size_t)changed * sizeof(Count)) : 0;
  if (item) {
    CountsHead head = {sampled != 0, (uint32_t)changed, {0}};
    memcpy(head.lost, lost, sizeof lost);
    char *to = data_of(item);
    put(&to, &head, sizeof head);
    for (int i = 0; i < entry_count; i++) {
      Entry *entry = &entries[i];
      uint64_t total = entry->count + entry->replayed + entry->captured;
      if (total == entry->told) continue;
      Count count = {(uint64_t)i, entry->count, entry->replayed, entry->varied, entry->captured};
      put(&to, &count, sizeof count);
      entry->told = total;
    }
    lost_told = sum;
    push_quietly(item);
  }
  pthread_mutex_unlock(&lock);
}

/* -- on and off ------------------------------------------------------------------------------- */

static void enable_all(const uint32_t *callbacks, size_t bytes, int yes) {
  for (size_t i = 0; i < bytes / sizeof *callbacks; i++)
    ask.enable((uint32_t)yes, subscriber, DRIVER_API, callbacks[i]);
}

static void enable_sampled(int yes) {
  enable_all(SAMPLED, sizeof SAMPLED, yes);
  activity_watch(yes);
}

/* Read the records of what has run. */
static void take_activity(void) {
  pthread_mutex_lock(&switching);
  if (active && may_switch) activity_flush(0);
  pthread_mutex_unlock(&switching);
  activity_read();
}

/* All launches are seen until nothing was new for ``quiet_ms``, then those of a window of each period. */
static void turn(void) {
  static uint64_t since;
  pthread_mutex_lock(&switching);
  pthread_mutex_lock(&queued);
  uint64_t now = now_ms();
  int quiet = now - news >= quiet_ms && !__atomic_load_n(&capturing, __ATOMIC_RELAXED);
  if (!quiet) since = now;
  int wanted = !quiet || (now - since) % period_ms >= period_ms - window_ms;
  int change = active && may_switch && !forced && wanted != on;
  if (change && !wanted) on = 0, sampled = 1;
  pthread_mutex_unlock(&queued);
  if (change) enable_sampled(wanted);
  pthread_mutex_lock(&queued);
  if (change && wanted) on = 1;
  pthread_mutex_unlock(&queued);
  pthread_mutex_unlock(&switching);
  if (change && !wanted) take_activity(), activity_end_window(0), activity_queue_times();
}

/* A module was loaded, or a capture begins: have launches be seen before the program goes on. Waits
 * at most 5 ms, in case that CUPTI waits for this callback's end. */
static void see_launches(void) {
  pthread_mutex_lock(&queued);
  news = now_ms();
  pthread_cond_signal(&work);
  pthread_mutex_unlock(&queued);
  for (int i = 0; i < 50 && !__atomic_load_n(&on, __ATOMIC_ACQUIRE) && may_switch; i++) usleep(100);
}

static void *work_on(void *nothing) {
  uint64_t counted = now_ms(), timed = counted;
  while (active) {
    struct timespec until;
    uint64_t tick = quiet_ms < TICK_MS ? quiet_ms : TICK_MS;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += (long)tick * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000, until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&queued);
    if (!first_item && !(news + quiet_ms > now_ms() && !on))
      pthread_cond_timedwait(&work, &queued, &until);
    pthread_mutex_unlock(&queued);
    turn();
    if (now_ms() - counted >= tick) activity_read(), queue_counts(), counted = now_ms();
    if (on && now_ms() - timed >= TIMES_MS) take_activity(), activity_queue_times(), timed = now_ms();
    write_queue();
  }
  return nothing;
}

/* -- handles: which module a function is of ----------------------------------------------------- */

static int tied(void *handle) {
  for (int i = handle_count - 1; handle && i >= 0; i--)
    if (handles[i].handle == handle) return handles[i].module;
  return -1;
}

static void tie(void *handle, int module) {
  if (!handle || module < 0) return;
  for (int i = handle_count - 1; i >= 0; i--)
    if (handles[i].handle == handle) {
      /* A handle that comes again: what it was of is unloaded, and its functions mean nothing. */
      for (int j = 0; handles[i].module != module && j < entry_count; j++)
        if (entries[j].module == handles[i].module) entries[j].f = 0;
      handles[i].module = module;
      return;
    }
  if (handle_count == handle_room) {
    int room = handle_room ? handle_room * 2 : 256;
    void *grown = realloc(handles, (size_t)room * sizeof *handles);
    if (!grown) return;
    handles = grown, handle_room = room;
  }
  handles[handle_count].handle = handle, handles[handle_count++].module = module;
}

static void *module_handle(void *f) {
  void *handle = 0;
  return ask.module_of && !ask.module_of(&handle, f) ? handle : 0;
}

static int module_of(void *f) {
  int module = tied(f);
  return module >= 0 ? module : tied(module_handle(f));
}

static void tie_launched(void *f) {
  if (loaded_here < 0) return;
  tie(f, loaded_here), tie(module_handle(f), loaded_here);
  loaded_here = -1;
}

static const char *name_of(void *f, const char *symbol) {
  if (symbol && *symbol) return symbol;
  const char *asked = 0;
  if (ask.name_of && !ask.name_of(&asked, f) && asked) return asked;
  return ask.kernel_name && !ask.kernel_name(&asked, f) ? asked : 0;
}

/* -- launches --------------------------------------------------------------------------------- */

/* A launch, by any of the functions that launch. */
typedef struct {
  void *f, *stream, **params, **extra;
  unsigned dims[7], cluster[3];   /* grid, block and dynamic shared memory */
} Asked;

static int is_launch(const Callback *call, uint32_t id, Asked *a) {
  memset(a, 0, sizeof *a);
  if (id == LAUNCH_EX || id == LAUNCH_EX_PTSZ) {
    const LaunchEx *p = call->params;
    const Config *config = p->config;
    if (!config) return 0;
    *a = (Asked){.f = p->f, .stream = config->stream, .params = p->params, .extra = p->extra};
    memcpy(a->dims, config->grid, sizeof a->dims);
    for (unsigned i = 0; i < config->count; i++)
      if (config->attributes[i].id == 4) memcpy(a->cluster, config->attributes[i].value, sizeof a->cluster);
  } else if (id == LAUNCH || id == LAUNCH_PTSZ || id == COOPERATIVE || id == COOPERATIVE_PTSZ) {
    const Launch *p = call->params;
    *a = (Asked){.f = p->f, .stream = p->stream, .params = p->params};
    if (id == LAUNCH || id == LAUNCH_PTSZ) a->extra = p->extra;   /* a cooperative launch has none */
    memcpy(a->dims, p->grid, sizeof a->dims);
  }
  return a->f != 0;
}

/* Where a launch has its parameter: an array of pointers, or one buffer with its size. */
static const unsigned char *parameter(const Asked *a, int i, size_t offset, size_t size) {
  if (a->params) return a->params[i];
  const unsigned char *buffer = 0;
  size_t bytes = 0;
  for (int j = 0; a->extra && a->extra[j] && j < 8; j += 2) {
    if (a->extra[j] == (void *)1) buffer = a->extra[j + 1];         /* CU_LAUNCH_PARAM_BUFFER_POINTER */
    else if (a->extra[j] == (void *)2) bytes = *(size_t *)a->extra[j + 1];
  }
  return buffer && offset + size <= bytes ? buffer + offset : 0;
}

static int size_of_parameter(void *f, size_t i, size_t *offset, size_t *size) {
  return (ask.param_info && !ask.param_info(f, i, offset, size))
      || (ask.kernel_param_info && !ask.kernel_param_info(f, i, offset, size));
}

static void keep_parameters(Entry *entry, const Asked *a) {
  Parameter sizes[MAX_PARAMETERS];
  unsigned char bytes[MAX_PARAMETER_BYTES];
  size_t offset, size, total = 0;
  int n = 0;
  if (!a->params && !a->extra) return;
  for (; n < MAX_PARAMETERS && size_of_parameter(a->f, (size_t)n, &offset, &size); n++) {
    const unsigned char *from = parameter(a, n, offset, size);
    if (!from || total + size > MAX_PARAMETER_BYTES || offset > 65535) break;
    memcpy(bytes + total, from, size);
    sizes[n] = (Parameter){(uint16_t)offset, (uint16_t)size, (uint16_t)total};
    total += size;
  }
  Parameter *block = malloc((size_t)n * sizeof *block + total + 1);
  if (!block) return;
  entry->sizes = memcpy(block, sizes, (size_t)n * sizeof *block);
  entry->bytes = memcpy(block + n, bytes, total);
  entry->parameters = n;
}

static void compare_parameters(Entry *entry, const Asked *a) {
  for (int i = 0; i < entry->parameters; i++) {
    if (entry->varied >> i & 1) continue;
    const unsigned char *now = parameter(a, i, entry->sizes[i].offset, entry->sizes[i].size);
    if (!now || memcmp(now, entry->bytes + entry->sizes[i].at, entry->sizes[i].size))
      entry->varied |= 1ull << i, entry->told = ~0ull;
  }
}

static int device_of(void *context) {
  uint32_t device = 0;
  return ask.device_of && context && !ask.device_of(context, &device) ? (int)device : -1;
}

static void push_entry(int number, int in_graph) {
  Entry *entry = &entries[number];
  void *frames[MAX_FRAMES];
  int depth = backtrace(frames, MAX_FRAMES);
  size_t bytes = 0, text = strlen(entry->symbol);
  for (int i = 0; i < entry->parameters; i++) bytes += entry->sizes[i].size;
  EntryHead head = {
    .entry = (uint32_t)number, .module = entry->module, .device = entry->device,
    .shared = entry->dims[6], .frames = (uint32_t)depth, .parameters = (uint32_t)entry->parameters,
    .bytes = (uint32_t)bytes, .text = (uint32_t)text,
    .flags = (entry->others ? OTHERS : 0) | (in_graph ? IN_GRAPH : 0) | (by_operator ? BY_OPERATOR : 0)
      | (entry->tuning ? TUNING | (uint32_t)(entry->tuning - 1) << CANDIDATE_SHIFT : 0),
  };
  memcpy(head.grid, entry->dims, sizeof head.grid);
  memcpy(head.block, entry->dims + 3, sizeof head.block);
  memcpy(head.cluster, entry->cluster, sizeof head.cluster);
  Item *item = item_of(ENTRY, sizeof head + (size_t)depth * 8 + head.parameters * 2ul + bytes + text);
  if (!item) { lose(LOST_LAUNCHES, 1); return; }
  char *to = data_of(item);
  put(&to, &head, sizeof head);
  for (int i = 0; i < depth; i++) {
    uint64_t frame = (uintptr_t)frames[i];
    put(&to, &frame, sizeof frame);
  }
  for (int i = 0; i < entry->parameters; i++) put(&to, &entry->sizes[i].size, 2);
  put(&to, entry->bytes, bytes), put(&to, entry->symbol, text);
  if (!push(item)) lose(LOST_LAUNCHES, 1);
}

/* What tells launches from different operators apart: the frames. Which are of operators, the reader
 * knows, and joins those that are alike. */
static int operators_now(void) {
  void *frames[MAX_FRAMES];
  int n = by_operator ? backtrace(frames, MAX_FRAMES) : 0;
  uint64_t h = 1469598103934665603ull;
  for (int i = 0; i < n; i++) h = (h ^ (uintptr_t)frames[i]) * 1099511628211ull;
  return n ? (int)(h >> 33) | 1 : 0;
}

uint64_t mixed(const void *f, const unsigned dims[7], int other) {
  uint64_t h = (uint64_t)(uintptr_t)f * 0x9e3779b97f4a7c15ull + (unsigned)other;
  for (int i = 0; i < 7; i++) h = (h ^ dims[i]) * 0x100000001b3ull;
  return h ^ h >> 29;
}

/* Where the table has a launch, or would have it. */
static uint16_t *place_of(const Asked *a, int device, int operator, int tunes) {
  for (unsigned at = (unsigned)mixed(a->f, a->dims, device ^ operator ^ tunes << 16);; at++) {
    uint16_t *place = &table[at % (MAX_ENTRIES * 2)];
    const Entry *entry = *place ? &entries[*place - 1] : 0;
    if (!entry || (entry->f == a->f && entry->device == device && entry->operator == operator
        && entry->tuning == tunes
        && !memcmp(entry->dims, a->dims, sizeof a->dims)
        && !memcmp(entry->cluster, a->cluster, sizeof a->cluster))) return place;
  }
}

/* The entry of a launch, made if missing: -1 without room. */
static int entry_of(const Asked *a, const char *symbol, int device, int in_graph) {
  Asked others = {.f = a->f};   /* all launches of a kernel that are not told apart */
  int operator = by_operator ? operators_now() : 0, same = 0;
  int tunes = tuning;
  uint16_t *place = place_of(a, device, operator, tunes);
  if (*place) return *place - 1;
  uint16_t *rest = place_of(&others, device, 0, tunes);
  if (*rest) return *rest - 1;
  if (entry_count >= MAX_ENTRIES || !(symbol = name_of(a->f, symbol))) return -1;
  for (int i = 0; i < entry_count; i++) same += entries[i].f == a->f;
  if (same >= MAX_ENTRIES_OF_KERNEL) a = &others, operator = 0, place = rest;
  Entry *entry = &entries[entry_count];
  memset(entry, 0, sizeof *entry);
  if (!(entry->symbol = strdup(symbol))) return -1;
  entry->f = a->f, entry->others = a == &others, entry->module = module_of(a->f);
  entry->device = device, entry->operator = operator, entry->tuning = tunes;
  memcpy(entry->dims, a->dims, sizeof entry->dims);
  memcpy(entry->cluster, a->cluster, sizeof entry->cluster);
  keep_parameters(entry, a);
  *place = (uint16_t)(entry_count + 1);
  push_entry(entry_count, in_graph);
  return entry_count++;
}

int is_alike(int entry, const unsigned dims[7]) {
  return entry >= 0 && !memcmp(entries[entry].dims, dims, sizeof entries[entry].dims);
}

/* An entry by its activity record: the program's own before an autotuner's. */
int entry_named(const char *symbol, const unsigned dims[7]) {
  int entry = -1;
  for (int i = 0; i < entry_count; i++)
    if (is_alike(i, dims) && !strcmp(entries[i].symbol, symbol) && (entry < 0 || entries[entry].tuning))
      entry = i;
  return entry;
}

static int in_capture(void *stream) {
  int status = 0;
  return capturing > 0 && ask.is_capturing && !ask.is_capturing(stream, &status) && status;
}

static void launched(const Callback *call, const Asked *a) {
  static __thread void *context;
  static __thread int device = -1;
  if (call->context != context) context = call->context, device = device_of(context);
  int captured = in_capture(a->stream);
  tie_launched(a->f);
  int entry = entry_of(a, call->symbol, device, captured);
  if (entry >= 0) compare_parameters(&entries[entry], a);
  activity_launched(call->correlation_id, entry);
  if (entry >= 0 && captured) entries[entry].captured++;
  else if (entry >= 0) entries[entry].count++;
  else if (!captured) lose(LOST_LAUNCHES, 1);
}

/* A launch that the driver refused, for what the kernel or the launch asks for: told once. What an
 * earlier kernel's fault has every call answer, and what a stream that is captured forbids, is not
 * this kernel's. Numbers of cuda.h. */
static int is_refusal(int error) {
  switch (error) {
  case 1: case 2: case 98: case 200: case 209: case 222: case 701: case 720: case 912: return 1;
  }
  return 0;
}

static void refused(const Callback *call, const Asked *a, int error) {
  static uint64_t told[MAX_REFUSED];
  static int many;
  uint64_t h = mixed(a->f, a->dims, error);
  for (int i = 0; i < many; i++) if (told[i] == h) return;
  if (many >= MAX_REFUSED) { lose(LOST_REFUSALS, 1); return; }
  told[many++] = h;
  tie_launched(a->f);
  const char *symbol = name_of(a->f, call->symbol), *name = 0, *words = 0;
  if (!symbol || !ask.error_name || ask.error_name(error, &name) || !name) return;
  if (!ask.error_words || ask.error_words(error, &words) || !words) words = name;
  RefusedHead head = {.module = module_of(a->f), .texts = {
    (uint32_t)strlen(symbol), (uint32_t)strlen(name), (uint32_t)strlen(words)}};
  memcpy(head.dims, a->dims, sizeof a->dims);
  push_texts(REFUSED, &head, sizeof head, symbol, name, words);
}

/* -- graphs: a kernel of one counts each time that it is replayed ------------------------------- */

static int collect(void *graph, Exec *exec, void *context, int depth) {
  size_t n = 0;
  if (depth > 8 || !ask.nodes || ask.nodes(graph, (void **)0, &n)) return -1;
  if (!n) return 0;
  void **nodes = malloc((n + 1) * sizeof *nodes);
  if (!nodes || ask.nodes(graph, nodes, &n)) { free(nodes); return -1; }
  int bad = 0;
  for (size_t i = 0; i < n; i++) {
    int type = -1;
    if (ask.node_type(nodes[i], &type)) { bad = 1; continue; }
    if (type == 4) {   /* a child graph */
      void *child = 0;
      if (!ask.child || ask.child(nodes[i], &child) || collect(child, exec, context, depth + 1)) bad = 1;
    } else if (type == 13) bad = 1;   /* how often a conditional's body runs, the device knows */
    else if (type == 0) {
      NodeParams params;
      memset(&params, 0, sizeof params);
      if (ask.node_params(nodes[i], &params)) { bad = 1; continue; }
      Asked a = {.f = params.f ? params.f : params.kernel, .params = params.params, .extra = params.extra};
      memcpy(a.dims, params.grid, sizeof a.dims);
      int *grown = realloc(exec->entries, (size_t)(exec->count + 1) * sizeof *grown);
      if (!grown) { bad = 1; continue; }
      exec->entries = grown;
      int entry = entry_of(&a, 0, device_of(params.context ? params.context : context), 1);
      if (entry >= 0) compare_parameters(&entries[entry], &a);
      if (entry < 0) bad = 1;
      exec->entries[exec->count++] = entry;
    }
  }
  free(nodes);
  return bad ? -1 : 0;
}

static Exec *exec_of(void *handle) {
  for (int i = exec_count - 1; i >= 0; i--)
    if (execs[i].exec == handle && !execs[i].gone) return &execs[i];
  return 0;
}

/* Add the launches of a graph to those of its kernels, before they change. */
static void replayed(Exec *exec) {
  for (int j = 0; j < exec->count; j++)
    if (exec->entries[j] >= 0) entries[exec->entries[j]].replayed += exec->launched;
  exec->launched = 0;
}

static void instantiated(void *handle, void *graph, void *context) {
  Exec *exec = exec_of(handle);
  if (exec) replayed(exec), exec->gone = 1;
  if (exec_count == exec_room) {
    int room = exec_room ? exec_room * 2 : 64;
    Exec *grown = realloc(execs, (size_t)room * sizeof *execs);
    if (!grown) { lose(LOST_GRAPHS, 1); return; }
    execs = grown, exec_room = room;
  }
  exec = &execs[exec_count++];
  memset(exec, 0, sizeof *exec);
  exec->exec = handle;
  if (collect(graph, exec, context, 0)) lose(LOST_GRAPHS, 1);
}

/* -- callbacks -------------------------------------------------------------------------------- */

static void returned(const Callback *call, uint32_t id) {
  void *const *words = call->params;
  Asked a;
  if (is_launch(call, id, &a)) { launched(call, &a); return; }
  switch (id) {
  case LOAD: case LOAD_DATA: case LOAD_DATA_EX: case LOAD_FATBIN: case GET_KERNEL: case KERNEL_FUNCTION:
    if (words[0]) tie(*(void **)words[0], loaded_here);
    break;
  case GET_FUNCTION:
    tie(words[1], loaded_here);
    if (words[0]) tie(*(void **)words[0], loaded_here >= 0 ? loaded_here : tied(words[1]));
    break;
  case COOPERATIVE_MULTI: lose(LOST_LAUNCHES, 1); break;
  case CAPTURE: case CAPTURE_PTSZ: case CAPTURE_2: case CAPTURE_2_PTSZ: case CAPTURE_TO:
  case CAPTURE_TO_PTSZ: capturing++; break;
  case CAPTURED: case CAPTURED_PTSZ: if (capturing > 0) capturing--; break;
  case INSTANTIATE: case INSTANTIATE_2: case INSTANTIATE_FLAGS: case INSTANTIATE_PARAMS:
  case INSTANTIATE_PARAMS_PTSZ:
    if (words[0]) instantiated(*(void **)words[0], words[1], call->context);
    break;
  case GRAPH_LAUNCH: case GRAPH_LAUNCH_PTSZ: {
    Exec *exec = exec_of(words[0]);
    if (exec) exec->launched++;
    else lose(LOST_GRAPHS, 1);
    break;
  }
  case SET_NODE: case SET_NODE_2: case SET_ANY_NODE: lose(CHANGED_GRAPHS, 1); break;
  case UPDATE: case UPDATE_2: {
    Exec *exec = exec_of(words[0]);
    if (!exec) break;
    replayed(exec);
    exec->count = 0;
    if (collect(words[1], exec, call->context, 0)) lose(LOST_GRAPHS, 1);
    break;
  }
  }
}

static void called(void *user, int domain, uint32_t id, const void *data) {
  (void)user;
  if (!active || busy) return;
  const Callback *call = data;
  int error = 0, ends_capture = id == CAPTURED || id == CAPTURED_PTSZ;   /* a failed one, too */
  Asked a;
  if (domain == RESOURCE) {
    module_loaded(((const Resource *)data)->descriptor);
    return;
  }
  if (call->site == 0) {
    loaded_here = -1;
    if (id != EXEC_DESTROY) return;
  } else if (!call->result || ((error = *(int *)call->result) && !is_refusal(error) && !ends_capture)) return;
  busy = 1;
  int loaded = call->site && loaded_here >= 0, captures = capturing;
  pthread_mutex_lock(&lock);
  if (id == EXEC_DESTROY) {
    Exec *exec = call->site == 0 ? exec_of(*(void *const *)call->params) : 0;
    if (exec) replayed(exec), exec->gone = 1, free(exec->entries), exec->entries = 0, exec->count = 0;
  } else if (!error || ends_capture) returned(call, id);
  else if (is_launch(call, id, &a)) refused(call, &a, error);
  captures = capturing > captures;
  pthread_mutex_unlock(&lock);
  if (loaded || captures) see_launches();
  busy = 0;
}

/* -- beginning and end ------------------------------------------------------------------------ */

static void in_child(void) {
  /* CUDA does not survive a fork, the thread is not there, and what is queued is the parent's. */
  pthread_mutex_t *each[] = {&writing, &switching, &lock, &queued};
  for (int i = 0; i < 4; i++) pthread_mutex_init(each[i], 0);
  first_item = 0, last_item = &first_item, queued_bytes = file_bytes = 0;
  active = busy = written = may_switch = 0;
  activity_in_child();
}

static void *cupti_library(void) {
  static const char *const NAMES[] = {"libcupti.so.13", "libcupti.so.12", "libcupti.so"};
  static const char *const FOLDERS[] = {"extras/CUPTI/lib64", "lib64"};
  const char *homes[] = {getenv("CUDA_HOME"), getenv("CUDA_PATH"), "/usr/local/cuda"};
  char name[4400];
  void *library = 0;
  /* One that is loaded already: a process that has had one copy refuses every other. */
  for (int i = 0; i < 3 && !library; i++) library = dlopen(NAMES[i], RTLD_NOW | RTLD_NOLOAD);
  if (!library && *cupti_path) library = dlopen(cupti_path, RTLD_NOW | RTLD_GLOBAL);
  for (int i = 0; i < 3 && !library; i++) library = dlopen(NAMES[i], RTLD_NOW | RTLD_GLOBAL);
  for (int i = 0; i < 18 && !library; i++) {
    if (!homes[i / 6] || !*homes[i / 6]) continue;
    snprintf(name, sizeof name, "%s/%s/%s", homes[i / 6], FOLDERS[i / 3 % 2], NAMES[i % 3]);
    library = dlopen(name, RTLD_NOW | RTLD_GLOBAL);
  }
  return library;
}

enum { NO_CUPTI = -1, OTHER_CUPTI = -2, NO_MEMORY = -3, NO_THREAD = -4 };

static int subscribe(void) {
  void *cupti = cupti_library(), *cuda = dlopen("libcuda.so.1", RTLD_NOW);
  if (!cupti || !cuda) return NO_CUPTI;
  struct { Answer *to; void *from; const char *name; } names[] = {
    {&ask.subscribe, cupti, "cuptiSubscribe"}, {&ask.unsubscribe, cupti, "cuptiUnsubscribe"},
    {&ask.enable, cupti, "cuptiEnableCallback"}, {&ask.device_of, cupti, "cuptiGetDeviceId"},
    {&ask.module_of, cuda, "cuFuncGetModule"}, {&ask.param_info, cuda, "cuFuncGetParamInfo"},
    {&ask.kernel_param_info, cuda, "cuKernelGetParamInfo"}, {&ask.name_of, cuda, "cuFuncGetName"},
    {&ask.kernel_name, cuda, "cuKernelGetName"}, {&ask.is_capturing, cuda, "cuStreamIsCapturing"},
    {&ask.nodes, cuda, "cuGraphGetNodes"}, {&ask.node_type, cuda, "cuGraphNodeGetType"},
    {&ask.node_params, cuda, "cuGraphKernelNodeGetParams_v2"},
    {&ask.child, cuda, "cuGraphChildGraphNodeGetGraph"}, {&ask.error_name, cuda, "cuGetErrorName"},
    {&ask.error_words, cuda, "cuGetErrorString"}};
  for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
    *names[i].to = (Answer)dlsym(names[i].from, names[i].name);
  if (!ask.subscribe || !ask.unsubscribe || !ask.enable) return OTHER_CUPTI;
  if (!entries && posix_memalign((void **)&entries, 64, MAX_ENTRIES * sizeof *entries)) return NO_MEMORY;
  void *frames[4];
  backtrace(frames, 4);   /* its first call loads a library, here and not within a launch */
  int error = ask.subscribe(&subscriber, called, (void *)0);
  if (error) return error;
  active = on = may_switch = 1, news = now_ms();
  activity_prepare(cupti, timeline_path, window_ms);
  error = ask.enable(1u, subscriber, RESOURCE, (uint32_t)MODULE_LOADED);
  /* An older CUPTI knows fewer callbacks of these; without launches there is nothing to see. */
  enable_all(WATCHED, sizeof WATCHED, 1);
  enable_sampled(1);
  if (!error) error = ask.enable(1u, subscriber, DRIVER_API, LAUNCH);
  if (error) active = 0, ask.unsubscribe(subscriber);
  return error;
}

static int start_thread(void) {
  pthread_t thread;
  sigset_t all, before;
  sigfillset(&all);   /* signals are the program's */
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int error = pthread_create(&thread, 0, work_on, 0);
  pthread_sigmask(SIG_SETMASK, &before, 0);
  if (!error) pthread_detach(thread);
  return error;
}

/* Write what is queued, and counts. */
EXPORT void ptxview_driver_tell(void) {
  if (!active || owner != (int)getpid()) return;
  busy = 1;
  take_activity();
  queue_counts();
  activity_queue_times();
  write_queue();
  busy = 0;
}

/* Before CUPTI's own end: no callback is turned on or off any more. */
static void ending(void) {
  if (!active || owner != (int)getpid()) return;
  take_activity();
  pthread_mutex_lock(&switching);
  may_switch = 0;
  pthread_mutex_unlock(&switching);
  activity_end_window(1);
  ptxview_driver_tell();
}

static void begin(void) {
  owner = (int)getpid();
  snprintf(path, sizeof path, "%s/driver-%d-%s.records", root, owner, file_tag);
  snprintf(timeline_path, sizeof timeline_path, "%s/timeline-%d-%s.records", root, owner, file_tag);
  char program[4096] = "";
  ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
  if (length < 0) program[0] = 0;
  pthread_condattr_t monotonic;
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(&work, &monotonic);
  pthread_mutex_lock(&switching);
  Began began = {FORMAT, subscribe()};
  pthread_mutex_unlock(&switching);
  if (!began.error && start_thread()) began.error = NO_THREAD, active = 0, ask.unsubscribe(subscriber);
  push_texts(BEGAN, &began, sizeof began, program, 0, 0);
  write_queue();
  if (!began.error) atexit(ending);
}

/* What Python's probes know of this process: where CUPTI is. */
EXPORT void ptxview_driver_prepare(const char *cupti) {
  snprintf(cupti_path, sizeof cupti_path, "%s", cupti);
}

/* Whether an autotuner measures: launches of this thread from now on are its own (1), or those of a
 * candidate (1 and its number), and are counted and timed apart. */
EXPORT void ptxview_driver_tuning(int own) { tuning = own; }

/* The driver calls this at the end of cuInit. */
EXPORT int InitializeInjection(void) {
  const char *folder = getenv("PTXVIEW_RECORDING"), *times = getenv("PTXVIEW_DRIVER_MS");
  if (active || ready < 0 || !folder || !*folder) return 1;
  unsigned long quiet, window, period;
  if (times && sscanf(times, "%lu,%lu,%lu", &quiet, &window, &period) == 3 && quiet && period > window)
    quiet_ms = quiet, window_ms = window, period_ms = period;
  snprintf(root, sizeof root, "%s", folder);
  snprintf(file_tag, sizeof file_tag, "%llx", (unsigned long long)clock_ns(CLOCK_REALTIME));
  by_operator = getenv("PTXVIEW_OPERATORS") != 0;
  if (!ready) pthread_atfork(0, 0, in_child);
  ready = 1;
  begin();
  return 1;
}

/* Leave, before somebody else subscribes: CUPTI has room for one. Before CUDA is initialised: stay
 * away. */
EXPORT int ptxview_driver_leave(const char *why) {
  if (!active) ready = -1;
  if (!active || owner != (int)getpid()) return 0;
  take_activity();
  pthread_mutex_lock(&switching);
  may_switch = 0;
  activity_watch(0);
  activity_flush(1);   /* the next tool registers its functions for buffers */
  int32_t error = ask.unsubscribe(subscriber);
  pthread_mutex_unlock(&switching);
  activity_read(), activity_end_window(1);
  push_texts(LEFT, &error, sizeof error, why, 0, 0);
  ptxview_driver_tell();
  active = 0;
  return error;
}

/* For measurements of what watching costs: callbacks (0: none, 1: those outside of a window, 2: all)
 * and activity records keep this state from now on. */
EXPORT int ptxview_driver_force(int callbacks, int activity) {
  busy = 1;
  pthread_mutex_lock(&switching);
  int done = forced = active && may_switch;
  if (done) {
    pthread_mutex_lock(&queued);
    on = sampled = 1;   /* nobody waits for callbacks, and counts are no longer exact */
    pthread_mutex_unlock(&queued);
    enable_all(WATCHED, sizeof WATCHED, callbacks > 0), enable_all(SAMPLED, sizeof SAMPLED, callbacks > 1);
    activity_watch(activity);
  }
  pthread_mutex_unlock(&switching);
  if (done && !activity) take_activity(), activity_end_window(0), activity_queue_times();
  busy = 0;
  return done;
}

EXPORT int ptxview_driver_active(void) { return active; }

__attribute__((destructor)) static void ended(void) { ending(); active = 0; }
