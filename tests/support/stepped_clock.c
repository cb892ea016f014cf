/* A wall clock that the outside can step: loaded into a process before libc, it adds the seconds in a shared file.
   It includes nothing, so that it can be compiled where libc's headers are not installed. Linux, 64 bits. */

struct timespec { long tv_sec, tv_nsec; };
struct timeval { long tv_sec, tv_usec; };
enum { REALTIME = 0, REALTIME_COARSE = 5, READ_ONLY = 0, PROT_READ = 1, MAP_SHARED = 1 };
#define FAILED ((void *)-1L)
#define NEXT ((void *)-1L)

extern char *getenv(const char *);
extern int open(const char *, int, ...);
extern void *mmap(void *, unsigned long, int, int, int, long);
extern int close(int);
extern void _exit(int);
extern void *dlsym(void *, const char *);

static int (*true_time)(int, struct timespec *);
static volatile long *offset;

__attribute__((constructor)) static void open_offset(void)
{
    const char *path = getenv("STEPPED_CLOCK");
    int file = path ? open(path, READ_ONLY) : -1;
    void *shared = file < 0 ? FAILED : mmap(0, sizeof *offset, PROT_READ, MAP_SHARED, file, 0);
    true_time = dlsym(NEXT, "clock_gettime");
    if (shared == FAILED || !true_time)
        _exit(97);
    offset = shared;
    close(file);
}

int clock_gettime(int id, struct timespec *now)
{
    int result;
    if (!offset) /* somebody before us */
        open_offset();
    result = true_time(id, now);
    if (result == 0 && (id == REALTIME || id == REALTIME_COARSE))
        now->tv_sec += *offset;
    return result;
}

int gettimeofday(struct timeval *now, void *zone)
{
    struct timespec precise;
    (void)zone;
    if (clock_gettime(REALTIME, &precise) != 0)
        return -1;
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return 0;
}

long time(long *where)
{
    struct timespec precise;
    clock_gettime(REALTIME, &precise);
    if (where)
        *where = precise.tv_sec;
    return precise.tv_sec;
}
