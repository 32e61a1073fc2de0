/* What the tests of the core without sockets share: the client itself, and a check that prints
 * what is not so. Each program is one file that includes it.
 */
#include "../catchment.c"

static int failures;

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                         \
            failures++;                                                                            \
        }                                                                                          \
    } while (0)

static void drop_core(struct core *core) {
    core_free(core);
    free(core);
}

static void open_links(struct core *core, uint64_t now) {
    for (uint32_t i = 0; i < core->link_count; i++) link_opened(&core->links[i], now);
}
