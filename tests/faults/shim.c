// Preloaded into a broker under test: fails, delays or kills at the k-th call on a file of its store, and records
// what each flush made durable. Real calls are made by syscall(), so that nothing here depends on a libc symbol.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

enum { FSYNC = 1, FDATASYNC = 2, MSYNC = 4, PWRITE = 8, WRITE = 16, FTRUNCATE = 32, RENAME = 64, OPEN = 128, LINK = 256, UNLINK = 512 };
enum { FAIL_ONCE = 0, FAIL_FROM = 1, KILL_BEFORE = 2, KILL_AFTER = 3 };

// Shared with the test: see Control in shim.rs.
struct control {
  _Atomic uint32_t kinds, at, action, error, seen, hits, delay_us, record;
  char filter[128];
  char hit_path[512];
};

// A header of the record of durable things: see Platter in power.rs. Data or directory entries follow.
struct note {
  uint32_t magic, kind; // 1 data, 2 directory, 3 data whose flush failed
  uint64_t id, offset, len, size;
};

static struct control *control;
static char root[PATH_MAX];
static size_t root_len;
static int platter = -1;
static pthread_mutex_t writing = PTHREAD_MUTEX_INITIALIZER;
static unsigned char tracked[1 << 16];

struct mapping {
  uintptr_t from, to;
  uint64_t offset;
  char path[256];
};
static struct mapping maps[8192];
static int map_count;
static pthread_mutex_t mapping = PTHREAD_MUTEX_INITIALIZER;

__attribute__((constructor)) static void start(void) {
  const char *dir = getenv("RMQ_SHIM_ROOT"), *file = getenv("RMQ_SHIM_CONTROL"), *log = getenv("RMQ_SHIM_PLATTER");
  if (!dir || !file) return;
  int fd = syscall(SYS_openat, AT_FDCWD, file, O_RDWR | O_CLOEXEC, 0);
  if (fd < 0) _exit(99);
  void *at = (void *)syscall(SYS_mmap, NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) _exit(99);
  if (log) platter = syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  snprintf(root, sizeof root, "%s", dir);
  root_len = strlen(root);
  control = at;
}

static int in_root(const char *path) {
  return control && !strncmp(path, root, root_len) && (path[root_len] == '/' || !path[root_len]);
}

static int path_of(int fd, char *out) {
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t len = syscall(SYS_readlinkat, AT_FDCWD, link, out, PATH_MAX - 1);
  if (len < 0) return 0;
  out[len] = 0;
  return in_root(out);
}

static int fd_path(int fd, char *out) {
  return control && fd >= 0 && fd < (int)sizeof tracked && tracked[fd] && path_of(fd, out);
}

// 1 when the call shall fail with errno set. Kills the process where it is told to.
static int strikes(int kind, const char *path, int *kill_after) {
  *kill_after = 0;
  if (!control) return 0;
  if (kind & (FSYNC | FDATASYNC | MSYNC)) {
    uint32_t us = atomic_load(&control->delay_us);
    if (us) {
      struct timespec wait = {us / 1000000, (long)(us % 1000000) * 1000};
      syscall(SYS_nanosleep, &wait, NULL);
    }
  }
  if (!(atomic_load(&control->kinds) & kind)) return 0;
  if (control->filter[0] && !strstr(path, control->filter)) return 0;
  uint32_t n = atomic_fetch_add(&control->seen, 1) + 1, at = atomic_load(&control->at), action = atomic_load(&control->action);
  if (!at || n < at || (n > at && action != FAIL_FROM)) return 0;
  if (!atomic_fetch_add(&control->hits, 1)) snprintf(control->hit_path, sizeof control->hit_path, "%s", path);
  if (action == KILL_BEFORE) syscall(SYS_kill, getpid(), SIGKILL);
  if (action == KILL_AFTER) {
    *kill_after = 1;
    return 0;
  }
  errno = (int)atomic_load(&control->error);
  return 1;
}

static long done(long result, int kill_after) {
  if (kill_after) syscall(SYS_kill, getpid(), SIGKILL);
  return result;
}

// Inode numbers are used again, a birth time with it is not.
static int identity(const char *path, uint64_t *id, uint64_t *size) {
  struct statx s;
  if (syscall(SYS_statx, AT_FDCWD, path, 0, STATX_BASIC_STATS | STATX_BTIME, &s)) return 0;
  *id = s.stx_ino * 0x9E3779B97F4A7C15ull ^ ((uint64_t)s.stx_btime.tv_sec * 1000000000ull + s.stx_btime.tv_nsec);
  *size = s.stx_size;
  return 1;
}

static void put(const void *bytes, size_t len) {
  const char *at = bytes;
  while (len) {
    ssize_t n = syscall(SYS_write, platter, at, len);
    if (n <= 0) _exit(98);
    at += n;
    len -= n;
  }
}

static int records(void) { return platter >= 0 && atomic_load(&control->record); }

// The bytes as they are before the flush begins: the flush makes at least these durable.
static void record_as(int kind, const char *path, uint64_t offset, const void *bytes, uint64_t len) {
  struct note note = {0x504C4154, kind, 0, offset, len, 0};
  if (!identity(path, &note.id, &note.size)) return;
  pthread_mutex_lock(&writing);
  put(&note, sizeof note);
  if (len) put(bytes, len);
  pthread_mutex_unlock(&writing);
}

static void record_bytes(const char *path, uint64_t offset, const void *bytes, uint64_t len) {
  record_as(1, path, offset, bytes, len);
}

static void record_file(const char *path) {
  off_t at = 0;
  record_bytes(path, 0, NULL, 0);
  int own = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
  if (own < 0) return;
  static __thread char piece[65536];
  for (;;) {
    off_t data = syscall(SYS_lseek, own, at, SEEK_DATA);
    if (data < 0) break;
    off_t hole = syscall(SYS_lseek, own, data, SEEK_HOLE);
    for (at = data; at < hole;) {
      size_t want = (size_t)(hole - at) < sizeof piece ? (size_t)(hole - at) : sizeof piece;
      ssize_t n = syscall(SYS_pread64, own, piece, want, at);
      if (n <= 0) break;
      record_bytes(path, at, piece, n);
      at += n;
    }
    if (at < hole) break;
  }
  syscall(SYS_close, own);
}

struct entry64 {
  uint64_t ino;
  int64_t off;
  unsigned short len;
  unsigned char type;
  char name[];
};

static void record_directory(const char *path) {
  char all[65536], found[32768], full[PATH_MAX];
  size_t used = 0;
  int own = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  if (own < 0) return;
  for (;;) {
    long n = syscall(SYS_getdents64, own, found, sizeof found);
    if (n <= 0) break;
    for (long at = 0; at < n;) {
      struct entry64 *e = (void *)(found + at);
      at += e->len;
      if (!strcmp(e->name, ".") || !strcmp(e->name, "..")) continue;
      uint64_t id, size;
      snprintf(full, sizeof full, "%s/%s", path, e->name);
      if (!identity(full, &id, &size)) continue;
      unsigned short name = strlen(e->name);
      if (used + 11 + name > sizeof all) break;
      memcpy(all + used, &id, 8);
      all[used + 8] = e->type == 4;
      memcpy(all + used + 9, &name, 2);
      memcpy(all + used + 11, e->name, name);
      used += 11 + name;
    }
  }
  syscall(SYS_close, own);
  struct note note = {0x504C4154, 2, 0, 0, used, 0};
  if (!identity(path, &note.id, &note.size)) return;
  pthread_mutex_lock(&writing);
  put(&note, sizeof note);
  put(all, used);
  pthread_mutex_unlock(&writing);
}

static int sync_fd(int kind, long call, int fd) {
  char path[PATH_MAX];
  int after = 0;
  if (fd_path(fd, path)) {
    if (strikes(kind, path, &after)) return -1;
    if (records()) {
      struct stat s;
      if (!fstat(fd, &s) && S_ISDIR(s.st_mode)) record_directory(path);
      else record_file(path);
    }
  }
  return done(syscall(call, fd), after);
}

int fsync(int fd) { return sync_fd(FSYNC, SYS_fsync, fd); }
int fdatasync(int fd) { return sync_fd(FDATASYNC, SYS_fdatasync, fd); }

void *mmap(void *hint, size_t len, int prot, int flags, int fd, off_t offset) {
  char path[PATH_MAX];
  void *at = (void *)syscall(SYS_mmap, hint, len, prot, flags, fd, offset);
  if (at != MAP_FAILED && (flags & MAP_SHARED) && fd_path(fd, path)) {
    pthread_mutex_lock(&mapping);
    struct mapping *slot = NULL;
    for (int i = 0; i < map_count && !slot; i++)
      if (!maps[i].to) slot = &maps[i];
    if (!slot && map_count < (int)(sizeof maps / sizeof *maps)) slot = &maps[map_count++];
    if (slot) {
      slot->from = (uintptr_t)at;
      slot->to = slot->from + len;
      slot->offset = offset;
      snprintf(slot->path, sizeof slot->path, "%s", path);
    }
    pthread_mutex_unlock(&mapping);
  }
  return at;
}
void *mmap64(void *hint, size_t len, int prot, int flags, int fd, off_t offset) { return mmap(hint, len, prot, flags, fd, offset); }

int munmap(void *at, size_t len) {
  if (control) {
    pthread_mutex_lock(&mapping);
    for (int i = 0; i < map_count; i++)
      if (maps[i].from == (uintptr_t)at) maps[i].to = maps[i].from = 0;
    pthread_mutex_unlock(&mapping);
  }
  return syscall(SYS_munmap, at, len);
}

int msync(void *at, size_t len, int flags) {
  struct mapping found = {0};
  int after = 0;
  if (control) {
    pthread_mutex_lock(&mapping);
    for (int i = 0; i < map_count; i++)
      if (maps[i].from <= (uintptr_t)at && (uintptr_t)at < maps[i].to) found = maps[i];
    pthread_mutex_unlock(&mapping);
    if (found.to) {
      int fails = strikes(MSYNC, found.path, &after), error = errno;
      if (records() && (flags & MS_SYNC)) {
        size_t most = found.to - (uintptr_t)at;
        uint64_t offset = found.offset + ((uintptr_t)at - found.from);
        record_as(fails ? 3 : 1, found.path, offset, at, len < most ? len : most);
      }
      errno = error;
      if (fails) return -1;
    }
  }
  return done(syscall(SYS_msync, at, len, flags), after);
}

static void absolute(int dir, const char *path, char *out) {
  if (path[0] == '/') snprintf(out, PATH_MAX, "%s", path);
  else {
    char base[PATH_MAX] = "";
    if (dir == AT_FDCWD) (void)!getcwd(base, sizeof base);
    else path_of(dir, base);
    snprintf(out, PATH_MAX, "%.2000s/%.2000s", base, path);
  }
}

static int open_at(int dir, const char *path, int flags, mode_t mode) {
  char full[PATH_MAX];
  int after = 0, ours = 0;
  if (control) {
    absolute(dir, path, full);
    ours = in_root(full);
    if (ours && (flags & O_CREAT) && strikes(OPEN, full, &after)) return -1;
  }
  int fd = syscall(SYS_openat, dir, path, flags, mode);
  if (fd >= 0 && fd < (int)sizeof tracked) tracked[fd] = ours;
  return done(fd, after);
}

#define MODE(flags) mode_t mode = 0; if ((flags) & (O_CREAT | O_TMPFILE)) { va_list list; va_start(list, flags); mode = va_arg(list, int); va_end(list); }
int open(const char *path, int flags, ...) { MODE(flags) return open_at(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE(flags) return open_at(AT_FDCWD, path, flags, mode); }
int openat(int dir, const char *path, int flags, ...) { MODE(flags) return open_at(dir, path, flags, mode); }
int openat64(int dir, const char *path, int flags, ...) { MODE(flags) return open_at(dir, path, flags, mode); }

int close(int fd) {
  if (fd >= 0 && fd < (int)sizeof tracked) tracked[fd] = 0;
  return syscall(SYS_close, fd);
}

ssize_t write(int fd, const void *bytes, size_t len) {
  char path[PATH_MAX];
  int after = 0;
  if (fd_path(fd, path) && strikes(WRITE, path, &after)) return -1;
  return done(syscall(SYS_write, fd, bytes, len), after);
}

ssize_t pwrite(int fd, const void *bytes, size_t len, off_t at) {
  char path[PATH_MAX];
  int after = 0;
  if (fd_path(fd, path) && strikes(PWRITE, path, &after)) return -1;
  return done(syscall(SYS_pwrite64, fd, bytes, len, at), after);
}
ssize_t pwrite64(int fd, const void *bytes, size_t len, off_t at) { return pwrite(fd, bytes, len, at); }

int ftruncate(int fd, off_t len) {
  char path[PATH_MAX];
  int after = 0;
  if (fd_path(fd, path) && strikes(FTRUNCATE, path, &after)) return -1;
  return done(syscall(SYS_ftruncate, fd, len), after);
}
int ftruncate64(int fd, off_t len) { return ftruncate(fd, len); }

static int named(int kind, int dir, const char *path, int *after) {
  char full[PATH_MAX];
  if (!control) return 0;
  absolute(dir, path, full);
  return in_root(full) && strikes(kind, full, after);
}

int renameat(int from_dir, const char *from, int to_dir, const char *to) {
  int after = 0;
  if (named(RENAME, to_dir, to, &after)) return -1;
  return done(syscall(SYS_renameat2, from_dir, from, to_dir, to, 0), after);
}
int rename(const char *from, const char *to) { return renameat(AT_FDCWD, from, AT_FDCWD, to); }

int linkat(int from_dir, const char *from, int to_dir, const char *to, int flags) {
  int after = 0;
  if (named(LINK, to_dir, to, &after)) return -1;
  return done(syscall(SYS_linkat, from_dir, from, to_dir, to, flags), after);
}
int link(const char *from, const char *to) { return linkat(AT_FDCWD, from, AT_FDCWD, to, 0); }

int unlinkat(int dir, const char *path, int flags) {
  int after = 0;
  if (named(UNLINK, dir, path, &after)) return -1;
  return done(syscall(SYS_unlinkat, dir, path, flags), after);
}
int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }
