/* When the GPU began and ended each kernel, copy and set: CUPTI's activity records.
 *
 * CUPTI fills buffers, which the thread of driver.c reads. Of each distinct launch (an entry of
 * driver.c) the number of timed launches, their sum and quartiles are kept; of the newest window, all
 * that ran, in a file that the next window replaces.
 */
#include "driver.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_SPANS 200000              /* of a window, the newest */
#define SAMPLES 255                   /* times of an entry of which quartiles are taken */
#define BUFFER_BYTES (512u << 10)     /* of activity records */
#define MAX_BUFFERS 256
#define CORRELATIONS (1u << 18)       /* calls of CUDA between a launch and its activity record */
#define FOUND 4096                    /* kernels whose entry was found by their names */

/* -- what CUPTI hands over (cupti_activity.h) --------------------------------------------------- */

/* The fields with which CUpti_ActivityKernel4 and all later versions begin. */
typedef struct {
  uint32_t kind, configuration, partitioned[2];
  uint64_t start, end, completed;
  uint32_t device, context, stream, grid[3], block[3];
  uint32_t static_shared, dynamic_shared, local_bytes[2], correlation;
  int64_t grid_id;
  const char *name;
} KernelActivity;

/* And those of CUpti_ActivityMemcpy and CUpti_ActivityMemset. */
typedef struct {
  uint32_t kind;
  uint8_t copy_kind, unused[3];
  uint64_t bytes, start, end;
  uint32_t device, context, stream;
} CopyActivity;

enum { MEMORY_COPY = 1, MEMORY_SET = 2, CONCURRENT_KERNEL = 10 };   /* CUpti_ActivityKind */
static const int KINDS[] = {CONCURRENT_KERNEL, MEMORY_COPY, MEMORY_SET};

static struct { Answer enable, disable, buffers, flush, next_record, dropped, timestamp; } cupti_calls;
static int available;

/* -- what is written; driver_records.py has the same ---------------------------------------------- */

typedef struct { uint32_t rows, unused; uint64_t lost; } TimesHead;
typedef struct { uint64_t entry, timed, sum; uint32_t shortest, quartiles[3]; } TimesRow;   /* ns */

typedef struct {
  uint32_t format, span_bytes;
  uint64_t began, ended;   /* by CUPTI's clock, in ns, as spans are */
  int64_t to_utc;          /* added to CUPTI's clock */
  uint64_t spans, lost;
} TimelineHead;
typedef struct {
  uint64_t start, end, bytes;   /* bytes of a copy or a set; of a mark its number */
  int32_t what;                 /* an entry, or one of the negative numbers below */
  uint32_t stream;
  uint16_t device, copy_kind;
  uint32_t unused;
} Span;
enum { UNKNOWN_KERNEL = -1, COPY = -2, SET = -3, MARK = -4 };

/* -- state, under ``lock`` but for buffers --------------------------------------------------------- */

typedef struct {
  uint64_t timed, sum, written;   /* launches, ns, and the launches that are in the file already */
  uint32_t shortest, samples[SAMPLES];
} Times;

static struct Buffer {
  struct Buffer *next;
  uint8_t *data;
  size_t bytes;
  void *context;
  uint32_t stream;
} *full_buffers;                                  /* under ``queued`` */
static int buffer_count;                          /* requested and not yet freed */
static struct { uint32_t id; int32_t entry; } *correlations;
static struct { const char *name; int entry; } found[FOUND];
static Times *times[MAX_ENTRIES];
static Span *spans;
static uint64_t span_count, window_began, lost, timeline_written, shortest_window_ns;
static char timeline_path[4400];

static uint64_t cupti_now(void) {
  uint64_t now = 0;
  return available && !cupti_calls.timestamp(&now) ? now : 0;
}

/* -- buffers -------------------------------------------------------------------------------------- */

/* CUPTI asks for room; without room it drops records, and counts them. */
static void buffer_requested(uint8_t **data, size_t *bytes, size_t *max_records) {
  void *room = 0;
  int many = __atomic_add_fetch(&buffer_count, 1, __ATOMIC_RELAXED);
  if (many > MAX_BUFFERS || posix_memalign(&room, 8, BUFFER_BYTES)) {
    __atomic_fetch_sub(&buffer_count, 1, __ATOMIC_RELAXED);
    room = 0;
  }
  *data = room, *bytes = room ? BUFFER_BYTES : 0, *max_records = 0;
}

/* CUPTI may hold its locks: the buffer is read later, by our thread. */
static void buffer_completed(void *context, uint32_t stream, uint8_t *data, size_t size, size_t bytes) {
  (void)size;
  struct Buffer *buffer = malloc(sizeof *buffer);
  if (!buffer) {
    free(data);
    __atomic_fetch_sub(&buffer_count, 1, __ATOMIC_RELAXED);
    return;
  }
  pthread_mutex_lock(&queued);
  *buffer = (struct Buffer){full_buffers, data, bytes, context, stream};
  full_buffers = buffer;
  pthread_mutex_unlock(&queued);
}

/* -- records -------------------------------------------------------------------------------------- */

static void add_span(Span span) {
  if (spans || (spans = malloc(MAX_SPANS * sizeof *spans))) spans[span_count++ % MAX_SPANS] = span;
}

/* The entry of a kernel that ran: of the launch with its correlation, else of its name and
 * dimensions, as for a kernel of a CUDA graph, whose correlation is the graph launch's. */
static int entry_that_ran(const KernelActivity *kernel) {
  unsigned dims[7];
  memcpy(dims, kernel->grid, 6 * sizeof *dims);
  dims[6] = kernel->dynamic_shared;
  unsigned slot = kernel->correlation % CORRELATIONS;
  if (correlations[slot].id == kernel->correlation && is_alike(correlations[slot].entry, dims))
    return correlations[slot].entry;
  if (!kernel->name) return UNKNOWN_KERNEL;
  unsigned place = (unsigned)(mixed(kernel->name, dims, 0) % FOUND);
  if (found[place].name == kernel->name && is_alike(found[place].entry, dims)) return found[place].entry;
  int entry = entry_named(kernel->name, dims);
  if (entry >= 0) found[place].name = kernel->name, found[place].entry = entry;
  return entry;
}

static void add_time(int entry, uint64_t nanoseconds) {
  static uint32_t random = 1;
  Times *of_entry = times[entry];
  if (!of_entry && !(of_entry = times[entry] = calloc(1, sizeof *of_entry))) return;
  uint32_t sample = nanoseconds < UINT32_MAX ? (uint32_t)nanoseconds : UINT32_MAX;
  uint64_t place = of_entry->timed++;
  of_entry->sum += nanoseconds;
  if (!place || sample < of_entry->shortest) of_entry->shortest = sample;
  random = random * 1664525u + 1013904223u;
  if (place >= SAMPLES) place = (random >> 8) % of_entry->timed;   /* each launch is as likely to be kept */
  if (place < SAMPLES) of_entry->samples[place] = sample;
}

static void take_record(const void *record) {
  const KernelActivity *kernel = record;
  const CopyActivity *copy = record;
  if (kernel->kind == CONCURRENT_KERNEL) {
    int entry = entry_that_ran(kernel);
    if (entry >= 0 && kernel->end > kernel->start) add_time(entry, kernel->end - kernel->start);
    add_span((Span){.start = kernel->start, .end = kernel->end, .what = entry, .stream = kernel->stream,
                    .device = (uint16_t)kernel->device});
  } else if (copy->kind == MEMORY_COPY || copy->kind == MEMORY_SET) {
    add_span((Span){.start = copy->start, .end = copy->end, .bytes = copy->bytes, .stream = copy->stream,
                    .what = copy->kind == MEMORY_COPY ? COPY : SET, .device = (uint16_t)copy->device,
                    .copy_kind = copy->kind == MEMORY_COPY ? copy->copy_kind : 0});
  }
}

void activity_read(void) {
  pthread_mutex_lock(&queued);
  struct Buffer *newest = full_buffers, *buffer = 0;
  full_buffers = 0;
  pthread_mutex_unlock(&queued);
  for (struct Buffer *next; newest; newest = next) next = newest->next, newest->next = buffer, buffer = newest;
  for (struct Buffer *next; buffer; buffer = next) {
    void *record = 0;
    size_t dropped = 0;
    while (buffer->bytes && !cupti_calls.next_record(buffer->data, buffer->bytes, &record)) {
      pthread_mutex_lock(&lock);
      take_record(record);
      pthread_mutex_unlock(&lock);
    }
    if (!cupti_calls.dropped(buffer->context, buffer->stream, &dropped)) lost += dropped;
    next = buffer->next;
    free(buffer->data), free(buffer);
    __atomic_fetch_sub(&buffer_count, 1, __ATOMIC_RELAXED);
  }
}

void activity_launched(uint32_t correlation, int entry) {
  if (!available) return;
  correlations[correlation % CORRELATIONS].id = correlation;
  correlations[correlation % CORRELATIONS].entry = entry;
}

/* A moment of the program, as of a step's beginning, on the timeline: of use in a window only. */
EXPORT int ptxview_driver_in_window = 0;
EXPORT void ptxview_driver_mark(uint32_t number) {
  uint64_t now = cupti_now();
  if (!now) return;
  pthread_mutex_lock(&lock);
  if (window_began) add_span((Span){.start = now, .end = now, .bytes = number, .what = MARK});
  pthread_mutex_unlock(&lock);
}

/* -- what is written ------------------------------------------------------------------------------ */

static int by_length(const void *a, const void *b) {
  uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
  return left < right ? -1 : left > right;
}

static TimesRow times_row(int entry) {
  Times *of_entry = times[entry];
  uint32_t sorted[SAMPLES];
  uint32_t count = of_entry->timed < SAMPLES ? (uint32_t)of_entry->timed : SAMPLES;
  memcpy(sorted, of_entry->samples, sizeof sorted);
  qsort(sorted, count, sizeof *sorted, by_length);
  TimesRow row = {(uint64_t)entry, of_entry->timed, of_entry->sum, of_entry->shortest, {0}};
  for (uint32_t i = 0; i < 3; i++) row.quartiles[i] = sorted[(count - 1) * (i + 1) / 4];
  of_entry->written = of_entry->timed;
  return row;
}

static int has_news(int entry) { return times[entry] && times[entry]->timed != times[entry]->written; }

void activity_queue_times(void) {
  pthread_mutex_lock(&lock);
  uint32_t rows = 0;
  for (int i = 0; i < MAX_ENTRIES; i++) rows += (uint32_t)has_news(i);
  Item *item = rows ? item_of(TIMES, sizeof(TimesHead) + rows * sizeof(TimesRow)) : 0;
  if (item) {
    TimesHead head = {rows, 0, lost};
    char *to = data_of(item);
    put(&to, &head, sizeof head);
    for (int i = 0; i < MAX_ENTRIES; i++) {
      if (!has_news(i)) continue;
      TimesRow row = times_row(i);
      put(&to, &row, sizeof row);
    }
    push_quietly(item);
  }
  pthread_mutex_unlock(&lock);
}

static void write_timeline(void) {
  char part[4500];
  snprintf(part, sizeof part, "%s.part", timeline_path);
  pthread_mutex_lock(&lock);
  uint64_t count = span_count < MAX_SPANS ? span_count : MAX_SPANS, oldest = span_count - count;
  TimelineHead head = {FORMAT, sizeof(Span), window_began, cupti_now(), 0, count, lost};
  head.to_utc = (int64_t)clock_ns(CLOCK_REALTIME) - (int64_t)head.ended;
  Span *kept = count ? malloc(count * sizeof *kept) : 0;
  for (uint64_t i = 0; kept && i < count; i++) kept[i] = spans[(oldest + i) % MAX_SPANS];
  pthread_mutex_unlock(&lock);
  if (!kept) return;
  if (oldest) head.began = kept->start;
  int fd = above_streams(open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (fd < 0 || write_all(fd, (char *)&head, sizeof head) || write_all(fd, (char *)kept, count * sizeof *kept)
      || rename(part, timeline_path)) lose(FAILED_WRITES, 1);
  else timeline_written = head.ended;
  if (fd >= 0) close(fd);
  free(kept);
}

/* At the program's end a window that has just begun tells less than the one before it. */
void activity_end_window(int ending) {
  if (!available || !window_began) return;
  if (!ending || !timeline_written || cupti_now() - window_began > shortest_window_ns) write_timeline();
  pthread_mutex_lock(&lock);
  window_began = 0, ptxview_driver_in_window = 0;
  pthread_mutex_unlock(&lock);
}

/* -- on and off ------------------------------------------------------------------------------------ */

void activity_watch(int yes) {
  if (!available) return;
  if (yes) {
    pthread_mutex_lock(&lock);
    span_count = 0, window_began = cupti_now(), ptxview_driver_in_window = 1;
    pthread_mutex_unlock(&lock);
  }
  for (unsigned i = 0; i < sizeof KINDS / sizeof *KINDS; i++)
    (yes ? cupti_calls.enable : cupti_calls.disable)(KINDS[i]);
}

/* Have CUPTI hand over the records of what has ended; ``all``: every buffer. */
void activity_flush(int all) {
  if (available && __atomic_load_n(&buffer_count, __ATOMIC_RELAXED)) cupti_calls.flush((uint32_t)all);
}

void activity_in_child(void) { available = 0, full_buffers = 0, buffer_count = 0, ptxview_driver_in_window = 0; }

/* Without activity records launches are counted, and not timed. */
void activity_prepare(void *cupti, const char *timeline, uint64_t window_ms) {
  struct { Answer *to; const char *name; } names[] = {
    {&cupti_calls.enable, "cuptiActivityEnable"}, {&cupti_calls.disable, "cuptiActivityDisable"},
    {&cupti_calls.buffers, "cuptiActivityRegisterCallbacks"}, {&cupti_calls.flush, "cuptiActivityFlushAll"},
    {&cupti_calls.next_record, "cuptiActivityGetNextRecord"},
    {&cupti_calls.dropped, "cuptiActivityGetNumDroppedRecords"}, {&cupti_calls.timestamp, "cuptiGetTimestamp"}};
  snprintf(timeline_path, sizeof timeline_path, "%s", timeline);
  shortest_window_ns = window_ms * 500000;
  for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
    if (!(*names[i].to = (Answer)dlsym(cupti, names[i].name))) return;
  if (!correlations && !(correlations = calloc(CORRELATIONS, sizeof *correlations))) return;
  available = !cupti_calls.buffers(buffer_requested, buffer_completed);
}
