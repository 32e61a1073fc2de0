/* A front-end that does what lines on its standard input say, and answers each by a line of JSON,
 * so that one script of faults tests clients in any language.
 *
 *     driver URL NAME [sources=a,b] [buffer=N] [release=2] [bytes_max=N] [thread=0] [...]
 *
 * Compiled with WITH_TLS it also has catchment_tls.c and OpenSSL, of which it counts what is held.
 */
#define _POSIX_C_SOURCE 200809L

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "catchment.h"

#ifdef WITH_TLS
#include <openssl/crypto.h>

static long blocks; /* of memory that OpenSSL holds */

static void *count_new(size_t bytes, const char *file, int line) {
    (void)file, (void)line;
    __atomic_fetch_add(&blocks, 1, __ATOMIC_RELAXED);
    return malloc(bytes);
}

static void *count_more(void *at, size_t bytes, const char *file, int line) {
    (void)file, (void)line;
    __atomic_fetch_add(&blocks, !at, __ATOMIC_RELAXED);
    return realloc(at, bytes);
}

static void count_free(void *at, const char *file, int line) {
    (void)file, (void)line;
    __atomic_fetch_sub(&blocks, at != NULL, __ATOMIC_RELAXED);
    free(at);
}
#endif

enum { SOURCES_MAX = 64, COMMANDS_MAX = 64 };

static struct catchment_source sources[SOURCES_MAX];
static struct catchment_options options;
static uint64_t next_key[SOURCES_MAX];
static uint8_t data[64 << 20];
static char commands[COMMANDS_MAX][64];
static int command_count, refused_kind = -1, later_kind = -1, long_kind = -1, is_over;
static int early_kind = -1, closing_kind = -1;
static catchment *camera; /* for callbacks, once it is there */
static char setting[64]; /* the one that was declared last */

/* Byte i of the fragment of a source with a key; recorder's side: test_faults.py. */
static void fill(uint8_t *out, int source, uint64_t key, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) out[i] = (uint8_t)(key * 31 + (uint64_t)source * 7 + i);
}

static int on_command(void *user, int kind, uint64_t run_number, char *why) {
    (void)user;
    if (command_count < COMMANDS_MAX)
        snprintf(commands[command_count++], sizeof commands[0], "%d %" PRIu64, kind, run_number);
    catchment *c = __atomic_load_n(&camera, __ATOMIC_ACQUIRE);
    if (kind == early_kind && catchment_answer(c, NULL)) return 2;
    if (kind == closing_kind && catchment_close(c, 0) == CATCHMENT_REFUSED) {
        snprintf(why, CATCHMENT_WHY_BYTES, "%s", catchment_error());
        return 2;
    }
    const struct timespec millisecond = {0, 1000000};
    while (kind == long_kind && !__atomic_load_n(&is_over, __ATOMIC_ACQUIRE))
        nanosleep(&millisecond, NULL);
    if (kind == refused_kind) snprintf(why, CATCHMENT_WHY_BYTES, "no high voltage");
    return kind == refused_kind ? 2 : kind == later_kind ? CATCHMENT_LATER : CATCHMENT_AGREED;
}

/* Declares a setting, or tells a counter or what a setting is now. */
static int tell(catchment *c, int kind, const char *name, double value) {
    struct catchment_report report = {.kind = kind, .type = CATCHMENT_F64, .source = -1,
                                      .is_writable = kind == CATCHMENT_REPORT_SETTING,
                                      .name = name};
    memcpy(&report.value, &value, sizeof value);
    return catchment_report(c, &report);
}

static int on_set(void *user, const char *name, const char *value, char *why) {
    (void)user;
    if (!strcmp(name, setting)) tell(camera, CATCHMENT_REPORT_SETTING, name, atof(value));
    if (command_count < COMMANDS_MAX)
        snprintf(commands[command_count++], sizeof commands[0], "%s=%s", name, value);
    if (!strcmp(name, "locked")) snprintf(why, CATCHMENT_WHY_BYTES, "locked is fixed");
    return !strcmp(name, "locked") ? 2 : !strcmp(name, "slow") ? CATCHMENT_LATER : CATCHMENT_AGREED;
}

static void read_option(const char *text) {
    const char *value = strchr(text, '=') + 1;
    uint64_t number = strtoull(value, NULL, 10);
    static char names[1024];
    if (!strncmp(text, "sources=", 8)) {
        snprintf(names, sizeof names, "%s", value);
        for (char *name = strtok(names, ","); name; name = strtok(NULL, ","))
            sources[options.source_count++].name = name;
    }
    if (!strncmp(text, "buffer=", 7)) options.buffer = number;
    if (!strncmp(text, "release=", 8)) options.release = (int)number;
    if (!strncmp(text, "thread=", 7)) options.no_thread = !number;
    if (!strncmp(text, "connect_ms=", 11)) options.connect_ms = (uint32_t)number;
    if (!strncmp(text, "skew=", 5)) options.skew = number;
    if (!strncmp(text, "buffer_ms=", 10)) options.buffer_ms = (uint32_t)number;
    if (!strncmp(text, "channels=", 9)) options.channels = (int)number;
    if (!strncmp(text, "stops=", 6)) options.stops_in_pause = (int)number;
    if (!strncmp(text, "index=", 6)) options.index = (int)number;
    if (!strncmp(text, "token=", 6)) options.token = value;
    if (!strncmp(text, "certificate=", 12)) options.certificate = value;
    if (!strncmp(text, "refuse=", 7)) refused_kind = (int)number;
    if (!strncmp(text, "later=", 6)) later_kind = (int)number;
    if (!strncmp(text, "long=", 5)) long_kind = (int)number;
    if (!strncmp(text, "early=", 6)) early_kind = (int)number;
    if (!strncmp(text, "closes=", 7)) closing_kind = (int)number;
    if (!options.source_count) return;
    for (uint32_t i = 0; i < options.source_count; i++) {
        if (!strncmp(text, "bytes_max=", 10)) sources[i].fragment_bytes_max = number;
        if (!strncmp(text, "flags=", 6)) sources[i].flags = (uint32_t)number;
        if (!strncmp(text, "key_bits=", 9)) sources[i].key_bits = (uint8_t)number;
        if (!strncmp(text, "key_kind=", 9)) sources[i].key_kind = (uint8_t)number;
    }
}

static void print_result(int result) {
    printf("{\"result\": %d, \"error\": \"", result);
    for (const char *at = result ? catchment_error() : ""; *at; at++)
        printf(*at == '"' || *at == '\\' ? "\\%c" : "%c", *at);
    printf("\"}\n");
}

static int send_one(catchment *c, const char *how, int source, size_t bytes) {
    struct catchment_fragment fragment = {.key = next_key[source], .tag = (uint8_t)source};
    int result = CATCHMENT_ACCEPTED;
    if (!strcmp(how, "reserve")) {
        uint8_t *at = catchment_reserve(c, source, bytes + 5, -1);
        if (!at) return CATCHMENT_ENDED;
        fill(at, source, fragment.key, bytes);
        result = catchment_commit(c, source, &fragment, bytes);
    } else {
        fill(data, source, fragment.key, bytes);
        if (options.channels)
            result = catchment_put_packet(c, source, data, bytes, strcmp(how, "try") ? -1 : 0);
        else if (!strcmp(how, "send"))
            result = catchment_send(c, source, fragment.key, data, bytes);
        else if (!strcmp(how, "try"))
            result = catchment_try_send(c, source, fragment.key, data, bytes);
        else result = catchment_put(c, source, &fragment, data, bytes, 20);
    }
    if (result == CATCHMENT_ACCEPTED) next_key[source]++;
    return result;
}

static void print_counts(catchment *c, int source) {
    struct catchment_counts n;
    if (catchment_counts(c, source, &n) != CATCHMENT_ACCEPTED) abort();
    printf("{\"made\": %" PRIu64 ", \"taken\": %" PRIu64 ", \"durable\": %" PRIu64
           ", \"held_bytes\": %" PRIu64 ", \"sent_again\": %" PRIu64 ", \"abandoned\": %" PRIu64
           ", \"full\": %" PRIu64 ", \"waited_ns\": %" PRIu64 ", \"key_refused\": %" PRIu64
           ", \"held_at_run_end\": %" PRIu64 ", \"resumes\": %" PRIu64 "}\n",
           n.made, n.taken, n.durable, n.held_bytes, n.sent_again, n.abandoned[CATCHMENT_BUFFER],
           n.full, n.waited_ns, n.key_refused, n.held_at_run_end, n.resumes);
}

/* Waits until a source is durable up to a position, or for ever. */
static void await_durable(catchment *c, int source, uint64_t position) {
    struct catchment_counts counts = {0};
    const struct timespec millisecond = {0, 1000000};
    while (catchment_counts(c, source, &counts) == 0 && counts.durable < position) {
        (void)catchment_poll(c, 1);
        nanosleep(&millisecond, NULL);
    }
}

static void obey(catchment *c, const char *line) {
    char how[32] = "", text[128] = "";
    unsigned long long a = 0, b = 0, d = 0;
    int source = 0, read = sscanf(line, "%31s %d %llu %llu %llu", how, &source, &a, &b, &d);
    if (!strcmp(how, "send") || !strcmp(how, "try") || !strcmp(how, "put")
        || !strcmp(how, "reserve")) {
        int result = CATCHMENT_ACCEPTED;
        unsigned long long done = 0;
        for (; done < a && result == CATCHMENT_ACCEPTED; done++)
            result = send_one(c, how, source, (size_t)b);
        if (result == CATCHMENT_ACCEPTED) printf("{\"sent\": %llu, \"result\": 0}\n", done);
        else printf("{\"sent\": %llu, \"result\": %d}\n", done - 1, result);
    } else if (!strcmp(how, "each")) { /* of each source in turn, so many times */
        int result = CATCHMENT_ACCEPTED;
        for (unsigned long long i = 0; i < a && result == CATCHMENT_ACCEPTED; i++)
            for (int at = 0; at < (int)options.source_count && result == CATCHMENT_ACCEPTED; at++)
                result = send_one(c, "send", at, (size_t)b);
        print_result(result);
    } else if (!strcmp(how, "key")) {
        print_result(catchment_send(c, source, a, data, (size_t)b));
        next_key[source] = a + 1;
    } else if (!strcmp(how, "abandon")) {
        uint64_t key = next_key[source];
        int result = catchment_abandon(c, source, a, key, key + a - 1, (int)b);
        if (result == CATCHMENT_ACCEPTED) next_key[source] += a;
        print_result(result);
    } else if (!strcmp(how, "abandon_unknown")) {
        print_result(catchment_abandon(c, source, a, CATCHMENT_NO_KEY, CATCHMENT_NO_KEY, (int)b));
    } else if (!strcmp(how, "low")) {
        print_result(catchment_low_water(c, source, a, (int)b));
    } else if (!strcmp(how, "mark")) {
        if (sscanf(line, "%*s %*d %*u %*u %127s", text) != 1) text[0] = 0;
        print_result(catchment_mark(c, source, (int)a, b, *text ? text : NULL));
        if (a == CATCHMENT_NUMBERING) next_key[source] = b;
    } else if (!strcmp(how, "status")) {
        print_result(catchment_status(c, line + 7));
    } else if (!strcmp(how, "alarm")) {
        struct catchment_report report = {.kind = CATCHMENT_REPORT_ALARM, .type = CATCHMENT_BOOL,
                                          .is_raised = 1, .source = -1, .name = line + 6};
        print_result(catchment_report(c, &report));
    } else if (!strcmp(how, "setting") || !strcmp(how, "counter")) { /* its name, and the value */
        int is_setting = how[0] == 's';
        double value = 0;
        if (sscanf(line, "%*s %63s %lf", text, &value) != 2) abort();
        if (is_setting) memcpy(setting, text, sizeof setting);
        int kind = is_setting ? CATCHMENT_REPORT_SETTING : CATCHMENT_REPORT_COUNTER;
        print_result(tell(c, kind, text, value));
    } else if (!strcmp(how, "over")) { /* the callback that takes long returns */
        __atomic_store_n(&is_over, 1, __ATOMIC_RELEASE);
        print_result(0);
    } else if (!strcmp(how, "answer")) {
        print_result(catchment_answer(c, read > 1 && source ? "the pump is off" : NULL));
    } else if (!strcmp(how, "commands")) {
        printf("{\"commands\": [");
        for (int i = 0; i < command_count; i++) printf("%s\"%s\"", i ? ", " : "", commands[i]);
        printf("]}\n");
    } else if (!strcmp(how, "durable")) {
        await_durable(c, source, a);
        print_counts(c, source);
    } else if (!strcmp(how, "counts")) {
        print_counts(c, source);
#ifdef WITH_TLS
    } else if (!strcmp(how, "blocks")) {
        printf("{\"blocks\": %ld}\n", __atomic_load_n(&blocks, __ATOMIC_RELAXED));
#endif
    } else {
        fprintf(stderr, "no command: %s\n", line);
        abort();
    }
}

/* Without a service thread, its work goes on until there is a line. */
static void await_line(catchment *c) {
    struct pollfd input = {0, POLLIN, 0};
    while (options.no_thread && poll(&input, 1, 0) == 0) (void)catchment_poll(c, 5);
}

static int is_line(catchment *c, char *line, int bytes) {
    await_line(c);
    return fgets(line, bytes, stdin) != NULL;
}

int main(int count, char **arguments) {
    char line[256];
    if (count < 3) return 2;
    setvbuf(stdin, NULL, _IONBF, 0);
    for (int i = 3; i < count; i++) read_option(arguments[i]);
    options.sources = sources;
    options.program = "driver 1.0";
    options.calls.command = on_command;
    options.calls.set = on_set;
#ifdef WITH_TLS
    if (!CRYPTO_set_mem_functions(count_new, count_more, count_free)) return 2;
    options.tls = &catchment_tls;
#endif
    catchment *c = catchment_connect(arguments[1], arguments[2], &options);
    __atomic_store_n(&camera, c, __ATOMIC_RELEASE);
    print_result(c ? 0 : CATCHMENT_ENDED);
    fflush(stdout);
    while (c && is_line(c, line, sizeof line)) {
        line[strcspn(line, "\n")] = 0;
        if (!strncmp(line, "close", 5)) {
            int64_t unconfirmed = catchment_close(c, atoi(line + 5));
            c = NULL;
            printf("{\"unconfirmed\": %" PRId64 ", \"error\": \"%s\"}\n", unconfirmed,
                   unconfirmed ? catchment_error() : "");
        } else {
            obey(c, line);
        }
        fflush(stdout);
    }
    return 0;
}
