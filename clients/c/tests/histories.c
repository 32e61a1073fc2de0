/* Random histories of the core of the C client without sockets: whatever breaks, each item arrives.
 * It prints what is not so.
 */
#define _POSIX_C_SOURCE 200809L

#include <stdlib.h>
#include <string.h>

/* What the client allocates is counted. */
static unsigned long allocations;

#define malloc(bytes) (allocations++, malloc(bytes))
#define calloc(count, bytes) (allocations++, calloc(count, bytes))
#define realloc(at, bytes) (allocations++, realloc(at, bytes))
#define strdup(text) (allocations++, strdup(text))

#include "core.h"

static uint64_t random_state = 1;

static uint64_t draw(uint64_t below) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state % below;
}

/* A recorder with one log: where it stands, by the rules of the specification. */
struct peer {
    uint64_t expected, part_bytes, fragments, ranges;
};

/* Byte i of a fragment with a key. */
static uint8_t content(uint64_t key, uint64_t i) { return (uint8_t)(key * 31 + i); }

static void take_item(struct peer *peer, uint64_t sequence, uint64_t count) {
    CHECK(sequence <= peer->expected);
    if (sequence + count > peer->expected) peer->expected = sequence + count;
}

/* Takes a whole message that starts at `at`. */
static void take_message(struct peer *peer, const uint8_t *at) {
    const uint8_t *fixed = at + HEADER_BYTES, *record = fixed + get16(fixed);
    const uint8_t *body = fixed + get32(at + 4);
    uint64_t sequence = get64(fixed + 16), key = get64(fixed + 24);
    if (get16(at + 2) == FRAGMENTS) {
        for (uint32_t i = 0; i < get32(fixed + 4); i++, record += get16(fixed + 2)) {
            uint32_t bytes = get32(record + 8);
            for (uint32_t j = 0; j < bytes; j++) CHECK(body[j] == content(get64(record), j));
            peer->fragments += sequence + i >= peer->expected;
            take_item(peer, sequence + i, 1);
            body += bytes;
        }
    } else if (get16(at + 2) == PART) {
        uint64_t position = get64(fixed + 40), bytes = get32(at + 8);
        CHECK(position == peer->part_bytes);
        for (uint64_t j = 0; j < bytes; j++) CHECK(body[j] == content(key, position + j));
        peer->part_bytes = position + bytes == get64(fixed + 48) ? 0 : position + bytes;
        peer->fragments += !peer->part_bytes && sequence >= peer->expected;
        if (!peer->part_bytes) take_item(peer, sequence, 1);
    } else if (get16(at + 2) == MARK) {
        peer->ranges += get64(fixed + 24);
        take_item(peer, sequence, get64(fixed + 24));
    }
}

/* Sends some messages of a link, whole. */
static void pass_messages(struct core *core, struct peer *peer, uint64_t now, uint64_t most) {
    static uint8_t out[1 << 18];
    struct link *link = &core->links[0];
    for (; most && link_next(core, link, now); most--) {
        size_t bytes = 0;
        for (int i = 0; i < 3; i++) {
            if (link->left[i].bytes) memcpy(out + bytes, link->left[i].at, link->left[i].bytes);
            bytes += link->left[i].bytes;
        }
        size_t skipped = memcmp(out, MAGIC, 8) ? 0 : PREAMBLE_BYTES;
        CHECK(bytes - skipped <= core->message_bytes_max);
        take_message(peer, out + skipped);
        link_sent(link, bytes);
    }
}

/* A ring of 64 KiB through many rounds: fragments of any length, copied or in place, ranges, breaks
 * after which the recorder goes on anywhere between what is durable and what it took. Nothing is
 * allocated for any of it. */
static void all_items_arrive_whatever_breaks(void) {
    struct catchment_source source = {.name = "", .fragment_bytes_max = 40000};
    struct catchment_options options = {.sources = &source, .source_count = 1, .buffer = 1 << 16};
    struct core *core = calloc(1, sizeof *core);
    struct peer peer = {0};
    uint64_t key = 0, made = 0, full = 0;
    if (!core || core_make(core, "camera", &options) != CATCHMENT_ACCEPTED) exit(1);
    struct log *log = &core->logs[0];
    core->message_bytes_max = 8192;
    core->ping_ns = MS;
    core->state = OPEN;
    log->granted_bytes = 40000;
    open_links(core, 1);
    CHECK(allocations > 0);
    allocations = 0;
    for (int step = 0; step < 200000; step++) {
        uint64_t bytes = draw(4) ? draw(200) : draw(40000), what = draw(20);
        struct catchment_fragment fragment = {.key = key};
        uint64_t to_end = log->ring_bytes - log->head_at % log->ring_bytes;
        if (to_end <= 40000 && draw(8) == 0) bytes = to_end; /* the next one lies at the begin */
        if (what < 12) {
            int in_place = draw(4) == 0;
            int result = core_reserve(core, log, in_place ? NULL : &key, bytes);
            CHECK(result == CATCHMENT_ACCEPTED || result == CATCHMENT_FULL);
            full += result == CATCHMENT_FULL;
            if (result != CATCHMENT_ACCEPTED) continue;
            uint8_t *at = log->ring + log->reserved_at % log->ring_bytes;
            CHECK(!in_place || log->reserved_at % 8 == 0);
            if (in_place) bytes = draw(bytes + 1);
            for (uint64_t i = 0; i < bytes; i++) at[i] = content(key, i);
            CHECK(core_commit(log, &fragment, bytes) == CATCHMENT_ACCEPTED);
            key += 1 + draw(3);
            made++;
        } else if (what == 12) {
            uint64_t count = 1 + draw(5);
            int result = core_abandon(log, count, key, key + count - 1, CATCHMENT_BUSY);
            CHECK(result == CATCHMENT_ACCEPTED || result == CATCHMENT_FULL);
            if (result == CATCHMENT_ACCEPTED) key += count;
        } else if (what < 17) {
            pass_messages(core, &peer, (uint64_t)step, 1 + draw(8));
        } else if (what < 19) {
            uint64_t durable = log->durable + draw(peer.expected - log->durable + 1);
            log->durable = durable;
            (void)log_release(log, durable);
        } else if (draw(10) == 0) {
            uint8_t record[64] = {0}, described[128];
            uint64_t next = log->durable + draw(peer.expected - log->durable + 1);
            encode_log(described, log);
            put16(record + 4, 1);
            put64(record + 8, max64(next, log->hello_first));
            put64(record + 16, log->durable);
            put64(record + 32, 40000);
            CHECK(on_grant(core, log, record) == NULL);
            open_links(core, (uint64_t)step);
            peer.part_bytes = 0;
        }
        CHECK(log->tail <= log->unsent && log->unsent <= log->head);
        CHECK(log->head_at - log->tail_at <= log->ring_bytes);
    }
    pass_messages(core, &peer, 1, NONE);
    CHECK(peer.expected == log->made && peer.fragments == made && full > 100);
    CHECK(allocations == 0);
    drop_core(core);
}

int main(void) {
    setvbuf(stdout, NULL, _IONBF, 0);
    all_items_arrive_whatever_breaks();
    return failures != 0;
}
