/* A clock that is wrong by TAPEBOOK_SKEW_SECONDS, for a process that is started with this library before all others. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

int clock_gettime(clockid_t clock, struct timespec *now)
{
    static int (*real)(clockid_t, struct timespec *);
    if (!real)
        real = dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(clock, now);
    const char *skew = getenv("TAPEBOOK_SKEW_SECONDS");
    if (clock == CLOCK_REALTIME && skew)
        now->tv_sec += atol(skew);
    return result;
}
