/* Four threads that send to one source, each the next key, and one that looks: `threads URL`. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>

#include "catchment.h"

enum { THREADS = 4, KEYS = 2000 };

static catchment *c;
static pthread_mutex_t order = PTHREAD_MUTEX_INITIALIZER;
static uint64_t next_key;
static int failures;

/* Keys rise over all threads, so that taking one and sending it is one step. */
static void *send_all(void *unused) {
    (void)unused;
    for (;;) {
        pthread_mutex_lock(&order);
        uint64_t key = next_key++;
        uint8_t data[3000] = {(uint8_t)key};
        if (key < KEYS)
            failures += catchment_send(c, 0, key, data, key % 3000) != CATCHMENT_ACCEPTED;
        pthread_mutex_unlock(&order);
        if (key >= KEYS) return NULL;
    }
}

/* Another source meanwhile, and what may be asked at any time. */
static void *look(void *unused) {
    struct catchment_counts counts = {0};
    (void)unused;
    for (uint64_t key = 0; counts.made < KEYS; key++) {
        int looked = catchment_counts(c, 0, &counts) | catchment_status(c, "looking")
                   | catchment_low_water(c, 1, key, 0);
        pthread_mutex_lock(&order);
        failures += looked != CATCHMENT_ACCEPTED;
        pthread_mutex_unlock(&order);
    }
    return NULL;
}

int main(int count, char **arguments) {
    const struct catchment_source sources[] = {{.name = "a"}, {.name = "b"}};
    const struct catchment_options options = {.sources = sources, .source_count = 2,
                                              .buffer = 1 << 20};
    pthread_t threads[THREADS + 1];
    if (count < 2 || !(c = catchment_connect(arguments[1], "camera", &options))) return 2;
    for (int i = 0; i <= THREADS; i++)
        if (pthread_create(&threads[i], NULL, i < THREADS ? send_all : look, NULL)) return 2;
    for (int i = 0; i <= THREADS; i++) pthread_join(threads[i], NULL);
    return failures || catchment_close(c, 60000) != 0;
}
