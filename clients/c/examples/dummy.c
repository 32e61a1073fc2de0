/* A front-end that sends as fast as it is asked, as the dummy front-end of MIDAS does, and says
 * what it cost:
 *
 *     dummy URL [--bytes 10000] [--rate 0] [--sources 1] [--seconds 5] [--index 0] [--buffer 64]
 *
 * --rate is fragments per second of each source, 0: as many as can be; --buffer is in MiB. Keys
 * count from the time of day, in 1/rate s or us, so that a second start goes on above the first
 * one.
 */
#define _POSIX_C_SOURCE 200809L

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "catchment.h"

static double seconds_of(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static double cpu_seconds(void) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec)
         + 1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

/* Waits until fragment `made` is due. */
static void pace(double begin, double rate, uint64_t made) {
    double early = begin + (double)made / rate - seconds_of(CLOCK_MONOTONIC);
    if (early < 1e-4) return;
    struct timespec time = {(time_t)early, (long)(1e9 * (early - (double)(time_t)early))};
    nanosleep(&time, NULL);
}

int main(int count, char **arguments) {
    double rate = 0, seconds = 5;
    size_t bytes = 10000;
    int source_count = 1;
    struct catchment_options options = {.program = "dummy 1.0"};
    if (count < 2 || count % 2) {
        fprintf(stderr, "usage: dummy URL [--bytes N] [--rate N] [--sources N] [--seconds N] "
                        "[--index N] [--buffer MIB]\n");
        return 2;
    }
    for (int i = 2; i + 1 < count; i += 2) {
        double value = atof(arguments[i + 1]);
        if (!strcmp(arguments[i], "--bytes")) bytes = (size_t)value;
        if (!strcmp(arguments[i], "--rate")) rate = value;
        if (!strcmp(arguments[i], "--sources")) source_count = (int)value;
        if (!strcmp(arguments[i], "--seconds")) seconds = value;
        if (!strcmp(arguments[i], "--index")) options.index = (int)value;
        if (!strcmp(arguments[i], "--buffer")) options.buffer = (uint64_t)(value * (1 << 20));
    }
    if (source_count < 1 || source_count > 4096) return 2;
    struct catchment_source *sources = calloc((size_t)source_count, sizeof *sources);
    char (*names)[16] = calloc((size_t)source_count, sizeof *names);
    uint8_t *data = malloc(bytes + 1);
    if (!sources || !names || !data) return 1;
    for (int i = 0; i < source_count; i++) {
        snprintf(names[i], sizeof names[i], "s%d", i);
        sources[i] = (struct catchment_source){.name = source_count > 1 ? names[i] : NULL,
                                               .flags = CATCHMENT_MARKS,
                                               .fragment_bytes_max = bytes > 1 << 20 ? bytes : 0};
    }
    for (size_t i = 0; i < bytes; i++) data[i] = (uint8_t)rand();
    options.sources = sources;
    options.source_count = (uint32_t)source_count;
    catchment *c = catchment_connect(arguments[1], "dummy", &options);
    uint64_t first = (uint64_t)(seconds_of(CLOCK_REALTIME) * (rate > 0 ? rate : 1e6)), made = 0;
    double begin = seconds_of(CLOCK_MONOTONIC), used = cpu_seconds();
    int result = c ? CATCHMENT_ACCEPTED : CATCHMENT_ENDED;
    for (; result == CATCHMENT_ACCEPTED; made++) {
        if (made % 64 == 0 || rate > 0)
            if (seconds_of(CLOCK_MONOTONIC) >= begin + seconds) break;
        if (rate > 0) pace(begin, rate, made);
        for (int i = 0; i < source_count && result == CATCHMENT_ACCEPTED; i++)
            result = catchment_send(c, i, first + made, data, bytes);
    }
    if (result != CATCHMENT_ACCEPTED) fprintf(stderr, "%s\n", catchment_error());
    int64_t unconfirmed = c ? catchment_close(c, 30000) : -1;
    double passed = seconds_of(CLOCK_MONOTONIC) - begin;
    double fragments = (double)made * source_count, megabytes = fragments * (double)bytes / 1e6;
    used = cpu_seconds() - used;
    printf("%.0f fragments of %zu bytes in %.2f s, until all was durable: %.0f fragments/s, "
           "%.1f MB/s; %.2f CPU s, %.2f core-s per GB; %" PRId64 " not confirmed\n",
           fragments, bytes, passed, fragments / passed, megabytes / passed, used,
           megabytes > 0 ? 1e3 * used / megabytes : 0, unconfirmed);
    free(sources);
    free(names);
    free(data);
    return result != CATCHMENT_ACCEPTED || unconfirmed != 0;
}
