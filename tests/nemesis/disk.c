/* A disk that can be full and can lose its power: preloaded into a run, it fails writes below NEMESIS_ROOT with ENOSPC
   from the n-th on (NEMESIS_FULL, for NEMESIS_FULL_FOR of them), and logs what reaches files and folders there to
   NEMESIS_LOG, so that disk.py can say what a power cut at any instant would have left. SQLite writes in C: a layer in
   Python would not see it. One record a line: kind, inode, offset, data or paths in hexadecimal.
   NEMESIS_SKEW seconds are what the clocks of processes differ by, and what they jump by every two seconds. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static const char *root(void) { const char *r = getenv("NEMESIS_ROOT"); return r && *r ? r : NULL; }

static int below(const char *path) {
    const char *r = root();
    return r && strncmp(path, r, strlen(r)) == 0 && (path[strlen(r)] == '/' || !path[strlen(r)]);
}

static int absolute(int at, const char *path, char *out) {
    char base[PATH_MAX];
    if (path[0] == '/') return snprintf(out, PATH_MAX, "%s", path) < PATH_MAX;
    if (at == AT_FDCWD) { if (!getcwd(base, sizeof base)) return 0; }
    else {
        char link[64]; snprintf(link, sizeof link, "/proc/self/fd/%d", at);
        ssize_t n = readlink(link, base, sizeof base - 1);
        if (n < 0) return 0;
        base[n] = 0;
    }
    return snprintf(out, PATH_MAX, "%s/%s", base, path) < PATH_MAX;
}

static int ours(int fd) {
    char link[64], path[PATH_MAX];
    if (!root()) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    if (n < 0) return 0;
    path[n] = 0;
    return below(path);
}

/* The log is locked around a change and its record: their order is the order on the disk. */
static int take(void) {
    const char *log = getenv("NEMESIS_LOG");
    int fd = log ? REAL(open)(log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (fd >= 0) flock(fd, LOCK_EX);
    return fd;
}

static void put(int log, const char *head, const void *data, size_t size) {
    if (log < 0) return;
    static const char digit[] = "0123456789abcdef";
    size_t start = strlen(head);
    char *line = malloc(start + 2 * size + 1);
    if (line) {
        memcpy(line, head, start);
        for (size_t i = 0; i < size; i++) {
            line[start + 2 * i] = digit[((const unsigned char *)data)[i] >> 4];
            line[start + 2 * i + 1] = digit[((const unsigned char *)data)[i] & 15];
        }
        line[start + 2 * size] = '\n';
        if (REAL(write)(log, line, start + 2 * size + 1) < 0) abort();
        free(line);
    }
}

static void give(int log) { if (log >= 0) { int e = errno; REAL(close)(log); errno = e; } }

static unsigned long inode(int fd) { struct stat s; return fstat(fd, &s) ? 0 : s.st_ino; }

static int full(void) {
    const char *from = getenv("NEMESIS_FULL"), *state = getenv("NEMESIS_COUNT"), *most = getenv("NEMESIS_FULL_FOR");
    if (!from || !state) return 0;
    int fd = REAL(open)(state, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0) return 0;
    if (REAL(write)(fd, "x", 1) < 0) abort();
    long n = lseek(fd, 0, SEEK_END), first = atol(from);
    REAL(close)(fd);
    return n >= first && n < first + (most ? atol(most) : LONG_MAX / 2);
}

static ssize_t put_data(int fd, const void *data, size_t size, off_t at, int placed) {
    if (!ours(fd)) return placed ? REAL(pwrite64)(fd, data, size, at) : REAL(write)(fd, data, size);
    if (full()) { errno = ENOSPC; return -1; }
    int log = take();
    if (!placed) at = fcntl(fd, F_GETFL) & O_APPEND ? lseek(fd, 0, SEEK_END) : lseek(fd, 0, SEEK_CUR);
    ssize_t n = placed ? REAL(pwrite64)(fd, data, size, at) : REAL(write)(fd, data, size);
    if (n > 0) {
        char head[96]; snprintf(head, sizeof head, "write %lu %lld ", inode(fd), (long long)at);
        put(log, head, data, n);
    }
    give(log);
    return n;
}

ssize_t write(int fd, const void *data, size_t size) { return put_data(fd, data, size, 0, 0); }
ssize_t pwrite(int fd, const void *data, size_t size, off_t at) { return put_data(fd, data, size, at, 1); }
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) { return put_data(fd, data, size, at, 1); }

ssize_t writev(int fd, const struct iovec *parts, int count) {
    if (!ours(fd)) return REAL(writev)(fd, parts, count);
    ssize_t sum = 0;
    for (int i = 0; i < count; i++) {
        ssize_t n = write(fd, parts[i].iov_base, parts[i].iov_len);
        if (n < 0) return sum ? sum : -1;
        sum += n;
        if ((size_t)n < parts[i].iov_len) break;
    }
    return sum;
}

/* Copies within the kernel would pass us by; Python copies by hand where these are not there. */
ssize_t sendfile(int out, int in, off_t *at, size_t n) { (void)in, (void)at, (void)n; if (ours(out)) { errno = ENOTSOCK; return -1; } return REAL(sendfile)(out, in, at, n); }
ssize_t sendfile64(int out, int in, off64_t *at, size_t n) { (void)in, (void)at, (void)n; if (ours(out)) { errno = ENOTSOCK; return -1; } return REAL(sendfile64)(out, in, at, n); }

static int synced(int fd, int (*real)(int)) {
    if (!ours(fd)) return real(fd);
    int log = take(), code = real(fd);
    if (!code) { char head[64]; snprintf(head, sizeof head, "sync %lu ", inode(fd)); put(log, head, "", 0); }
    give(log);
    return code;
}
int fsync(int fd) { return synced(fd, REAL(fsync)); }
int fdatasync(int fd) { return synced(fd, REAL(fdatasync)); }

static int cut(int fd, off64_t size) {
    if (!ours(fd)) return REAL(ftruncate64)(fd, size);
    int log = take(), code = REAL(ftruncate64)(fd, size);
    if (!code) { char head[96]; snprintf(head, sizeof head, "cut %lu %lld ", inode(fd), (long long)size); put(log, head, "", 0); }
    give(log);
    return code;
}
int ftruncate(int fd, off_t size) { return cut(fd, size); }
int ftruncate64(int fd, off64_t size) { return cut(fd, size); }

static int opened(int at, const char *path, int flags, mode_t mode) {
    char whole[PATH_MAX];
    int logged = root() && absolute(at, path, whole) && below(whole) && flags & (O_CREAT | O_TRUNC);
    if (!logged) return REAL(openat64)(at, path, flags, mode);
    struct stat s;
    int log = take(), known = !fstatat(at, path, &s, 0), fd = REAL(openat64)(at, path, flags, mode);
    if (fd >= 0) {
        char head[64];
        if (!known) { snprintf(head, sizeof head, "create %lu ", inode(fd)); put(log, head, whole, strlen(whole)); }
        else if (flags & O_TRUNC) { snprintf(head, sizeof head, "cut %lu 0 ", inode(fd)); put(log, head, "", 0); }
    }
    give(log);
    return fd;
}
#define MODE mode_t mode = 0; if (flags & (O_CREAT | O_TMPFILE)) { va_list l; va_start(l, flags); mode = va_arg(l, mode_t); va_end(l); }
int open(const char *path, int flags, ...) { MODE return opened(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE return opened(AT_FDCWD, path, flags, mode); }
int openat(int at, const char *path, int flags, ...) { MODE return opened(at, path, flags, mode); }
int openat64(int at, const char *path, int flags, ...) { MODE return opened(at, path, flags, mode); }

static void put_paths(int log, const char *kind, const char *one, const char *two) {
    char head[16], both[2 * PATH_MAX + 1];
    snprintf(head, sizeof head, "%s 0 ", kind);
    int n = snprintf(both, sizeof both, "%s%s%s", one, two ? "\n" : "", two ? two : "");
    put(log, head, both, n);
}
int renameat(int a, const char *from, int b, const char *to) {
    char one[PATH_MAX], two[PATH_MAX];
    int logged = root() && absolute(a, from, one) && absolute(b, to, two) && below(two);
    int log = logged ? take() : -1, code = REAL(renameat)(a, from, b, to);
    if (!code) put_paths(log, "rename", one, two);
    give(log);
    return code;
}
int rename(const char *from, const char *to) { return renameat(AT_FDCWD, from, AT_FDCWD, to); }
int unlinkat(int at, const char *path, int flags) {
    char whole[PATH_MAX];
    int logged = root() && absolute(at, path, whole) && below(whole), log = logged ? take() : -1;
    int code = REAL(unlinkat)(at, path, flags);
    if (!code) put_paths(log, "unlink", whole, NULL);
    give(log);
    return code;
}
int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }
int rmdir(const char *path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }
int mkdirat(int at, const char *path, mode_t mode) {
    char whole[PATH_MAX];
    int logged = root() && absolute(at, path, whole) && below(whole), log = logged ? take() : -1;
    int code = REAL(mkdirat)(at, path, mode);
    struct stat s;
    if (!code && logged && !stat(whole, &s)) {
        char head[64]; snprintf(head, sizeof head, "mkdir %lu ", (unsigned long)s.st_ino);
        put(log, head, whole, strlen(whole));
    }
    give(log);
    return code;
}
int mkdir(const char *path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }

/* The date of this process: NEMESIS_SKEW seconds early, right or late, by turns. Monotonic clocks go on as they are. */
int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    static long skew = -1;
    if (!real) real = REAL(clock_gettime);
    if (skew < 0) skew = getenv("NEMESIS_SKEW") ? atol(getenv("NEMESIS_SKEW")) : 0;
    int done = real(clock, now);
    if (done == 0 && skew && clock == CLOCK_REALTIME) {
        struct timespec since;
        real(CLOCK_MONOTONIC, &since);
        now->tv_sec += skew * ((getpid() + since.tv_sec / 2) % 3 - 1);
    }
    return done;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec exact;
    (void)zone;
    int done = clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec, now->tv_usec = exact.tv_nsec / 1000;
    return done;
}

time_t time(time_t *now) {
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (now) *now = exact.tv_sec;
    return exact.tv_sec;
}
