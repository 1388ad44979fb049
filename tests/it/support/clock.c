// Preloaded into a broker: its wall clock goes as many seconds ahead as the first word of a file says.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static volatile long long *ahead;

__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("RMQ_TEST_CLOCK");
  int fd = path ? open(path, O_RDONLY) : -1;
  if (fd < 0) return;
  void *page = mmap(0, sizeof *ahead, PROT_READ, MAP_SHARED, fd, 0);
  if (page != MAP_FAILED) ahead = page;
  close(fd);
}

int clock_gettime(clockid_t id, struct timespec *t) {
  int failed = (int)syscall(SYS_clock_gettime, id, t);
  if (!failed && ahead && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) t->tv_sec += *ahead;
  return failed;
}
