/* Modules that the CUDA driver loads and kernels that it launches, whoever made them.
 *
 * A subscriber of CUPTI's callbacks: no counters, no permission, no activity records. It appends
 * events to a file of its own beside those of writer.py, and keeps the cubin of a module as a blob
 * when one of its kernels is first launched. No header of NVIDIA's is needed to compile this: what
 * is declared here is the documented ABI of CUPTI (cupti_callbacks.h, generated_cuda_meta.h) and
 * of the driver (cuda.h), which tests hold against those headers.
 *
 * All is called by threads of the program, under the driver's feet: a callback allocates little,
 * keeps no descriptor, and calls the driver only to ask. Calls that have returned wait for each other
 * at ``lock``, and ask the driver within it. A module is told of while the driver holds locks of its
 * own, which it may need for an answer: those callbacks never wait for ``lock``.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

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
enum { MODULE_LOADED = 6, MODULE_UNLOADED = 7 };
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
  LOAD, LOAD_DATA, LOAD_DATA_EX, LOAD_FATBIN, GET_FUNCTION, LAUNCH, LAUNCH_PTSZ, COOPERATIVE,
  COOPERATIVE_PTSZ, COOPERATIVE_MULTI, CAPTURE, CAPTURE_PTSZ, CAPTURED, CAPTURED_PTSZ, CAPTURE_2,
  CAPTURE_2_PTSZ, CAPTURE_TO, CAPTURE_TO_PTSZ, INSTANTIATE, INSTANTIATE_2, INSTANTIATE_FLAGS,
  INSTANTIATE_PARAMS, INSTANTIATE_PARAMS_PTSZ, GRAPH_LAUNCH, GRAPH_LAUNCH_PTSZ, EXEC_DESTROY,
  SET_NODE, SET_NODE_2, SET_ANY_NODE, UPDATE, UPDATE_2, LAUNCH_EX, LAUNCH_EX_PTSZ, GET_KERNEL,
  KERNEL_FUNCTION,
};

typedef int (*Answer)();
static struct {
  Answer subscribe, unsubscribe, enable, device_of;                                /* CUPTI */
  Answer module_of, param_info, kernel_param_info, is_capturing, name_of, kernel_name;   /* driver */
  Answer nodes, node_type, node_params, child;
  Answer error_name, error_words;
} ask;

/* -- state ------------------------------------------------------------------------------------ */

#define MOST_ENTRIES 16384   /* distinct launches of a process */
#define MOST_OF_ONE 256      /* of one kernel */
#define MOST_MODULES 65536
#define FIRST_SLOTS 1024     /* of the table by which a launch is found: small ones stay in a cache */
#define SLOTS (1 << 16)      /* at most */
#define MOST_WAITING (256ul << 20)   /* bytes of modules of which nothing was launched yet */
#define MOST_KEPT (2048ul << 20)     /* bytes of modules that were kept */
#define MOST_PARAMETERS 64
#define MOST_BYTES 1024              /* of the parameters of a launch */
#define MOST_LIBRARIES 6
#define MOST_REFUSED 64              /* distinct launches that the driver would not do */
#define TEXT 16384

typedef struct {
  char *cubin;               /* NULL once it is kept, or if there was no room */
  size_t bytes;
  uint64_t *names;           /* hashes of its kernels' names, sorted as the file has them */
  int count;
  int kept;                  /* 1: a blob; -1: could not be kept */
  char digest[65];
} Module;

typedef struct { unsigned short offset, size, at; } Parameter;

/* What every launch reads and writes stands in one line of a cache, what it does not after it. */
typedef struct {
  uint64_t count, told;      /* launches, and how many of all are written */
  uint64_t varied;           /* a bit for each parameter that not every such launch had alike */
  uint64_t captured;         /* into graphs: asked for, and not launched */
  Parameter *sizes;          /* as the first such launch had them */
  unsigned char *bytes;      /* in the same block */
  int parameters;
  int others;                /* launches of a kernel that are not told apart */
  uint64_t replayed;         /* by graphs, of those that are gone */
  char *symbol;
  int module, device, operator;
  unsigned grid[3], block[3], shared, cluster[3];
} __attribute__((aligned(64))) Entry;

typedef struct {
  void *f;
  unsigned dims[7];
  int device, operator, entry;
} __attribute__((aligned(64))) Slot;

typedef struct {
  void *exec;
  int *entries;
  int count, gone;
  uint64_t launched;
} Exec;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;   /* the driver is never asked within it */
static Module **modules;     /* MOST_MODULES places; one that is counted does not move */
static int module_count;     /* read and written atomically, as are the two after it */
static size_t waiting;
static int unloaded;
static size_t kept;
static Entry *entries;
static int entry_count;
static Slot *slots;
static int slot_count, slot_room;
static struct Handle { void *handle; int module; } *handles;
static int handle_count, handle_room;
static Exec *execs;
static int exec_count, exec_room;
static int by_operator, capturing, changed, active, ready, owner, refused_error;
static uint64_t lost_launches, lost_modules, lost_bytes, lost_graphs, changed_graphs, failed_writes;
static uint64_t lost_refusals;
static uint64_t told_sum;
static struct timespec last;
static void *subscriber;
static char root[4096], path[4400], cupti_path[4096], file_tag[64];
static __thread int loaded_here = -1, operator_here, busy;

/* -- JSON, appended a line at a time ---------------------------------------------------------- */

typedef struct { char *text; size_t used, room; } Line;

static void put(Line *line, const char *text, size_t n) {
  if (line->used + n + 1 > line->room) {
    size_t room = (line->used + n + 1) * 2;
    char *grown = realloc(line->text, room);
    if (!grown) return;
    line->text = grown, line->room = room;
  }
  memcpy(line->text + line->used, text, n);
  line->used += n;
}
static void say(Line *line, const char *text) { put(line, text, strlen(text)); }
static void say_number(Line *line, uint64_t n) {
  char text[32];
  put(line, text, (size_t)snprintf(text, sizeof text, "%llu", (unsigned long long)n));
}
static void say_text(Line *line, const char *text) {
  say(line, "\"");
  for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
    char escaped[8];
    /* What is no ASCII stands as Python's surrogates do for bytes of a file's name. */
    if (*c == '"' || *c == '\\') snprintf(escaped, sizeof escaped, "\\%c", *c);
    else if (*c < 32) snprintf(escaped, sizeof escaped, "\\u%04x", *c);
    else if (*c > 126) snprintf(escaped, sizeof escaped, "\\udc%02x", *c);
    else escaped[0] = (char)*c, escaped[1] = 0;
    say(line, escaped);
  }
  say(line, "\"");
}
static void say_three(Line *line, const char *key, const unsigned *n) {
  char text[96];
  put(line, text, (size_t)snprintf(text, sizeof text, ",\"%s\":[%u,%u,%u]", key, n[0], n[1], n[2]));
}

static void begin(Line *line, const char *event) {
  struct timeval now;
  char text[128];
  gettimeofday(&now, 0);
  snprintf(text, sizeof text, "{\"event\":\"%s\",\"time\":%ld.%06ld,\"pid\":%d", event,
           (long)now.tv_sec, (long)now.tv_usec, (int)getpid());
  say(line, text);
}

static int above_streams(int fd) {
  /* The program may have closed one of its streams: what it opens next may become it. */
  if (fd < 0 || fd > 2) return fd;
  int high = fcntl(fd, F_DUPFD_CLOEXEC, 3);
  close(fd);
  return high;
}

static int write_all(int fd, const char *data, size_t n) {
  while (n) {
    ssize_t done = write(fd, data, n);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return -1;
    data += done, n -= (size_t)done;
  }
  return 0;
}

static int written = 0;
static void append(Line *line) {
  say(line, "}\n");
  if (!line->text) return;
  /* A file that was deleted is gone on purpose: only the first write makes it. */
  int fd = above_streams(open(path, O_WRONLY | O_APPEND | O_CLOEXEC | (written ? 0 : O_CREAT), 0644));
  if (fd < 0) failed_writes++;
  else {
    struct stat before;
    if (fstat(fd, &before)) before.st_size = -1;
    if (write_all(fd, line->text, line->used)) {
      failed_writes++;
      /* A line that is cut short would swallow the next. */
      if (before.st_size >= 0 && ftruncate(fd, before.st_size)) failed_writes++;
    } else written = 1;
    close(fd);
  }
  free(line->text);
  memset(line, 0, sizeof *line);
}

/* -- SHA-256 (FIPS 180-4): blobs are named by their content ------------------------------------ */

static const uint32_t K[64] = {
  0x428a2f98,0x71374491,0xb5c0fbcf,0xe9b5dba5,0x3956c25b,0x59f111f1,0x923f82a4,0xab1c5ed5,
  0xd807aa98,0x12835b01,0x243185be,0x550c7dc3,0x72be5d74,0x80deb1fe,0x9bdc06a7,0xc19bf174,
  0xe49b69c1,0xefbe4786,0x0fc19dc6,0x240ca1cc,0x2de92c6f,0x4a7484aa,0x5cb0a9dc,0x76f988da,
  0x983e5152,0xa831c66d,0xb00327c8,0xbf597fc7,0xc6e00bf3,0xd5a79147,0x06ca6351,0x14292967,
  0x27b70a85,0x2e1b2138,0x4d2c6dfc,0x53380d13,0x650a7354,0x766a0abb,0x81c2c92e,0x92722c85,
  0xa2bfe8a1,0xa81a664b,0xc24b8b70,0xc76c51a3,0xd192e819,0xd6990624,0xf40e3585,0x106aa070,
  0x19a4c116,0x1e376c08,0x2748774c,0x34b0bcb5,0x391c0cb3,0x4ed8aa4a,0x5b9cca4f,0x682e6ff3,
  0x748f82ee,0x78a5636f,0x84c87814,0x8cc70208,0x90befffa,0xa4506ceb,0xbef9a3f7,0xc67178f2};
#define ROR(x, n) (((x) >> (n)) | ((x) << (32 - (n))))

static void sha_block(uint32_t *h, const unsigned char *p) {
  uint32_t w[64], v[8];
  for (int i = 0; i < 16; i++, p += 4)
    w[i] = (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
  for (int i = 16; i < 64; i++)
    w[i] = w[i - 16] + w[i - 7] + (ROR(w[i - 15], 7) ^ ROR(w[i - 15], 18) ^ w[i - 15] >> 3)
         + (ROR(w[i - 2], 17) ^ ROR(w[i - 2], 19) ^ w[i - 2] >> 10);
  memcpy(v, h, sizeof v);
  /* Not the words move from round to round but their names: eight rounds, and each is itself again. */
#define ROUND(a, b, c, d, e, f, g, h, i) do { \
    h += (ROR(e, 6) ^ ROR(e, 11) ^ ROR(e, 25)) + ((e & f) ^ (~e & g)) + K[i] + w[i]; \
    d += h; \
    h += (ROR(a, 2) ^ ROR(a, 13) ^ ROR(a, 22)) + ((a & b) ^ (a & c) ^ (b & c)); } while (0)
  for (int i = 0; i < 64; i += 8) {
    ROUND(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], i);
    ROUND(v[7], v[0], v[1], v[2], v[3], v[4], v[5], v[6], i + 1);
    ROUND(v[6], v[7], v[0], v[1], v[2], v[3], v[4], v[5], i + 2);
    ROUND(v[5], v[6], v[7], v[0], v[1], v[2], v[3], v[4], i + 3);
    ROUND(v[4], v[5], v[6], v[7], v[0], v[1], v[2], v[3], i + 4);
    ROUND(v[3], v[4], v[5], v[6], v[7], v[0], v[1], v[2], i + 5);
    ROUND(v[2], v[3], v[4], v[5], v[6], v[7], v[0], v[1], i + 6);
    ROUND(v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[0], i + 7);
  }
  for (int i = 0; i < 8; i++) h[i] += v[i];
}

/* OpenSSL's where the process has it loaded, as Python's hashlib does: it knows the processor's own
 * instructions, and libraries' modules are tens of megabytes. Looked up as we begin: within a launch
 * the dynamic linker may be another thread's, which waits for us. */
static unsigned char *(*openssl)(const unsigned char *, size_t, unsigned char *);
static void find_openssl(void) {
  static const char *const NAMES[] = {"libcrypto.so.3", "libcrypto.so.1.1"};
  for (unsigned i = 0; i < sizeof NAMES / sizeof *NAMES && !openssl; i++) {
    void *library = dlopen(NAMES[i], RTLD_NOW | RTLD_NOLOAD);   /* and it stays loaded */
    if (library) *(void **)&openssl = dlsym(library, "SHA256");
  }
}

static void sha256(const char *data, size_t n, char *hex) {
  uint32_t h[8] = {0x6a09e667,0xbb67ae85,0x3c6ef372,0xa54ff53a,0x510e527f,0x9b05688c,0x1f83d9ab,0x5be0cd19};
  unsigned char tail[128] = {0};
  size_t whole = n / 64 * 64, rest = n - whole, room = rest < 56 ? 64 : 128;
  if (openssl && openssl((const unsigned char *)data, n, tail)) {
    for (int i = 0; i < 32; i++) sprintf(hex + 2 * i, "%02x", tail[i]);
    return;
  }
  for (size_t i = 0; i < whole; i += 64) sha_block(h, (const unsigned char *)data + i);
  memcpy(tail, data + whole, rest);
  tail[rest] = 0x80;
  for (int i = 0; i < 8; i++) tail[room - 1 - i] = (unsigned char)((uint64_t)n * 8 >> (8 * i));
  for (size_t i = 0; i < room; i += 64) sha_block(h, tail + i);
  for (int i = 0; i < 8; i++) sprintf(hex + 8 * i, "%08x", h[i]);
}

/* -- modules ---------------------------------------------------------------------------------- */

static uint64_t hash_of(const char *text) {
  uint64_t h = 1469598103934665603ull;
  for (; *text; text++) h = (h ^ (unsigned char)*text) * 1099511628211ull;
  return h;
}

/* Hashes of the names of an ELF file's kernels: functions with STO_CUDA_ENTRY in st_other. */
static int names_of(const char *data, size_t size, uint64_t **out) {
  const Elf64_Ehdr *head = (const void *)data;
  *out = 0;
  if (size < sizeof *head || memcmp(data, ELFMAG, 4) || data[4] != ELFCLASS64) return 0;
  if (head->e_shentsize != sizeof(Elf64_Shdr) || head->e_shoff > size
      || head->e_shnum > (size - head->e_shoff) / sizeof(Elf64_Shdr)) return 0;
  const Elf64_Shdr *sections = (const void *)(data + head->e_shoff);
  int count = 0;
  for (int i = 0; i < head->e_shnum; i++) {
    if (sections[i].sh_type != SHT_SYMTAB || sections[i].sh_link >= head->e_shnum) continue;
    const Elf64_Shdr *texts = &sections[sections[i].sh_link];
    if (sections[i].sh_offset > size || sections[i].sh_size > size - sections[i].sh_offset
        || texts->sh_offset > size || texts->sh_size > size - texts->sh_offset || !texts->sh_size
        || data[texts->sh_offset + texts->sh_size - 1]) continue;
    const Elf64_Sym *symbol = (const void *)(data + sections[i].sh_offset);
    size_t n = sections[i].sh_size / sizeof *symbol;
    uint64_t *names = malloc((n + 1) * sizeof *names);
    if (!names) return 0;
    for (; n; n--, symbol++)
      if (ELF64_ST_TYPE(symbol->st_info) == STT_FUNC && symbol->st_other & 0x10
          && symbol->st_name < texts->sh_size)
        names[count++] = hash_of(data + texts->sh_offset + symbol->st_name);
    *out = names;
    return count;
  }
  return 0;
}

static int modules_now(void) { return __atomic_load_n(&module_count, __ATOMIC_ACQUIRE); }

static void lose(uint64_t *of, uint64_t n) { __atomic_fetch_add(of, n, __ATOMIC_RELAXED); }

static void module_loaded(const ModuleLoaded *loaded) {
  Module *module = loaded->cubin && loaded->bytes ? calloc(1, sizeof *module) : 0;
  if (!module) { lose(&lost_modules, 1); return; }
  module->bytes = loaded->bytes;
  module->count = names_of(loaded->cubin, loaded->bytes, &module->names);
  pthread_mutex_lock(&loading);
  size_t held = __atomic_load_n(&waiting, __ATOMIC_RELAXED);
  if (held + loaded->bytes <= MOST_WAITING && (module->cubin = malloc(loaded->bytes))) {
    memcpy(module->cubin, loaded->cubin, loaded->bytes);
    __atomic_fetch_add(&waiting, loaded->bytes, __ATOMIC_RELAXED);
  }
  int number = modules_now();
  if (number < MOST_MODULES) {
    modules[number] = module;
    loaded_here = number;
    __atomic_store_n(&module_count, number + 1, __ATOMIC_RELEASE);
  } else lose(&lost_modules, 1);
  pthread_mutex_unlock(&loading);
}

static void keep(Module *module) {
  char name[4400], part[4500];
  if (module->kept) return;
  module->kept = -1;
  if (!module->cubin || kept + module->bytes > MOST_KEPT) {
    lose(&lost_modules, 1), lose(&lost_bytes, module->bytes);
    return;
  }
  sha256(module->cubin, module->bytes, module->digest);
  snprintf(name, sizeof name, "%s/blobs/%s", root, module->digest);
  snprintf(part, sizeof part, "%s/blobs/.%s.%d.driver", root, module->digest, (int)getpid());
  struct stat there;
  if (stat(name, &there)) {
    int fd = above_streams(open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    int bad = fd < 0 || write_all(fd, module->cubin, module->bytes);
    if (fd >= 0) close(fd);
    if (bad || rename(part, name)) {
      unlink(part);
      lose(&lost_modules, 1), lose(&lost_bytes, module->bytes);
      module->digest[0] = 0;
      return;
    }
  }
  module->kept = 1;
  kept += module->bytes;
  __atomic_fetch_sub(&waiting, module->bytes, __ATOMIC_RELAXED);
  free(module->cubin);
  module->cubin = 0;
}

static void tie(void *handle, int module) {
  if (!handle) return;
  for (int i = handle_count - 1; i >= 0; i--)
    if (handles[i].handle == handle) { handles[i].module = module; return; }
  if (handle_count == handle_room) {
    int room = handle_room ? handle_room * 2 : 256;
    void *grown = realloc(handles, (size_t)room * sizeof *handles);
    if (!grown) return;
    handles = grown, handle_room = room;
  }
  handles[handle_count].handle = handle, handles[handle_count++].module = module;
}

static int tied(void *handle) {
  for (int i = handle_count - 1; handle && i >= 0; i--)
    if (handles[i].handle == handle) return handles[i].module;
  return -1;
}

static int has(const Module *module, uint64_t name) {
  for (int i = 0; i < module->count; i++) if (module->names[i] == name) return 1;
  return 0;
}

/* The module of a kernel: the one that was loaded for this handle, else the last with the name. */
static int module_of(void *f, const char *symbol) {
  uint64_t name = hash_of(symbol);
  int module = tied(f);
  if (module < 0 && ask.module_of) {
    void *handle = 0;
    if (!ask.module_of(&handle, f)) module = tied(handle);
  }
  if (module >= 0 && has(modules[module], name)) return module;
  for (module = modules_now() - 1; module >= 0; module--)
    if (has(modules[module], name)) return module;
  return -1;
}

/* -- launches --------------------------------------------------------------------------------- */

/* Which library an address is in, and which operator of ATen's: at::_ops::NAME::call, and the nodes
 * of the backward pass, which are symbols of libtorch_cpu.so. dladdr looks through all its 200,000
 * symbols for each address; these few are sorted once. */

typedef struct { uintptr_t begin, end; char *path; } Library;
typedef struct { uintptr_t begin, end; char *name; } Operator;
static Library *libraries;
static int library_count;
static unsigned long long library_changes;
static Operator *known_operators;
static int known_count;

static int by_address(const void *a, const void *b) {
  uintptr_t x = ((const Operator *)a)->begin, y = ((const Operator *)b)->begin;
  return x < y ? -1 : x > y;
}

static void read_operators(struct dl_phdr_info *info) {
  const ElfW(Dyn) *dynamic = 0;
  const ElfW(Sym) *symbols = 0;
  const char *names = 0;
  const uint32_t *hash = 0;
  for (int i = 0; i < info->dlpi_phnum; i++)
    if (info->dlpi_phdr[i].p_type == PT_DYNAMIC) dynamic = (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
  for (; dynamic && dynamic->d_tag != DT_NULL; dynamic++) {
    if (dynamic->d_tag == DT_SYMTAB) symbols = (const void *)dynamic->d_un.d_ptr;
    if (dynamic->d_tag == DT_STRTAB) names = (const void *)dynamic->d_un.d_ptr;
    if (dynamic->d_tag == DT_GNU_HASH) hash = (const void *)dynamic->d_un.d_ptr;
  }
  if (!symbols || !names || !hash) return;
  const uint32_t *buckets = hash + 4 + hash[2] * (sizeof(uintptr_t) / 4), *chain = buckets + hash[0];
  uint32_t count = 0;
  for (uint32_t i = 0; i < hash[0]; i++) if (buckets[i] > count) count = buckets[i];
  if (count) { while (!(chain[count - hash[1]] & 1)) count++; count++; }
  for (uint32_t i = hash[1]; i < count; i++) {
    if (ELF64_ST_TYPE(symbols[i].st_info) != STT_FUNC || !symbols[i].st_size) continue;
    const char *name = names + symbols[i].st_name, *rest = 0;
    int backward = 0;
    if (!strncmp(name, "_ZN2at4_ops", 11)) rest = name + 11;
    else if (!strncmp(name, "_ZN5torch8autograd9generated", 28)) rest = name + 28, backward = 1;
    if (!rest) continue;
    char *after;
    long size = strtol(rest, &after, 10);
    if (size <= 0 || size > 200 || strlen(after) < (size_t)size) continue;
    const char *method = after + size;
    if (strncmp(method, backward ? "5apply" : "4call", backward ? 6 : 5)
        && (backward || strncmp(method, "10redispatch", 12))) continue;
    if (!(known_count & (known_count - 1))) {
      void *grown = realloc(known_operators, (size_t)(known_count ? known_count * 2 : 1) * sizeof *known_operators);
      if (!grown) return;
      known_operators = grown;
    }
    Operator *operator = &known_operators[known_count];
    operator->begin = info->dlpi_addr + symbols[i].st_value;
    operator->end = operator->begin + symbols[i].st_size;
    operator->name = strndup(after, (size_t)size);
    if (operator->name) known_count++;
  }
}

static int take_library(struct dl_phdr_info *info, size_t size, void *data) {
  (void)size;
  (void)data;
  library_changes = info->dlpi_adds;
  const char *path = info->dlpi_name;
  if (!path || !*path) return 0;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *head = &info->dlpi_phdr[i];
    if (head->p_type != PT_LOAD || !(head->p_flags & PF_X)) continue;
    void *grown = realloc(libraries, (size_t)(library_count + 1) * sizeof *libraries);
    char *copy = grown ? strdup(path) : 0;
    if (grown) libraries = grown;
    if (!copy) return 0;
    libraries[library_count].begin = info->dlpi_addr + head->p_vaddr;
    libraries[library_count].end = info->dlpi_addr + head->p_vaddr + head->p_memsz;
    libraries[library_count++].path = copy;
  }
  if (strstr(path, "libtorch_cpu.so") && !known_count) {
    read_operators(info);
    qsort(known_operators, (size_t)known_count, sizeof *known_operators, by_address);
  }
  return 0;
}

static int changes(struct dl_phdr_info *info, size_t size, void *data) {
  (void)size;
  *(unsigned long long *)data = info->dlpi_adds;
  return 1;
}

static void read_libraries(void) {
  unsigned long long now = 0;
  dl_iterate_phdr(changes, &now);
  if (libraries && now == library_changes) return;
  for (int i = 0; i < library_count; i++) free(libraries[i].path);
  library_count = 0;
  dl_iterate_phdr(take_library, 0);
}

static const char *library_at(uintptr_t address) {
  for (int i = 0; i < library_count; i++)
    if (address >= libraries[i].begin && address < libraries[i].end) return libraries[i].path;
  return 0;
}

static const char *operator_at(uintptr_t address) {
  int low = 0, high = known_count;
  while (low < high) {
    int middle = (low + high) / 2;
    if (known_operators[middle].begin <= address) low = middle + 1;
    else high = middle;
  }
  return low && address < known_operators[low - 1].end ? known_operators[low - 1].name : 0;
}

#define MOST_FRAMES 96
#define MOST_OPERATORS 8

/* Operators that are being called, innermost first, each once. */
static int operators_of(void **frames, int n, const char **out) {
  int count = 0;
  for (int i = 0; i < n && count < MOST_OPERATORS; i++) {
    const char *name = operator_at((uintptr_t)frames[i] - 1);
    int again = 0;
    for (int j = 0; name && j < count; j++) again |= !strcmp(out[j], name);
    if (name && !again) out[count++] = name;
  }
  return count;
}

static void say_caller(Line *line) {
  void *frames[MOST_FRAMES];
  const char *seen[MOST_LIBRARIES], *operators[MOST_OPERATORS];
  int count = 0, n = backtrace(frames, MOST_FRAMES);
  read_libraries();
  say(line, ",\"libraries\":[");
  for (int i = 0; i < n && count < MOST_LIBRARIES; i++) {
    const char *path = library_at((uintptr_t)frames[i] - 1);
    if (!path) continue;
    const char *base = strrchr(path, '/');
    base = base ? base + 1 : path;
    if (strstr(base, "ptxview_") || !strncmp(base, "libcuda.so", 10)
        || !strncmp(base, "libcupti", 8) || !strncmp(base, "libc.so", 7)
        || !strncmp(base, "libcudart", 9) || !strncmp(base, "libffi", 6)
        || !strncmp(base, "libpython", 9) || !strncmp(base, "libstdc++", 9)) continue;
    int again = 0;
    for (int j = 0; j < count; j++) again |= !strcmp(seen[j], path);
    if (again) continue;
    seen[count] = path;
    if (count++) say(line, ",");
    say_text(line, path);
  }
  say(line, "]");
  count = operators_of(frames, n, operators);
  for (int i = 0; i < count; i++) say(line, i ? "," : ",\"operators\":["), say_text(line, operators[i]);
  if (count) say(line, "]");
}

/* The number of the operators that are being called, where every launch is asked for them. */
static int operators_now(void) {
  void *frames[MOST_FRAMES];
  const char *names[MOST_OPERATORS];
  int n = backtrace(frames, MOST_FRAMES);
  read_libraries();
  int count = operators_of(frames, n, names);
  uint64_t h = 1469598103934665603ull;
  for (int i = 0; i < count; i++) h = (h ^ (uintptr_t)names[i]) * 1099511628211ull;
  return count ? (int)(h >> 33) | 1 : 0;
}

/* Where a launch has its parameter: an array of pointers, or one buffer with its size. */
static const unsigned char *parameter(void **params, void **extra, int i, size_t offset, size_t size) {
  if (params) return params[i];
  const unsigned char *buffer = 0;
  size_t bytes = 0;
  for (int j = 0; extra && extra[j] && j < 8; j += 2) {
    if (extra[j] == (void *)1) buffer = extra[j + 1];         /* CU_LAUNCH_PARAM_BUFFER_POINTER */
    else if (extra[j] == (void *)2) bytes = *(size_t *)extra[j + 1];
  }
  return buffer && offset + size <= bytes ? buffer + offset : 0;
}

static int size_of_parameter(void *f, size_t i, size_t *offset, size_t *size) {
  return (ask.param_info && !ask.param_info(f, i, offset, size))
      || (ask.kernel_param_info && !ask.kernel_param_info(f, i, offset, size));
}

static void keep_parameters(Entry *entry, void *f, void **params, void **extra) {
  Parameter sizes[MOST_PARAMETERS];
  unsigned char bytes[MOST_BYTES];
  size_t offset, size, total = 0;
  int n = 0;
  if (!params && !extra) return;
  for (; n < MOST_PARAMETERS && size_of_parameter(f, (size_t)n, &offset, &size); n++) {
    const unsigned char *from = parameter(params, extra, n, offset, size);
    if (!from || total + size > MOST_BYTES || offset > 65535) break;
    memcpy(bytes + total, from, size);
    sizes[n] = (Parameter){(unsigned short)offset, (unsigned short)size, (unsigned short)total};
    total += size;
  }
  Parameter *block = malloc((size_t)n * sizeof *block + total + 1);
  if (!block) return;
  entry->sizes = memcpy(block, sizes, (size_t)n * sizeof *block);
  entry->bytes = memcpy(block + n, bytes, total);
  entry->parameters = n;
}

static void compare_parameters(Entry *entry, void **params, void **extra) {
  for (int i = 0; i < entry->parameters; i++) {
    if (entry->varied >> i & 1) continue;
    const unsigned char *now = parameter(params, extra, i, entry->sizes[i].offset, entry->sizes[i].size);
    if (!now || memcmp(now, entry->bytes + entry->sizes[i].at, entry->sizes[i].size))
      entry->varied |= 1ull << i, entry->told = ~0ull;
  }
}

static void say_parameters(Line *line, const Entry *entry) {
  say(line, ",\"parameters\":[");
  for (int i = 0; i < entry->parameters; i++) {
    say(line, i ? ",\"" : "\"");
    for (int j = 0; j < entry->sizes[i].size; j++) {
      char hex[4];
      snprintf(hex, sizeof hex, "%02x", entry->bytes[entry->sizes[i].at + j]);
      say(line, hex);
    }
    say(line, "\"");
  }
  say(line, "]");
}

static int device_of(void *context) {
  uint32_t device = 0;
  return ask.device_of && context && !ask.device_of(context, &device) ? (int)device : -1;
}

static void say_entry(int number, int in_graph) {
  Entry *entry = &entries[number];
  Line line = {0};
  begin(&line, "driver_launch");
  say(&line, ",\"id\":"), say_number(&line, (uint64_t)number);
  say(&line, ",\"name\":"), say_text(&line, entry->symbol);
  if (entry->module >= 0) {
    Module *module = modules[entry->module];
    keep(module);
    if (module->kept > 0) say(&line, ",\"module\":"), say_text(&line, module->digest);
  }
  if (entry->others) say(&line, ",\"others\":true");
  else {
    say_three(&line, "grid", entry->grid), say_three(&line, "block", entry->block);
    say(&line, ",\"shared_bytes\":"), say_number(&line, entry->shared);
    if (entry->cluster[0]) say_three(&line, "cluster", entry->cluster);
    if (entry->parameters) say_parameters(&line, entry);
  }
  if (entry->device >= 0) say(&line, ",\"device\":"), say_number(&line, (uint64_t)entry->device);
  if (by_operator) say(&line, ",\"by_operator\":true");
  if (in_graph) say(&line, ",\"in_graph\":true");
  say_caller(&line);
  append(&line);
}

static uint64_t mixed(void *f, const unsigned *dims, int device, int operator) {
  uint64_t h = (uint64_t)(uintptr_t)f * 0x9e3779b97f4a7c15ull + (uint64_t)(unsigned)device * 31 + (uint64_t)operator;
  for (int i = 0; i < 7; i++) h = (h ^ dims[i]) * 0x100000001b3ull;
  return h ^ h >> 29;
}

/* Zeroed memory that begins with a line of the cache. */
static void *whole_lines(size_t bytes) {
  void *memory = 0;
  return posix_memalign(&memory, 64, bytes) ? 0 : memset(memory, 0, bytes);
}

static int room_for_slots(int room) {
  Slot *grown = whole_lines((size_t)room * sizeof *grown);
  if (!grown) return -1;
  for (int i = 0; i < slot_room; i++) {
    if (!slots[i].f) continue;
    unsigned to = (unsigned)mixed(slots[i].f, slots[i].dims, slots[i].device, slots[i].operator);
    while (grown[to & (unsigned)(room - 1)].f) to++;
    grown[to & (unsigned)(room - 1)] = slots[i];
  }
  free(slots);
  slots = grown, slot_room = room;
  return 0;
}

static void forget_slots(void) {
  memset(slots, 0, (size_t)slot_room * sizeof *slots);
  slot_count = 0;
}

/* The entry of a launch, made when there is none: -1 if there is no room. */
static int entry_of(void *f, const char *symbol, const unsigned *dims, const unsigned *cluster,
                    int device, void **params, void **extra, int in_graph) {
  uint64_t h = mixed(f, dims, device, operator_here);
  for (unsigned i = (unsigned)h;; i++) {
    const Slot *slot = &slots[i & (unsigned)(slot_room - 1)];
    if (!slot->f) break;
    if (slot->f == f && slot->device == device && slot->operator == operator_here
        && !memcmp(slot->dims, dims, sizeof slot->dims)) return slot->entry;
  }
  if (!symbol || !*symbol) {
    const char *asked = 0;
    if ((!ask.name_of || ask.name_of(&asked, f) || !asked)
        && (!ask.kernel_name || ask.kernel_name(&asked, f) || !asked)) return -1;
    symbol = asked;
  }
  int module = module_of(f, symbol), found = -1, same = 0, others = -1;
  for (int i = 0; i < entry_count && found < 0; i++) {
    Entry *entry = &entries[i];
    if (entry->module != module || strcmp(entry->symbol, symbol)) continue;
    if (entry->others) { others = i; continue; }
    same++;
    if (!memcmp(entry->grid, dims, sizeof entry->grid) && entry->device == device
        && !memcmp(entry->block, dims + 3, sizeof entry->block) && entry->shared == dims[6]
        && entry->operator == operator_here && !memcmp(entry->cluster, cluster, sizeof entry->cluster))
      found = i;
  }
  if (found < 0 && same >= MOST_OF_ONE) found = others;
  if (found < 0) {
    if (entry_count >= MOST_ENTRIES) return -1;
    Entry *entry = &entries[entry_count];
    memset(entry, 0, sizeof *entry);
    if (!(entry->symbol = strdup(symbol))) return -1;
    entry->others = same >= MOST_OF_ONE;
    entry->module = module, entry->device = device, entry->operator = operator_here;
    memcpy(entry->grid, dims, sizeof entry->grid);
    memcpy(entry->block, dims + 3, sizeof entry->block);
    entry->shared = dims[6];
    memcpy(entry->cluster, cluster, sizeof entry->cluster);
    found = entry_count++;
    if (!entry->others) keep_parameters(entry, f, params, extra);
    say_entry(found, in_graph);
  }
  if (slot_count > slot_room / 2 && (slot_room >= SLOTS || room_for_slots(slot_room * 2)))
    forget_slots();
  Slot *slot;
  for (unsigned i = (unsigned)h; (slot = &slots[i & (unsigned)(slot_room - 1)])->f;) i++;
  slot_count++;
  slot->f = f, slot->device = device, slot->operator = operator_here, slot->entry = found;
  memcpy(slot->dims, dims, sizeof slot->dims);
  return found;
}

static void tell(void) {
  Line line = {0};
  int first = 1;
  begin(&line, "driver_counts");
  say(&line, ",\"counts\":{");
  for (int i = 0; i < exec_count; i++)
    for (int j = 0; j < execs[i].count && execs[i].launched; j++)
      if (execs[i].entries[j] >= 0) entries[execs[i].entries[j]].replayed += execs[i].launched;
  for (int i = 0; i < exec_count; i++) execs[i].launched = 0;
  for (int i = 0; i < entry_count; i++) {
    Entry *entry = &entries[i];
    uint64_t total = entry->count + entry->replayed + entry->captured;
    if (total == entry->told) continue;
    char text[128];
    snprintf(text, sizeof text, "%s\"%d\":[%llu,%llu,%llu,%llu]", first ? "" : ",", i,
             (unsigned long long)entry->count, (unsigned long long)entry->replayed,
             (unsigned long long)entry->varied, (unsigned long long)entry->captured);
    say(&line, text);
    entry->told = total, first = 0;
  }
  say(&line, "}");
  struct { const char *name; uint64_t n; } lost[] = {
    {"lost_launches", lost_launches}, {"lost_modules", lost_modules}, {"lost_bytes", lost_bytes},
    {"lost_graphs", lost_graphs}, {"changed_graphs", changed_graphs},
    {"failed_writes", failed_writes}, {"lost_refusals", lost_refusals}};
  uint64_t sum = 0;
  for (unsigned i = 0; i < sizeof lost / sizeof *lost; i++) {
    sum += lost[i].n;
    if (!lost[i].n) continue;
    say(&line, ",\""), say(&line, lost[i].name), say(&line, "\":"), say_number(&line, lost[i].n);
  }
  if (!first || sum != told_sum) append(&line);
  else free(line.text);
  told_sum = sum;
  changed = 0;
}

/* Ticks of the processor, tens of millions to some billions a second: where a clock is a system
 * call, as in sandboxes, it costs as much as all else here. 0 where there is no such counter. */
static uint64_t ticks(void) {
#if defined __x86_64__
  return __builtin_ia32_rdtsc();
#elif defined __aarch64__
  uint64_t now;
  __asm__ volatile("mrs %0, cntvct_el0" : "=r"(now));
  return now;
#else
  return 0;
#endif
}

#define BETWEEN 250000000l   /* nanoseconds between two writings of counts */
#define A_WHILE 1000000ull   /* ticks: at most 40 ms */
static void counted(void) {
  static uint64_t looked;
  struct timespec now;
  changed = 1;
  uint64_t tick = ticks();
  if (tick && tick - looked < A_WHILE) return;
  looked = tick;
  clock_gettime(CLOCK_MONOTONIC, &now);
  long passed = (now.tv_sec - last.tv_sec) * 1000000000l + now.tv_nsec - last.tv_nsec;
  if (passed < BETWEEN) return;
  last = now;
  tell();
}

static int in_capture(void *stream) {
  int status = 0;
  return capturing > 0 && ask.is_capturing && !ask.is_capturing(stream, &status) && status;
}

static void launched(const Callback *call, void *f, const unsigned *dims, const unsigned *cluster,
                     void *stream, void **params, void **extra) {
  static __thread void *context;
  static __thread int device = -1;
  if (call->context != context) context = call->context, device = device_of(context);
  int captured = in_capture(stream);
  operator_here = by_operator ? operators_now() : 0;
  if (loaded_here >= 0) tie(f, loaded_here), loaded_here = -1;
  int entry = entry_of(f, call->symbol, dims, cluster, device, params, extra, captured);
  if (entry >= 0) compare_parameters(&entries[entry], params, extra);
  if (entry >= 0 && captured) entries[entry].captured++;
  else if (entry >= 0) entries[entry].count++;
  else if (!captured) lost_launches++;
  counted();
}

/* A launch that the driver would not do, for what the kernel or the launch asks for: told once. What
 * an earlier kernel's fault has every call answer, and what a stream that is captured forbids, is
 * nothing of this kernel's. Numbers of cuda.h. */
static int is_refusal(int error) {
  switch (error) {
  case 1: case 2: case 98: case 200: case 209: case 222: case 701: case 720: case 912: return 1;
  }
  return 0;
}

static void refused(const Callback *call, uint32_t id, int error) {
  static struct { void *f; unsigned dims[7]; int error; } told[MOST_REFUSED];
  static int many;
  void *f = 0;
  unsigned dims[7];
  switch (id) {
  case LAUNCH: case LAUNCH_PTSZ: case COOPERATIVE: case COOPERATIVE_PTSZ: {
    const Launch *p = call->params;
    f = p->f, memcpy(dims, p->grid, sizeof dims);
    break;
  }
  case LAUNCH_EX: case LAUNCH_EX_PTSZ: {
    const LaunchEx *p = call->params;
    if (p->config) f = p->f, memcpy(dims, p->config->grid, sizeof dims);
    break;
  }
  }
  const char *symbol = call->symbol, *name = 0, *words = 0;
  if (!f) return;
  for (int i = 0; i < many; i++)
    if (told[i].f == f && told[i].error == error && !memcmp(told[i].dims, dims, sizeof dims)) return;
  if (many >= MOST_REFUSED) { lost_refusals++; return; }
  told[many].f = f, told[many].error = error, memcpy(told[many++].dims, dims, sizeof dims);
  if (loaded_here >= 0) tie(f, loaded_here), loaded_here = -1;
  if (!symbol || !*symbol)
    if ((!ask.name_of || ask.name_of(&symbol, f) || !symbol)
        && (!ask.kernel_name || ask.kernel_name(&symbol, f) || !symbol)) return;
  if (!ask.error_name || ask.error_name(error, &name) || !name) return;
  if (!ask.error_words || ask.error_words(error, &words) || !words) words = name;
  Line line = {0};
  begin(&line, "not_launched");
  say(&line, ",\"symbol\":"), say_text(&line, symbol);
  int module = module_of(f, symbol);
  if (module >= 0) {
    keep(modules[module]);
    if (modules[module]->kept > 0) say(&line, ",\"hash\":"), say_text(&line, modules[module]->digest);
  }
  say(&line, ",\"kind\":"), say_text(&line, name);
  say(&line, ",\"error\":"), say_text(&line, words);
  say_three(&line, "grid", dims), say_three(&line, "block", dims + 3);
  say(&line, ",\"shared_bytes\":"), say_number(&line, dims[6]);
  append(&line);
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
      unsigned dims[7], none[3] = {0};
      memcpy(dims, params.grid, sizeof params.grid);
      memcpy(dims + 3, params.block, sizeof params.block);
      dims[6] = params.shared;
      void *f = params.f ? params.f : params.kernel;
      int *grown = realloc(exec->entries, (size_t)(exec->count + 1) * sizeof *grown);
      if (!grown) { bad = 1; continue; }
      exec->entries = grown;
      int entry = entry_of(f, 0, dims, none, device_of(params.context ? params.context : context), params.params, params.extra, 1);
      if (entry >= 0) compare_parameters(&entries[entry], params.params, params.extra);
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

static void instantiated(void *handle, void *graph, void *context) {
  Exec *exec = exec_of(handle);
  if (exec) tell(), exec->gone = 1;
  if (exec_count == exec_room) {
    int room = exec_room ? exec_room * 2 : 64;
    Exec *grown = realloc(execs, (size_t)room * sizeof *execs);
    if (!grown) { lost_graphs++; return; }
    execs = grown, exec_room = room;
  }
  exec = &execs[exec_count++];
  memset(exec, 0, sizeof *exec);
  exec->exec = handle;
  operator_here = 0;
  if (collect(graph, exec, context, 0)) lost_graphs++;
}

/* -- callbacks -------------------------------------------------------------------------------- */

static void returned(const Callback *call, uint32_t id) {
  const void *params = call->params;
  void *const *words = params;
  unsigned none[3] = {0}, dims[7];
  switch (id) {
  case LOAD: case LOAD_DATA: case LOAD_DATA_EX: case LOAD_FATBIN:
    if (loaded_here >= 0 && words[0]) tie(*(void **)words[0], loaded_here);
    break;
  case GET_FUNCTION:
    if (!words[0]) break;
    if (loaded_here >= 0) tie(*(void **)words[0], loaded_here), tie(words[1], loaded_here);
    else { int module = tied(words[1]); if (module >= 0) tie(*(void **)words[0], module); }
    break;
  case GET_KERNEL: case KERNEL_FUNCTION:
    if (loaded_here >= 0 && words[0]) tie(*(void **)words[0], loaded_here);
    break;
  case LAUNCH: case LAUNCH_PTSZ: case COOPERATIVE: case COOPERATIVE_PTSZ: {
    const Launch *p = params;
    /* A cooperative launch has no extra. */
    launched(call, p->f, p->grid, none, p->stream, p->params,
             id == LAUNCH || id == LAUNCH_PTSZ ? p->extra : 0);
    break;
  }
  case LAUNCH_EX: case LAUNCH_EX_PTSZ: {
    const LaunchEx *p = params;
    unsigned cluster[3] = {0};
    memcpy(dims, p->config->grid, sizeof dims);
    for (unsigned i = 0; i < p->config->count; i++)
      if (p->config->attributes[i].id == 4) memcpy(cluster, p->config->attributes[i].value, sizeof cluster);
    launched(call, p->f, dims, cluster, p->config->stream, p->params, p->extra);
    break;
  }
  case COOPERATIVE_MULTI: lost_launches++; counted(); break;
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
    else lost_graphs++;
    counted();
    break;
  }
  case SET_NODE: case SET_NODE_2: case SET_ANY_NODE: changed_graphs++; break;
  case UPDATE: case UPDATE_2: {
    Exec *exec = exec_of(words[0]);
    if (!exec) break;
    tell();
    exec->count = 0;
    if (collect(words[1], exec, call->context, 0)) lost_graphs++;
    break;
  }
  }
}

static void called(void *user, int domain, uint32_t id, const void *data) {
  (void)user;
  if (!active || busy) return;
  const Callback *call = data;
  int error = 0;
  if (domain == DRIVER_API) {
    if (call->site == 0) {
      loaded_here = -1;
      if (id != EXEC_DESTROY) return;
    } else if (!call->result || ((error = *(int *)call->result) && !is_refusal(error))) return;
  }
  if (domain == RESOURCE) {
    const Resource *resource = data;
    if (id == MODULE_LOADED) module_loaded(resource->descriptor);
    else __atomic_store_n(&unloaded, 1, __ATOMIC_RELEASE);
    return;
  }
  busy = 1;
  pthread_mutex_lock(&lock);
  if (__atomic_exchange_n(&unloaded, 0, __ATOMIC_ACQ_REL)) {
    /* Handles of what is unloaded may come again, and mean something else. */
    handle_count = 0;
    forget_slots();
  }
  if (id == EXEC_DESTROY) {
    Exec *exec = call->site == 0 ? exec_of(*(void *const *)call->params) : 0;
    if (exec) tell(), exec->gone = 1, free(exec->entries), exec->entries = 0, exec->count = 0;
  } else if (error) refused(call, id, error);
  else returned(call, id);
  pthread_mutex_unlock(&lock);
  busy = 0;
}

/* -- beginning and end ------------------------------------------------------------------------ */

static void in_child(void) {
  /* CUDA does not survive a fork, and what this process counted is its parent's to tell. */
  pthread_mutex_init(&lock, 0);
  pthread_mutex_init(&loading, 0);
  if (active) active = 0;
  busy = 0;
}

static int subscribe(void) {
  void *cupti = dlopen(cupti_path, RTLD_NOW | RTLD_GLOBAL);
  void *cuda = dlopen("libcuda.so.1", RTLD_NOW);
  if (!cupti || !cuda) return -1;
  ask.subscribe = (Answer)dlsym(cupti, "cuptiSubscribe");
  ask.unsubscribe = (Answer)dlsym(cupti, "cuptiUnsubscribe");
  ask.enable = (Answer)dlsym(cupti, "cuptiEnableCallback");
  ask.device_of = (Answer)dlsym(cupti, "cuptiGetDeviceId");
  ask.module_of = (Answer)dlsym(cuda, "cuFuncGetModule");
  ask.param_info = (Answer)dlsym(cuda, "cuFuncGetParamInfo");
  ask.kernel_param_info = (Answer)dlsym(cuda, "cuKernelGetParamInfo");
  ask.name_of = (Answer)dlsym(cuda, "cuFuncGetName");
  ask.kernel_name = (Answer)dlsym(cuda, "cuKernelGetName");
  ask.is_capturing = (Answer)dlsym(cuda, "cuStreamIsCapturing");
  ask.nodes = (Answer)dlsym(cuda, "cuGraphGetNodes");
  ask.node_type = (Answer)dlsym(cuda, "cuGraphNodeGetType");
  ask.node_params = (Answer)dlsym(cuda, "cuGraphKernelNodeGetParams_v2");
  ask.child = (Answer)dlsym(cuda, "cuGraphChildGraphNodeGetGraph");
  ask.error_name = (Answer)dlsym(cuda, "cuGetErrorName");
  ask.error_words = (Answer)dlsym(cuda, "cuGetErrorString");
  if (!ask.subscribe || !ask.unsubscribe || !ask.enable) return -2;
  if (posix_memalign((void **)&entries, 64, MOST_ENTRIES * sizeof *entries)) return -3;
  modules = calloc(MOST_MODULES, sizeof *modules);
  if (!entries || !modules || (!slots && room_for_slots(FIRST_SLOTS))) return -3;
  find_openssl();
  void *frames[4];
  backtrace(frames, 4);   /* its first call loads a library, here and not within a launch */
  int error = ask.subscribe(&subscriber, called, (void *)0);
  if (error) return error;
  active = 1;
  error = ask.enable(1u, subscriber, RESOURCE, (uint32_t)MODULE_LOADED);
  if (!error) error = ask.enable(1u, subscriber, RESOURCE, (uint32_t)MODULE_UNLOADED);
  for (unsigned i = 0; i < sizeof WATCHED / sizeof *WATCHED; i++) {
    int why = ask.enable(1u, subscriber, DRIVER_API, WATCHED[i]);
    /* An older CUPTI knows fewer; without these two there is nothing to see. */
    if (why && (WATCHED[i] == LAUNCH || WATCHED[i] == LAUNCH_EX)) error = why;
  }
  if (error) active = 0, ask.unsubscribe(subscriber);
  return error;
}

/* Begin, at once: 0, or why not (an error of CUPTI's; below 0, something is lacking). */
EXPORT int ptxview_driver_begin(void) {
  if (active || !ready) return 0;
  owner = (int)getpid();
  snprintf(path, sizeof path, "%s/events-%d-%s-driver.jsonl", root, owner, file_tag);
  pthread_mutex_lock(&lock);
  refused_error = subscribe();
  Line line = {0};
  begin(&line, "driver");
  say(&line, ",\"schema\":1,\"began\":"), say(&line, refused_error ? "false" : "true");
  if (refused_error) {
    char text[32];
    snprintf(text, sizeof text, ",\"error\":%d", refused_error);
    say(&line, text);
  }
  append(&line);
  pthread_mutex_unlock(&lock);
  return refused_error;
}

/* Where to write, and which CUPTI to ask; what the driver will call when it is initialised. */
EXPORT void ptxview_driver_prepare(const char *folder, const char *tag, const char *cupti,
                                   const char *self, int operators) {
  snprintf(root, sizeof root, "%s", folder);
  snprintf(file_tag, sizeof file_tag, "%s", tag);
  snprintf(cupti_path, sizeof cupti_path, "%s", cupti);
  if (!ready) pthread_atfork(0, 0, in_child);
  ready = 1;
  by_operator = operators;
  written = 0;
  if (self) setenv("CUDA_INJECTION64_PATH", self, 1);
}

/* What Python's probes would have prepared, in a program that has none of them. */
static void prepare_alone(void) {
  const char *folder = getenv("PTXVIEW_RECORDING"), *cupti = getenv("PTXVIEW_CUPTI");
  struct timespec now;
  char tag[32];
  if (!folder || !*folder || !cupti || !*cupti) return;
  clock_gettime(CLOCK_REALTIME, &now);
  snprintf(tag, sizeof tag, "%08lx", (unsigned long)(now.tv_nsec ^ now.tv_sec << 8) & 0xffffffff);
  ptxview_driver_prepare(folder, tag, cupti, 0, getenv("PTXVIEW_OPERATORS") != 0);
}

/* The driver calls this at the end of cuInit. */
EXPORT int InitializeInjection(void) {
  unsetenv("CUDA_INJECTION64_PATH");
  if (!ready) prepare_alone();
  ptxview_driver_begin();
  return 1;
}

/* Write counts as they stand. */
EXPORT void ptxview_driver_tell(void) {
  if (!active || owner != (int)getpid()) return;
  busy = 1;
  pthread_mutex_lock(&lock);
  tell();
  pthread_mutex_unlock(&lock);
  busy = 0;
}

/* Leave, before somebody else subscribes: CUPTI has room for one. */
EXPORT int ptxview_driver_leave(const char *why) {
  if (!active || owner != (int)getpid()) return 0;
  ptxview_driver_tell();
  active = 0;
  int error = ask.unsubscribe(subscriber);
  pthread_mutex_lock(&lock);
  Line line = {0};
  begin(&line, "driver_left");
  say(&line, ",\"why\":"), say_text(&line, why);
  if (error) say(&line, ",\"error\":"), say_number(&line, (uint64_t)error);
  append(&line);
  pthread_mutex_unlock(&lock);
  return error;
}

/* Whether callbacks are asked for, while we stand: to measure what they cost. */
EXPORT void ptxview_driver_watch(int on) {
  if (!subscriber) return;
  for (unsigned i = 0; i < sizeof WATCHED / sizeof *WATCHED; i++)
    ask.enable((uint32_t)on, subscriber, DRIVER_API, WATCHED[i]);
}
EXPORT int ptxview_driver_active(void) { return active; }

__attribute__((destructor)) static void ended(void) { ptxview_driver_tell(); active = 0; }
