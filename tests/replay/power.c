/* Notes what a process and its children do to the files below a folder, so that the disk can be rebuilt as a power cut
 * at any of these moments would have left it (power.py). Preloaded, with POWER_ROOT and POWER_LOG in the environment.
 *
 * One lock is held from the act to its note, so the notes of all processes are in the order of the acts. Nothing is
 * really synced: that a file was to be is all that counts here.
 *
 * A note: op, inode, offset, lengths of two texts, the texts. Native byte order; the reader runs on the same machine.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

struct note {
    uint64_t op, inode;
    int64_t offset;
    uint64_t first, second;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static const char *root, *place;
static int log_fd = -1;
static pid_t owner;

static long real_open(int dir, const char *path, int flags, mode_t mode) {
    return syscall(SYS_openat, dir, path, flags, mode);
}

static void begin(void) {
    pthread_mutex_lock(&mutex);
    if (root == NULL) {
        root = getenv("POWER_ROOT");
        place = getenv("POWER_LOG");
    }
    /* A child that was forked has its parent's lock; it needs one of its own. */
    if (log_fd < 0 || owner != getpid()) {
        owner = getpid();
        log_fd = real_open(AT_FDCWD, place, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        if (log_fd >= 0 && log_fd < 100) {
            int high = fcntl(log_fd, F_DUPFD_CLOEXEC, 100);
            if (high >= 0) {
                syscall(SYS_close, log_fd);
                log_fd = high;
            }
        }
    }
    flock(log_fd, LOCK_EX);
}

static void end(void) {
    int kept = errno;
    flock(log_fd, LOCK_UN);
    pthread_mutex_unlock(&mutex);
    errno = kept;
}

static void note(char op, uint64_t inode, int64_t offset, const void *first, size_t many, const char *second) {
    int kept = errno;
    struct note head = {(uint64_t)op, inode, offset, many, second ? strlen(second) : 0};
    struct iovec parts[3] = {{&head, sizeof head}, {(void *)first, many}, {(void *)second, head.second}};
    if (syscall(SYS_writev, log_fd, parts, 3) != (long)(sizeof head + many + head.second)) {
        static const char lost[] = "power.c: a note could not be written\n";
        syscall(SYS_write, 2, lost, sizeof lost - 1);
        _exit(97);
    }
    errno = kept;
}

static int watched(const char *path) {
    const char *below = root ? root : getenv("POWER_ROOT");
    size_t many = below ? strlen(below) : 0;
    return many && strncmp(path, below, many) == 0 && (path[many] == '/' || path[many] == 0);
}

/* The full name of a path; the folders of homes have no links in them. */
static int full(int dir, const char *path, char *out) {
    char base[PATH_MAX], link[64];
    if (path[0] == '/') {
        snprintf(out, PATH_MAX, "%s", path);
    } else {
        snprintf(link, sizeof link, dir == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/%d", dir);
        ssize_t many = readlink(link, base, sizeof base - 1);
        if (many < 0) return 0;
        base[many] = 0;
        if (snprintf(out, PATH_MAX, "%s/%s", base, path) >= PATH_MAX) return 0;
    }
    size_t many = strlen(out);
    while (many > 1 && out[many - 1] == '/') out[--many] = 0;
    return watched(out);
}

static int of_handle(int fd, char *out, struct stat *found) {
    char link[64];
    if (fstat(fd, found) != 0 || (!S_ISREG(found->st_mode) && !S_ISDIR(found->st_mode))) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t many = readlink(link, out, PATH_MAX - 1);
    if (many < 0) return 0;
    out[many] = 0;
    return watched(out);
}

static int open_any(int dir, const char *path, int flags, mode_t mode) {
    char name[PATH_MAX];
    struct stat before, after;
    if (!(flags & (O_CREAT | O_TRUNC)) || !full(dir, path, name)) return real_open(dir, path, flags, mode);
    begin();
    int there = stat(name, &before) == 0;
    int fd = real_open(dir, path, flags, mode);
    if (fd >= 0 && fstat(fd, &after) == 0 && S_ISREG(after.st_mode)) {
        if (!there) note('c', after.st_ino, 0, name, strlen(name), NULL);
        else if (flags & O_TRUNC) note('t', after.st_ino, 0, NULL, 0, NULL);
    }
    end();
    return fd;
}

#define MODE(flags) \
    mode_t mode = 0; \
    if ((flags) & (O_CREAT | __O_TMPFILE)) { va_list more; va_start(more, flags); mode = va_arg(more, mode_t); va_end(more); }

int open(const char *path, int flags, ...) { MODE(flags) return open_any(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE(flags) return open_any(AT_FDCWD, path, flags, mode); }
int openat(int dir, const char *path, int flags, ...) { MODE(flags) return open_any(dir, path, flags, mode); }
int openat64(int dir, const char *path, int flags, ...) { MODE(flags) return open_any(dir, path, flags, mode); }
int creat(const char *path, mode_t mode) { return open_any(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }
int creat64(const char *path, mode_t mode) { return creat(path, mode); }

ssize_t write(int fd, const void *bytes, size_t many) {
    char name[PATH_MAX];
    struct stat found;
    if (fd < 3 || !of_handle(fd, name, &found)) return syscall(SYS_write, fd, bytes, many);
    begin();
    ssize_t done = syscall(SYS_write, fd, bytes, many);
    if (done > 0) note('w', found.st_ino, lseek(fd, 0, SEEK_CUR) - done, bytes, done, NULL);
    end();
    return done;
}

static ssize_t pwrite_any(int fd, const void *bytes, size_t many, off_t offset) {
    char name[PATH_MAX];
    struct stat found;
    if (!of_handle(fd, name, &found)) return syscall(SYS_pwrite64, fd, bytes, many, offset);
    begin();
    ssize_t done = syscall(SYS_pwrite64, fd, bytes, many, offset);
    if (done > 0) note('w', found.st_ino, offset, bytes, done, NULL);
    end();
    return done;
}
ssize_t pwrite(int fd, const void *bytes, size_t many, off_t offset) { return pwrite_any(fd, bytes, many, offset); }
ssize_t pwrite64(int fd, const void *bytes, size_t many, off64_t offset) { return pwrite_any(fd, bytes, many, offset); }

static int ftruncate_any(int fd, off_t size) {
    char name[PATH_MAX];
    struct stat found;
    if (!of_handle(fd, name, &found)) return syscall(SYS_ftruncate, fd, size);
    begin();
    int done = syscall(SYS_ftruncate, fd, size);
    if (done == 0) note('t', found.st_ino, size, NULL, 0, NULL);
    end();
    return done;
}
int ftruncate(int fd, off_t size) { return ftruncate_any(fd, size); }
int ftruncate64(int fd, off64_t size) { return ftruncate_any(fd, size); }

static int sync_any(int fd, long call) {
    char name[PATH_MAX];
    struct stat found;
    if (!of_handle(fd, name, &found)) return syscall(call, fd);
    begin();
    if (S_ISDIR(found.st_mode)) note('D', found.st_ino, 0, name, strlen(name), NULL);
    else note('F', found.st_ino, 0, NULL, 0, NULL);
    end();
    return 0;
}
int fsync(int fd) { return sync_any(fd, SYS_fsync); }
int fdatasync(int fd) { return sync_any(fd, SYS_fdatasync); }

static int two_names(char op, int from_dir, const char *from, int to_dir, const char *to, int flags) {
    char first[PATH_MAX], second[PATH_MAX];
    int ours = full(from_dir, from, first) + full(to_dir, to, second);
    if (ours) begin();
    int done = op == 'l' ? syscall(SYS_linkat, from_dir, from, to_dir, to, flags)
                         : syscall(SYS_renameat2, from_dir, from, to_dir, to, flags);
    if (ours && done == 0) note(op, 0, 0, first, strlen(first), second);
    if (ours) end();
    return done;
}
int link(const char *from, const char *to) { return two_names('l', AT_FDCWD, from, AT_FDCWD, to, 0); }
int linkat(int a, const char *from, int b, const char *to, int flags) { return two_names('l', a, from, b, to, flags); }
int rename(const char *from, const char *to) { return two_names('r', AT_FDCWD, from, AT_FDCWD, to, 0); }
int renameat(int a, const char *from, int b, const char *to) { return two_names('r', a, from, b, to, 0); }

static int one_name(char op, int dir, const char *path, int flags, mode_t mode) {
    char name[PATH_MAX];
    int ours = full(dir, path, name);
    if (ours) begin();
    int done = op == 'm' ? syscall(SYS_mkdirat, dir, path, mode) : syscall(SYS_unlinkat, dir, path, flags);
    if (ours && done == 0) note(op, 0, 0, name, strlen(name), NULL);
    if (ours) end();
    return done;
}
int mkdir(const char *path, mode_t mode) { return one_name('m', AT_FDCWD, path, 0, mode); }
int mkdirat(int dir, const char *path, mode_t mode) { return one_name('m', dir, path, 0, mode); }
int unlink(const char *path) { return one_name('u', AT_FDCWD, path, 0, 0); }
int unlinkat(int dir, const char *path, int flags) { return one_name('u', dir, path, flags, 0); }
int rmdir(const char *path) { return one_name('u', AT_FDCWD, path, AT_REMOVEDIR, 0); }
