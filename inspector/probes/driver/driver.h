/* What driver.c, which sees launches, and activity.c, which times them, share. */
#ifndef PTXVIEW_DRIVER_H
#define PTXVIEW_DRIVER_H
#define _GNU_SOURCE
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))

typedef int (*Answer)();

/* Records: what the file consists of; driver_records.py has the same. */
#define FORMAT 2
enum { BEGAN = 1, MODULE, ENTRY, REFUSED, COUNTS, FRAME, LEFT, TIMES };
typedef struct { uint32_t kind, bytes; uint64_t nanoseconds; } Record;   /* bytes follow; UTC */
typedef struct Item { struct Item *next; Record head; } Item;            /* head.bytes of data follow */

enum { LOST_LAUNCHES, LOST_MODULES, LOST_GRAPHS, CHANGED_GRAPHS, FAILED_WRITES, LOST_REFUSALS };
void lose(int what, uint64_t n);

#define MAX_ENTRIES 16384             /* distinct launches of a process */

/* driver.c explains the locks. */
extern pthread_mutex_t lock, queued;

uint64_t clock_ns(clockid_t clock);
Item *item_of(uint32_t kind, size_t bytes);
char *data_of(Item *item);
void put(char **to, const void *from, size_t bytes);
/* Queue a record that is no news: it does not have launches watched again. */
void push_quietly(Item *item);
int above_streams(int fd);
int write_all(int fd, const char *data, size_t n);

/* With ``lock`` held. ``dims``: grid, block and dynamic shared memory. */
int is_alike(int entry, const unsigned dims[7]);
int entry_named(const char *symbol, const unsigned dims[7]);
uint64_t mixed(const void *f, const unsigned dims[7], int other);

/* activity.c */
void activity_prepare(void *cupti, const char *timeline, uint64_t window_ms);
void activity_watch(int yes);                               /* with ``switching`` held */
void activity_flush(int all);                               /* likewise */
void activity_launched(uint32_t correlation, int entry);    /* with ``lock`` held */
void activity_read(void);
void activity_end_window(int ending);
void activity_queue_times(void);
void activity_in_child(void);

#endif
