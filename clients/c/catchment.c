/* The library for front-ends in C: catchment.h says how it is used, docs/spec/session.md and
 * event-link.md what travels, docs/decisions/event-link.md why it is made so.
 *
 *     caller's threads            service thread                             calls thread
 *     reserve, copy, commit       core_work, sockets, core_received -------> callbacks
 *            '------- logs -------> link_next ----> sendmsg, from the rings
 *
 * The first half is the core: functions over `struct core` that know no socket, thread or clock.
 * Time is an argument in ns, bytes come and go by address, so that a test can replay all of it. The
 * second half has the sockets, the service thread and the public functions.
 *
 * What holds: memory is taken in catchment_connect alone. One mutex guards the core; no copy of
 * more than COPY_LOCKED_BYTES is made under it, and no system call but those that wake a thread,
 * open and close sockets, and send control messages, which never block. Links and sockets belong
 * to the service thread. No number of the recorder is used before it is checked.
 */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif

#include "catchment.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#ifndef CATCHMENT_NO_THREADS
#include <pthread.h>
#include <signal.h>
#define THREAD_LOCAL __thread
#else
#define THREAD_LOCAL
#endif

#ifdef __GNUC__
#define PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define PRINTF(text, first)
#endif

/* Limits of the specification. */
#define HEADER_BYTES 16u
#define PREAMBLE_BYTES 16u
#define CONTROL_BYTES_MAX 16384u
#define PART_BYTES_MAX 1024u
#define TEXT_BYTES_MAX 1024u
#define RECORDS_MAX 4096u
#define LOGS_MAX 4096u
#define LINKS_MAX 16u
#define LOGS_PER_MESSAGE 127u
#define PINGS_PER_MESSAGE 681u
#define SETTINGS_MAX 64u
#define FRAGMENT_BYTES_MAX ((uint64_t)1920 << 20)
#define PACKET_BYTES_MAX ((uint64_t)65507)
#define BUFFER_BYTES_MIN ((uint64_t)64 << 10)
#define BUFFER_BYTES_MAX ((uint64_t)1 << 40)
#define SKEW_BYTES_MAX ((uint64_t)1 << 30)
#define RANGE_MAX ((uint64_t)1 << 40)
#define SEQUENCE_END ((uint64_t)1 << 63)
#define KEY_END ((uint64_t)1 << 62)
#define NONE UINT64_MAX

/* Limits of this library. */
#define MIB ((uint64_t)1 << 20)
#define DATA_HEAD_BYTES (HEADER_BYTES + 24u + RECORDS_MAX * 24u)
#define CONTROL_OUT_BYTES 65536u
#define BYTES_PER_ENTRY 256u      /* of a ring, for each of its entries */
#define ENTRIES_MIN 1024u
#define ENTRIES_FOR_RANGES 64u    /* entries that no fragment takes */
#define ENTRIES_FOR_MARKS 4u      /* of them, those that no range takes */
#define REPORTS_MAX 128u
#define ALARMS_MAX 64u
#define COPY_LOCKED_BYTES 2048u   /* a shorter copy costs less than another round of the lock */
#define RECORD_BYTES 16384u       /* of TLS, at most: what a read returns leaves nothing behind */
#define LONG_BYTES 65536      /* of a fragment */
#define SHORT_MESSAGE_BYTES 131064 /* of a message of fragments that are not long */
#define ROUND_BYTES (4 * MIB)     /* sent on a connection between two looks at control */

#define MS ((uint64_t)1000000)
#define OPENING_NS (3000 * MS)
#define STALL_NS (3000 * MS)
#define POLL_NS (100 * MS)        /* longest sleep of a session: silence is counted by polls */
#define POLLED_NS_MAX (250 * MS)  /* what one interval between two polls counts as silence */
#define LOW_WATER_NS (10 * MS)
#define FAREWELL_NS (250 * MS)
#define LAST_WORDS_NS (50 * MS)   /* what a lost data connection waits for `bye` on control */

/* Types of messages, commands beyond those of the header, and reasons of `bye`. */
enum { HELLO = 1, WELCOME, ATTACH, PING, POSITIONS, COMMAND, ANSWER, REPORT, BYE, LOGS, GRANTS };
enum { FRAGMENTS = 32, PART, MARK, HEARTBEAT, SAMPLES = 48 };
enum { EVENTS = 1, CHANNELS }; /* services */
enum { COMMAND_SET = 7 };
enum { AGREED = 1, REFUSED, WORKING, DONE };
enum { BYE_DONE = 0, BYE_MALFORMED = 8, BYE_SILENT = 9, BYE_ENDING = 14 };
enum { TLS_ALERT = 0x15 }; /* first byte of what TLS says to one that speaks in the clear */
enum { FRAGMENT = 0, ABANDONED = 3 }; /* kinds of entries: FRAGMENT, or a kind of marks */

static const uint8_t MAGIC[8] = {0x89, 'C', 'T', 'S', 'L', '\r', '\n', 0x1A};

static THREAD_LOCAL char last_error[512];

/* Keeps the reason for catchment_error, and returns `code`. */
PRINTF(2, 3) static int fail(int code, const char *format, ...) {
    va_list values;
    va_start(values, format);
    vsnprintf(last_error, sizeof last_error, format, values);
    va_end(values);
    return code;
}

static uint64_t min64(uint64_t a, uint64_t b) { return a < b ? a : b; }

static uint64_t max64(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* --- Bytes: little-endian numbers, messages, text. -------------------------------------------- */

static void put16(uint8_t *at, uint64_t value) {
    at[0] = (uint8_t)value;
    at[1] = (uint8_t)(value >> 8);
}

static void put32(uint8_t *at, uint64_t value) {
    put16(at, value);
    put16(at + 2, value >> 16);
}

static void put64(uint8_t *at, uint64_t value) {
    put32(at, value);
    put32(at + 4, value >> 32);
}

static uint32_t get16(const uint8_t *at) { return (uint32_t)at[0] | (uint32_t)at[1] << 8; }

static uint32_t get32(const uint8_t *at) { return get16(at) | get16(at + 2) << 16; }

static uint64_t get64(const uint8_t *at) { return get32(at) | (uint64_t)get32(at + 4) << 32; }

/* Whether bytes are UTF-8 without a zero in it. */
static int is_text(const uint8_t *at, size_t bytes) {
    for (size_t i = 0; i < bytes;) {
        uint32_t first = at[i++], least = 0x80, more = 0;
        if (first == 0 || (first >= 0x80 && first < 0xC2) || first > 0xF4) return 0;
        if (first < 0x80) continue;
        if (first >= 0xE0) least = 0x800;
        if (first >= 0xF0) least = 0x10000;
        more = first >= 0xF0 ? 3 : first >= 0xE0 ? 2 : 1;
        uint32_t letter = first & (0x3Fu >> more);
        for (; more; more--) {
            if (i == bytes || (at[i] & 0xC0) != 0x80) return 0;
            letter = letter << 6 | (at[i++] & 0x3Fu);
        }
        if (letter < least || letter > 0x10FFFF || (letter >= 0xD800 && letter < 0xE000)) return 0;
    }
    return 1;
}

static int is_sentence(const char *text) {
    size_t bytes = strlen(text);
    return bytes <= TEXT_BYTES_MAX && is_text((const uint8_t *)text, bytes);
}

/* Copies a text, cut off where it is too long, and a zero behind it. */
static void copy_text(char *out, size_t out_bytes, const void *text, size_t bytes) {
    if (bytes > out_bytes - 1) bytes = out_bytes - 1;
    memcpy(out, text, bytes);
    out[bytes] = 0;
}

/* Whether a name is one: 1 to 64 letters, digits, and these signs. */
static int is_name(const char *name, const char *signs) {
    size_t bytes = strlen(name);
    const char *letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    for (const char *at = name; *at; at++)
        if (!strchr(letters, *at) && !strchr(signs, *at)) return 0;
    return bytes >= 1 && bytes <= 64;
}

/* Begins a message at `out`: header and shape, and zeros as its fixed part, which it returns. */
static uint8_t *message_begin(uint8_t *out, unsigned type, uint32_t number, size_t fixed_bytes) {
    memset(out, 0, HEADER_BYTES + fixed_bytes);
    put16(out, 0x4CC7);
    put16(out + 2, type);
    put32(out + 12, number);
    put16(out + 16, fixed_bytes);
    return out + HEADER_BYTES;
}

/* Ends it behind its records: the text, and all lengths. Returns the bytes of header and head. */
static size_t message_end(uint8_t *out, size_t record_bytes, size_t record_count, const void *text,
                          size_t text_bytes, size_t body_bytes) {
    size_t end = HEADER_BYTES + get16(out + 16) + record_bytes * record_count;
    put16(out + 18, record_count ? record_bytes : 0);
    put32(out + 20, record_count);
    if (text_bytes) {
        memcpy(out + end, text, text_bytes);
        memset(out + end + text_bytes, 0, (0 - text_bytes) & 7);
        end += text_bytes + ((0 - text_bytes) & 7);
    }
    put32(out + 4, end - HEADER_BYTES);
    put32(out + 8, body_bytes);
    return end;
}

/* What a type of control message consists of, in both directions. */
struct type {
    uint16_t number, fixed_bytes, record_bytes, count_min, count_max;
    uint8_t has_text, is_received; /* by a sender */
};

static const struct type TYPES[] = {
    {HELLO, 176, 0, 0, 0, 1, 0},
    {WELCOME, 112, 0, 0, 0, 0, 1},
    {PING, 16, 24, 0, 681, 0, 0},
    {POSITIONS, 152, 24, 0, 675, 0, 1},
    {COMMAND, 48, 128, 0, 64, 1, 1},
    {ANSWER, 24, 0, 0, 0, 1, 0},
    {REPORT, 8, 128, 1, 127, 1, 0},
    {BYE, 24, 0, 0, 0, 1, 1},
    {LOGS, 8, 128, 1, 127, 0, 0},
    {GRANTS, 8, 64, 1, 255, 0, 1},
};

/* A control message in the bytes that were received. */
struct message {
    const struct type *type; /* NULL: not known, and to be skipped */
    const uint8_t *fixed, *records;
    size_t record_bytes, record_count;
    const char *text;
    size_t text_bytes;
    size_t used; /* 0: more bytes are needed */
};

/* Checks a shape; 1 if the head has room for it. */
static int check_shape(const uint8_t *head, size_t head_bytes, const struct type *type) {
    uint64_t fixed = get16(head), record = get16(head + 2), count = get32(head + 4);
    if (fixed % 8 || fixed < (type ? type->fixed_bytes : 8u) || fixed > PART_BYTES_MAX) return 0;
    if (type ? count < type->count_min || count > type->count_max : count > RECORDS_MAX) return 0;
    uint64_t least = !count ? 0 : type ? type->record_bytes : 8, most = count ? PART_BYTES_MAX : 0;
    return record % 8 == 0 && record >= least && record <= most
        && fixed + record * count <= head_bytes;
}

/* Reads a control message. Returns NULL, or the name of a framing fault. */
static const char *parse(const uint8_t *bytes, size_t available, uint32_t number,
                         struct message *message) {
    memset(message, 0, sizeof *message);
    if (available < HEADER_BYTES) return NULL;
    uint32_t kind = get16(bytes + 2), head_bytes = get32(bytes + 4);
    if (get16(bytes) != 0x4CC7) return "marker";
    if (get32(bytes + 12) != number) return "number";
    for (size_t i = 0; i < sizeof TYPES / sizeof TYPES[0]; i++)
        if (TYPES[i].number == kind) message->type = &TYPES[i];
    if (!message->type && kind < 0x8000)
        return kind == ATTACH || (kind >= 32 && kind < 128) ? "connection" : "type";
    if (head_bytes % 8 || head_bytes < 8 || head_bytes > CONTROL_BYTES_MAX - HEADER_BYTES)
        return "length";
    if (get32(bytes + 8)) return "length";
    if (available < HEADER_BYTES + 8) return NULL;
    const uint8_t *head = bytes + HEADER_BYTES;
    if (!check_shape(head, head_bytes, message->type)) return "shape";
    if (available < HEADER_BYTES + head_bytes) return NULL;
    message->fixed = head;
    message->records = head + get16(head);
    message->record_bytes = get16(head + 2);
    message->record_count = get32(head + 4);
    const uint8_t *text = message->records + message->record_bytes * message->record_count;
    size_t text_bytes = (size_t)(head + head_bytes - text);
    while (text_bytes && !text[text_bytes - 1]) text_bytes--;
    if (text_bytes > TEXT_BYTES_MAX) return "text";
    if (message->type && message->type->has_text) {
        if (!is_text(text, text_bytes)) return "text";
        message->text = (const char *)text;
        message->text_bytes = text_bytes;
    }
    message->used = HEADER_BYTES + head_bytes;
    return message->type && !message->type->is_received ? "connection" : NULL;
}

/* --- The core: what a session is made of. ----------------------------------------------------- */

/* An item of a log, or a range that was abandoned. 32 bytes, so that two share a cache line. */
struct entry {
    uint64_t sequence;
    uint64_t key;   /* unwrapped; of a mark: key */
    uint64_t other; /* groups of a fragment, key_last of a range or an end, run number of a begin */
    uint32_t bytes; /* in the ring */
    uint8_t kind;
    uint8_t tag;    /* of a range: its reason */
    uint8_t flags;  /* of a mark: bit 0, its keys are known */
    uint8_t gap;    /* between the bytes before it and its own */
};

enum { GAP_NONE, GAP_TO_8, GAP_TO_BEGIN };
enum { RESERVED_NOT, RESERVED_BY_LIBRARY, RESERVED_BY_CALLER };

/* A source: its two rings, and where each step of its items stands. Indices and positions count
 * from the session's begin; what is behind the mask or the size is where they lie.
 *
 *     tail <= unsent <= head       entries: kept until durable; given to the socket; all
 *     tail_at <= unsent_at <= head_at   ends of the bytes of the entries before these
 */
struct log {
    char name[65];
    uint32_t number, link;
    uint64_t fragment_bytes_max, groups;
    uint32_t flags;
    uint8_t key_kind, key_bits, presence, dtype;
    uint8_t is_packets; /* it is a channel link: its items are packets, whose keys are sequences */
    uint8_t *ring;
    uint64_t ring_bytes;
    struct entry *entries;
    uint64_t mask;
    uint64_t tail, unsent, head, tail_at, unsent_at, head_at;
    uint64_t part_at; /* bytes of the entry at `unsent` that went in parts */
    int reserved;
    uint64_t reserved_at, reserved_bytes;

    uint64_t made, taken, durable;
    uint64_t sent;                   /* highest sequence that was ever sent, and one */
    uint64_t hello_first, hello_made; /* as the last hello said */
    uint64_t begin;                  /* sequence of the last mark begin */
    uint64_t run_end;                /* made when its run ended in order; NONE: it has not */
    uint8_t begun_run[16], is_in_run; /* the last run that it began; it has not ended that */

    uint64_t floor; /* lowest key, unwrapped, that may follow */
    uint8_t has_floor, has_low_water, is_idle, is_low_water_due;
    uint64_t ahead_bytes; /* what others of its link sent beyond `floor` while it had nothing */

    uint8_t answer; /* of the grant; 4: refused */
    uint16_t reason;
    uint64_t granted_bytes;
    uint8_t must_begin, must_end; /* marks that wait for an entry */
    uint64_t begin_run, end_run;
    uint32_t settings_at; /* settings before it have their mark */

    uint8_t is_full; /* a call found no room since the last release */
    uint32_t pinged_flags;
    uint64_t pinged_made, pinged_held;
    uint64_t unconfirmed; /* fragments that were given up at the end of their run */
    struct catchment_counts counts;
};

struct slice {
    const uint8_t *at;
    size_t bytes;
};

/* A data connection. */
struct link {
    int is_open;
    uint32_t log_count, number; /* number: messages before; 0: not attached */
    uint64_t written, received, still_ns;
    uint64_t message_at, heartbeat_at;
    uint64_t highest_key; /* that was sent */
    uint8_t *head;
    struct slice left[3]; /* what is to be sent of a message: head, body, padding */
};

struct setting {
    char name[65], value[TEXT_BYTES_MAX + 1];
};

struct command {
    uint64_t number, run_number;
    uint32_t kind;
    enum { COMMAND_NONE, COMMAND_CALL, COMMAND_LATER, COMMAND_ANSWERED } state;
    uint8_t run[16];
    unsigned answer;
    char why[CATCHMENT_WHY_BYTES];
    uint64_t working_at;
    int is_owed; /* an answer may still come to a command before, which the recorder gave up */
    uint32_t setting_count;
    struct setting settings[SETTINGS_MAX];
};

struct report {
    uint8_t is_used, is_due, kind, type;
    uint32_t flags, log;
    uint64_t value, min, max;
    char name[65], unit[33], text[TEXT_BYTES_MAX + 1];
};

enum state {
    WAITING,    /* until connect_at */
    CONNECTING, /* a control connection is wanted */
    OPENING,    /* it is there: preambles, hello, welcome */
    OPEN,
    LEAVING,    /* bye was sent */
    ENDED
};

struct core {
    char name[65], program[33], token[TEXT_BYTES_MAX + 1];
    uint64_t session, buffer_bytes, skew_wanted;
    uint32_t buffer_ms;
    uint8_t release, stops_in_pause, service;
    struct log *logs;
    uint32_t log_count, link_count;
    struct link links[LINKS_MAX];

    enum state state;
    uint32_t generation; /* of connections: a break begins another */
    int is_changed;      /* what a waiting caller may wait for */
    int was_open, is_paused;
    uint8_t stage; /* where its commands have brought it in the run of that number */
    uint16_t stage_run;
    char why[TEXT_BYTES_MAX + 256]; /* what ended the session, or broke it last */
    uint64_t connect_at, deadline, break_at, polled_at, silent_ns, stalled_ns;
    uint64_t random;
    unsigned failures, faults;

    uint8_t in[CONTROL_BYTES_MAX], out[CONTROL_OUT_BYTES];
    size_t in_bytes, out_bytes, out_sent;
    uint32_t in_number, out_number, logs_said, logs_granted;
    int has_preamble, is_welcome;

    uint8_t run[16], ticket[16];
    uint8_t held_run[16]; /* that held items belong to: of the last welcome with all its grants */
    uint64_t run_number;
    uint32_t stream, epoch, run_state, message_bytes_max;
    uint64_t ping_ns, silence_ns, skew_bytes;
    uint64_t ping_at, cookie, ping_from;
    struct command command;
    uint32_t setting_count;
    struct setting settings[SETTINGS_MAX];
    struct report reports[REPORTS_MAX];
    uint64_t report_credit, credit_at, counts_at, counts_log;
};

/* --- The core: logs. -------------------------------------------------------------------------- */

static struct entry *log_entry(const struct log *log, uint64_t index) {
    return &log->entries[index & log->mask];
}

static uint64_t log_first(const struct log *log) {
    return log->tail < log->head ? log_entry(log, log->tail)->sequence : log->made;
}

/* The sequence behind an entry. */
static uint64_t log_behind(const struct log *log, uint64_t index) {
    return index + 1 < log->head ? log_entry(log, index + 1)->sequence : log->made;
}

/* Where the bytes of an entry begin, if those of the entry before it end at `at`. */
static uint64_t entry_at(const struct log *log, uint64_t at, const struct entry *entry) {
    if (entry->gap == GAP_TO_8) return (at + 7) & ~(uint64_t)7;
    if (entry->gap == GAP_TO_BEGIN) return (at / log->ring_bytes + 1) * log->ring_bytes;
    return at;
}

static uint64_t log_free_entries(const struct log *log) {
    return log->mask + 1 - (log->head - log->tail);
}

/* Finds room for bytes that lie together. An empty ring begins at its begin again: the longest
 * fragment then fits, and few bytes go through the same cache lines. */
static int log_place(struct log *log, uint64_t bytes, int is_aligned, uint64_t *at) {
    if (log->tail == log->head) log->tail_at = log->unsent_at = log->head_at = 0;
    *at = is_aligned ? (log->head_at + 7) & ~(uint64_t)7 : log->head_at;
    uint64_t offset = *at % log->ring_bytes;
    if (offset + bytes > log->ring_bytes) *at += log->ring_bytes - offset;
    if (*at + bytes - log->tail_at <= log->ring_bytes && log_free_entries(log) > ENTRIES_FOR_RANGES)
        return 1;
    log->is_full = 1;
    return 0;
}

static struct entry *log_append(struct log *log, int kind, uint64_t key, uint64_t other,
                                uint64_t at, uint64_t bytes, uint64_t count) {
    struct entry *entry = log_entry(log, log->head++);
    entry->sequence = log->made;
    entry->key = key;
    entry->other = other;
    entry->bytes = (uint32_t)bytes;
    entry->kind = (uint8_t)kind;
    entry->tag = entry->flags = 0;
    entry->gap = at == log->head_at            ? GAP_NONE
               : at % log->ring_bytes == 0     ? GAP_TO_BEGIN
                                               : GAP_TO_8;
    log->head_at = at + bytes;
    log->made += count;
    return entry;
}

static uint64_t log_key_mask(const struct log *log) {
    return log->key_bits == 64 ? KEY_END - 1 : ((uint64_t)1 << log->key_bits) - 1;
}

/* Unwraps a key; 0 if it does not rise. */
static int log_unwrap(const struct log *log, uint64_t key, uint64_t *unwrapped) {
    uint64_t mask = log_key_mask(log), rise = (key - log->floor) & mask;
    *unwrapped = key;
    if (key > mask) return 0;
    if (!log->has_floor) return 1;
    if (log->key_bits == 64) return key >= log->floor;
    *unwrapped = log->floor + rise;
    return rise < ((uint64_t)1 << (log->key_bits - 1)) - 1;
}

static int log_refuse_key(struct log *log, uint64_t key) {
    uint64_t mask = log_key_mask(log);
    log->counts.key_refused++;
    if (key > mask)
        return fail(CATCHMENT_REFUSED, "source %u \"%s\": key %llu is above %llu",
                    (unsigned)log->number, log->name, (unsigned long long)key,
                    (unsigned long long)mask);
    return fail(CATCHMENT_REFUSED,
                "source %u \"%s\": key %llu does not rise: the next one is %llu or above%s",
                (unsigned)log->number, log->name, (unsigned long long)key,
                (unsigned long long)(log->floor & mask),
                log->key_bits == 64 ? "" : ", by less than half of all keys");
}

/* What follows has higher keys; times may be equal. */
static void log_raise(struct log *log, uint64_t key) {
    log->floor = log->key_kind == CATCHMENT_TIME ? key : key + 1;
    log->has_floor = 1;
    log->has_low_water = log->is_idle = 0;
}

/* Frees the entries below a position that were sent. Returns whether there were any. */
static int log_release(struct log *log, uint64_t position) {
    uint64_t before = log->tail;
    while (log->tail < log->unsent && log_behind(log, log->tail) <= position) {
        const struct entry *entry = log_entry(log, log->tail++);
        log->tail_at = entry_at(log, log->tail_at, entry) + entry->bytes;
    }
    if (log->tail != before) log->is_full = 0;
    return log->tail != before;
}

/* Makes all unsent from a sequence on. */
static void log_rewind(struct log *log, uint64_t sequence) {
    log->unsent = log->tail;
    log->unsent_at = log->tail_at;
    log->part_at = 0;
    while (log->unsent < log->head && log_behind(log, log->unsent) <= sequence) {
        const struct entry *entry = log_entry(log, log->unsent++);
        log->unsent_at = entry_at(log, log->unsent_at, entry) + entry->bytes;
    }
    if (log->sent > sequence) log->counts.sent_again += log->sent - sequence;
}

/* Fragments that are held and not below `position`. */
static uint64_t log_fragments(const struct log *log, uint64_t position, uint64_t end) {
    uint64_t count = 0;
    for (uint64_t index = log->tail; index < log->head; index++) {
        const struct entry *entry = log_entry(log, index);
        if (entry->sequence >= end) break;
        if (entry->kind == FRAGMENT && entry->sequence >= position) count++;
    }
    return count;
}

/* Inserts the marks that the library makes, as far as there is room: the next fragment waits. */
static void log_settle(struct core *core, struct log *log) {
    if (log->answer == 4 || log->is_packets) { /* it sends nothing, or no marks */
        log->must_end = log->must_begin = 0;
        log->settings_at = core->setting_count;
    }
    if (log->must_end && log_free_entries(log)) {
        int is_known = log->has_floor && log->floor > 0;
        uint64_t last = log->key_kind == CATCHMENT_TIME ? log->floor : log->floor - 1;
        struct entry *entry = log_append(log, CATCHMENT_END, log->end_run, is_known ? last : 0,
                                         log->head_at, 0, 1);
        entry->flags = (uint8_t)is_known;
        log->must_end = 0;
    }
    if (log->must_begin && !log->must_end && log_free_entries(log)) {
        log->begin = log->made;
        struct entry *entry = log_append(log, CATCHMENT_BEGIN, log->has_floor ? log->floor : 0,
                                         log->begin_run, log->head_at, 0, 1);
        entry->flags = log->has_floor;
        log->must_begin = 0;
    }
    for (; log->settings_at < core->setting_count; log->settings_at++) {
        const struct setting *setting = &core->settings[log->settings_at];
        char text[TEXT_BYTES_MAX + 1];
        uint64_t at;
        if (log->reserved || log->must_begin || log->must_end) return;
        int bytes = snprintf(text, sizeof text, "%s=%s", setting->name, setting->value);
        if (bytes < 0 || !log_place(log, (uint64_t)bytes, 0, &at)) return;
        memcpy(log->ring + at % log->ring_bytes, text, (size_t)bytes);
        log_append(log, CATCHMENT_SETTING, 0, 0, at, (uint64_t)bytes, 1);
    }
}

static int log_has_marks_to_make(const struct core *core, const struct log *log) {
    return log->must_begin || log->must_end || log->settings_at < core->setting_count;
}

/* --- The core: what a session says on control. ------------------------------------------------ */

PRINTF(2, 3) static void core_say(struct core *core, const char *format, ...) {
    va_list values;
    va_start(values, format);
    vsnprintf(core->why, sizeof core->why, format, values);
    va_end(values);
    core->is_changed = 1;
}

static uint64_t core_random(struct core *core) {
    core->random ^= core->random << 13;
    core->random ^= core->random >> 7;
    core->random ^= core->random << 17;
    return core->random;
}

/* Room at the end of what goes out on control, or NULL. */
static uint8_t *core_out(struct core *core, size_t bytes) {
    if (core->out_sent && core->out_bytes + bytes > CONTROL_OUT_BYTES) {
        memmove(core->out, core->out + core->out_sent, core->out_bytes - core->out_sent);
        core->out_bytes -= core->out_sent;
        core->out_sent = 0;
    }
    return core->out_bytes + bytes <= CONTROL_OUT_BYTES ? core->out + core->out_bytes : NULL;
}

static void core_bye(struct core *core, unsigned reason, uint64_t detail, const char *text) {
    uint8_t *out = core_out(core, HEADER_BYTES + 24 + TEXT_BYTES_MAX);
    if (!out) return;
    size_t text_bytes = min64(strlen(text), TEXT_BYTES_MAX);
    uint8_t *fixed = message_begin(out, BYE, core->out_number++, 24);
    put16(fixed + 8, reason);
    put64(fixed + 16, detail);
    core->out_bytes += message_end(out, 0, 0, text, text_bytes, 0);
}

/* All connections end; `text` says why the session is over. */
static void core_end(struct core *core, const char *text) {
    if (core->state == ENDED) return;
    core_say(core, "%s", text);
    core->state = ENDED;
}

/* All connections end, and the sender connects again: after `retry_ms`, or with 0 by its count. */
static void core_break(struct core *core, uint64_t now, uint32_t retry_ms, const char *text) {
    uint64_t wait = min64(100 * MS << min64(core->failures, 4), 1000 * MS);
    core_say(core, "%s", text);
    core->break_at = 0;
    for (uint32_t i = 0; i < core->link_count; i++) core->links[i].is_open = 0;
    if (core->state == LEAVING) core->state = ENDED;
    if (core->state == ENDED) return;
    core->state = WAITING;
    core->failures++;
    core->connect_at = now + (retry_ms ? retry_ms * MS : wait / 2 + core_random(core) % (wait / 2));
}

/* Bytes on control that are no message: the connection cannot be trusted. The third time in a row
 * ends the session, so that a defect cannot loop. */
static void core_fault(struct core *core, uint64_t now, const char *fault, unsigned type) {
    char text[160];
    snprintf(text, sizeof text, "malformed: the fault \"%s\" in message %lu of type %u", fault,
             (unsigned long)core->in_number, type);
    core_bye(core, BYE_MALFORMED, core->in_number, text);
    if (++core->faults >= 3) core_end(core, text);
    else core_break(core, now, 0, text);
}

/* Whether anything that is held was made before its run ended. */
static int core_holds_run(const struct core *core) {
    for (uint32_t i = 0; i < core->log_count; i++)
        if (log_first(&core->logs[i]) < min64(core->logs[i].made, core->logs[i].run_end)) return 1;
    return 0;
}

static void encode_hello(struct core *core) {
    uint8_t *out = core_out(core, CONTROL_BYTES_MAX);
    if (!out) return;
    uint8_t *fixed = message_begin(out, HELLO, core->out_number++, 176);
    put64(fixed + 8, core->session);
    if (core_holds_run(core)) memcpy(fixed + 16, core->held_run, 16);
    put64(fixed + 40, core->buffer_bytes);
    put64(fixed + 48, core->skew_wanted);
    put32(fixed + 56, core->buffer_ms);
    put32(fixed + 60, core->log_count);
    put16(fixed + 64, core->link_count);
    fixed[66] = core->release;
    fixed[67] = (uint8_t)(1 | (core->stops_in_pause ? 2 : 0));
    fixed[68] = core->stage;
    put16(fixed + 70, core->stage_run);
    put64(fixed + 72, core->command.number);
    memcpy(fixed + 80, core->name, strlen(core->name));
    memcpy(fixed + 144, core->program, strlen(core->program));
    core->out_bytes += message_end(out, 0, 0, core->token, strlen(core->token), 0);
}

static void encode_log(uint8_t *record, struct log *log) {
    memset(record, 0, 128);
    log->hello_first = log_first(log);
    log->hello_made = log->made;
    put32(record, log->number);
    put16(record + 4, log->link);
    put64(record + 8, log->hello_first);
    put64(record + 16, log->hello_made);
    memcpy(record + 64, log->name, strlen(log->name));
    if (log->is_packets) return;
    put64(record + 24, log->fragment_bytes_max);
    put64(record + 32, log->groups);
    put32(record + 40, log->flags);
    record[44] = log->key_kind;
    record[45] = log->key_bits;
    record[46] = log->presence;
    record[47] = log->dtype;
    put64(record + 48, log->begin);
}

/* Describes as many logs as go out now. */
static void core_describe(struct core *core) {
    while (core->logs_said < core->log_count) {
        uint8_t *out = core_out(core, CONTROL_BYTES_MAX);
        if (!out) return;
        size_t count = min64(core->log_count - core->logs_said, LOGS_PER_MESSAGE);
        uint8_t *record = message_begin(out, LOGS, core->out_number++, 8) + 8;
        for (size_t i = 0; i < count; i++)
            encode_log(record + 128 * i, &core->logs[core->logs_said + i]);
        core->logs_said += (uint32_t)count;
        core->out_bytes += message_end(out, 128, count, NULL, 0, 0);
    }
}

/* The logs that changed since their last ping, as many as a message takes; the others come next. */
static void encode_ping(struct core *core) {
    uint8_t *out = core_out(core, CONTROL_BYTES_MAX);
    if (!out) return; /* what waits there is a sign of life as well */
    uint8_t *fixed = message_begin(out, PING, core->out_number++, 16), *record = fixed + 16;
    put64(fixed + 8, ++core->cookie);
    size_t count = 0;
    uint64_t from = core->ping_from;
    for (uint32_t i = 0; i < core->log_count && count < PINGS_PER_MESSAGE; i++) {
        struct log *log = &core->logs[(from + i) % core->log_count];
        uint32_t flags = (log->is_full ? 1u : 0) | (log->unsent == log->head ? 2u : 0);
        uint64_t held = log->head_at - log->tail_at;
        core->ping_from = log->number + 1;
        if (log->pinged_made == log->made && log->pinged_flags == flags && log->pinged_held == held)
            continue;
        log->pinged_made = log->made;
        log->pinged_flags = flags;
        log->pinged_held = held;
        put32(record, log->number);
        put32(record + 4, flags);
        put64(record + 8, log->made);
        put64(record + 16, held);
        record += 24;
        count++;
    }
    core->out_bytes += message_end(out, 24, count, NULL, 0, 0);
}

static void encode_answer(struct core *core, unsigned answer, const char *text) {
    uint8_t *out = core_out(core, HEADER_BYTES + 24 + TEXT_BYTES_MAX);
    if (!out || core->state != OPEN) return; /* the recorder asks again */
    uint8_t *fixed = message_begin(out, ANSWER, core->out_number++, 24);
    put64(fixed + 8, core->command.number);
    put16(fixed + 16, answer);
    core->out_bytes += message_end(out, 0, 0, text, strlen(text), 0);
}

static void encode_record(uint8_t *record, const struct report *report) {
    memset(record, 0, 128);
    record[0] = report->kind;
    record[1] = report->type;
    put16(record + 2, report->flags);
    put32(record + 4, report->log);
    put64(record + 8, report->value);
    put64(record + 16, report->min);
    put64(record + 24, report->max);
    memcpy(record + 32, report->unit, strlen(report->unit));
    memcpy(record + 64, report->name, strlen(report->name));
}

/* One report to a message: few are sent, and texts need one of their own. */
static void core_report(struct core *core, uint64_t now) {
    core->report_credit = min64(core->report_credit + (now - core->credit_at) / (10 * MS), 1000);
    core->credit_at = now - (now - core->credit_at) % (10 * MS);
    for (uint32_t i = 0; i < REPORTS_MAX && core->report_credit > 0; i++) {
        struct report *report = &core->reports[i];
        uint8_t *out = core_out(core, HEADER_BYTES + 8 + 128 + TEXT_BYTES_MAX);
        if (!report->is_due) continue;
        if (!out) return;
        encode_record(message_begin(out, REPORT, core->out_number++, 8) + 8, report);
        core->out_bytes += message_end(out, 128, 1, report->text, strlen(report->text), 0);
        core->report_credit--;
        report->is_due = 0;
        if (report->kind == CATCHMENT_REPORT_ALARM) report->is_used = 0;
    }
}

/* What the library counts of one source, as counters; the next source follows after a second. */
static void core_report_counts(struct core *core) {
    const struct log *log = &core->logs[core->counts_log++ % core->log_count];
    const struct catchment_counts *counts = &log->counts;
    const struct {
        const char *name;
        uint64_t value;
    } values[] = {
        {"made", log->made}, {"sent_again", counts->sent_again}, {"taken", log->taken},
        {"durable", log->durable}, {"abandoned_buffer", counts->abandoned[CATCHMENT_BUFFER]},
        {"abandoned_hardware", counts->abandoned[CATCHMENT_HARDWARE]},
        {"abandoned_busy", counts->abandoned[CATCHMENT_BUSY]}, {"full", counts->full},
        {"waited_ns", counts->waited_ns}, {"key_refused", counts->key_refused},
        {"held_at_run_end", counts->held_at_run_end}, {"resumes", counts->resumes},
    };
    size_t count = sizeof values / sizeof values[0];
    uint8_t *out = core_out(core, HEADER_BYTES + 8 + 128 * count);
    if (!out || core->report_credit < count) return;
    core->report_credit -= count;
    uint8_t *record = message_begin(out, REPORT, core->out_number++, 8) + 8;
    for (size_t i = 0; i < count; i++) {
        struct report report = {0};
        report.kind = CATCHMENT_REPORT_COUNTER;
        report.type = CATCHMENT_U64;
        report.log = log->number;
        report.value = values[i].value;
        copy_text(report.name, sizeof report.name, values[i].name, strlen(values[i].name));
        encode_record(record + 128 * i, &report);
    }
    core->out_bytes += message_end(out, 128, count, NULL, 0, 0);
}

/* --- The core: what it hears on control. ------------------------------------------------------ */

static const char *on_welcome(struct core *core, uint64_t now, const struct message *message) {
    static const uint8_t NO_RUN[16] = {0};
    const uint8_t *fixed = message->fixed;
    uint32_t ping_ms = get32(fixed + 88), silence_ms = get32(fixed + 92);
    uint32_t bytes = get32(fixed + 104);
    if (core->is_welcome) return "connection";
    if (get16(fixed + 64) > 3) return "kind";
    if (ping_ms < 100 || ping_ms > 10000) return "bound";
    if (silence_ms < 3 * ping_ms || silence_ms > 60000) return "bound";
    if (bytes % 8 || bytes < 65536 || bytes > 4325376) return "bound";
    if (get64(fixed + 8) != core->session || get32(fixed + 108) != core->log_count) return "bound";
    uint32_t stream = get32(fixed + 56), epoch = get32(fixed + 60);
    /* A recorder that is believed dead and still answers: its positions hold no more. */
    if (memcmp(core->run, NO_RUN, 16) && !memcmp(core->run, fixed + 16, 16)
        && stream == core->stream && epoch < core->epoch) {
        core_break(core, now, 1000, "the recorder has an earlier epoch of the run");
        return NULL;
    }
    memcpy(core->run, fixed + 16, 16);
    memcpy(core->ticket, fixed + 32, 16);
    core->run_number = get64(fixed + 48);
    core->stream = stream;
    core->epoch = epoch;
    core->run_state = get16(fixed + 64);
    core->is_paused = core->run_state == 3 && core->stops_in_pause;
    core->ping_ns = ping_ms * MS;
    core->silence_ns = silence_ms * MS;
    core->skew_bytes = min64(get64(fixed + 96), core->skew_wanted);
    core->message_bytes_max = bytes;
    core->is_welcome = 1;
    return NULL;
}

static void log_begin_run(struct log *log, const uint8_t *run, uint64_t run_number) {
    memcpy(log->begun_run, run, 16);
    log->begin_run = run_number;
    log->must_begin = log->is_in_run = 1;
}

/* One grant: where a log goes on. */
static const char *on_grant(struct core *core, struct log *log, const uint8_t *record) {
    uint32_t answer = get16(record + 4);
    uint64_t next = get64(record + 8), durable = get64(record + 16);
    if (answer < 1 || answer > 4) return "kind";
    if (durable > next) return "bound";
    log->answer = (uint8_t)answer;
    log->reason = (uint16_t)get16(record + 6);
    log->granted_bytes = log->fragment_bytes_max;
    if (!log->is_packets) log->granted_bytes = min64(log->granted_bytes, get64(record + 32));
    if (answer == 4) return NULL;
    log->run_end = NONE;
    if (next < log->hello_first || next > log->hello_made) return "bound";
    if (answer == 3) {
        if (next != log->hello_made) return "bound";
        uint64_t position = max64(durable, log->hello_first);
        log->counts.held_at_run_end += next - position;
        log->unconfirmed += log_fragments(log, position, next);
        log_rewind(log, next);
        log_release(log, next);
    } else {
        log_rewind(log, next);
        log_release(log, core->release == CATCHMENT_KEPT_UNTIL_TAKEN ? next : durable);
    }
    log->taken = next;
    log->durable = max64(log->durable, durable);
    log->pinged_made = NONE;
    log->ahead_bytes = 0;
    log->is_low_water_due = log->has_low_water || log->is_idle;
    int is_recording = core->run_state >= 2 && answer == 1;
    if (is_recording && log->flags & CATCHMENT_MARKS && memcmp(log->begun_run, core->run, 16)) {
        log_begin_run(log, core->run, core->run_number);
        log->must_end = 0;
    }
    log_settle(core, log);
    return NULL;
}

static void core_joined(struct core *core, uint64_t now) {
    for (uint32_t i = 0; i < core->log_count && !core->was_open; i++) {
        const struct log *log = &core->logs[i];
        char text[160];
        if (log->answer != 4) continue;
        snprintf(text, sizeof text, "the recorder refused source %u \"%s\", reason %u", (unsigned)i,
                 log->name, (unsigned)log->reason);
        core_bye(core, BYE_DONE, 0, "");
        core_end(core, text);
        return;
    }
    for (uint32_t i = 0; i < core->log_count && core->was_open; i++) core->logs[i].counts.resumes++;
    for (uint32_t i = 0; i < REPORTS_MAX; i++) core->reports[i].is_due = core->reports[i].is_used;
    memcpy(core->held_run, core->run, 16);
    core->state = OPEN;
    core->was_open = core->is_changed = 1;
    core->failures = 0;
    core->deadline = now + OPENING_NS;
    core->ping_at = now + core->ping_ns;
    core->counts_at = now + 1000 * MS;
}

static const char *on_grants(struct core *core, uint64_t now, const struct message *message) {
    if (!core->is_welcome || core->logs_granted == core->log_count) return "connection";
    for (size_t i = 0; i < message->record_count; i++) {
        const uint8_t *record = message->records + i * message->record_bytes;
        uint32_t number = get32(record);
        if (number != core->logs_granted || number >= core->log_count) return "unknown_log";
        const char *fault = on_grant(core, &core->logs[number], record);
        if (fault) return fault;
        core->logs_granted++;
    }
    if (core->logs_granted == core->log_count) core_joined(core, now);
    return NULL;
}

static const char *on_positions(struct core *core, const struct message *message) {
    const uint8_t *fixed = message->fixed;
    if (core->state != OPEN && core->state != LEAVING) return "connection";
    uint32_t epoch = get32(fixed + 16), unread = get16(fixed + 20);
    if (epoch < core->epoch) return NULL;
    core->epoch = epoch;
    for (uint32_t i = 0; i < core->link_count; i++) {
        struct link *link = &core->links[i];
        uint64_t received = get64(fixed + 24 + 8 * i);
        if (received != link->received || unread >> i & 1) link->still_ns = 0;
        link->received = received;
    }
    for (size_t i = 0; i < message->record_count; i++) {
        const uint8_t *record = message->records + i * message->record_bytes;
        uint64_t taken = get64(record + 8), durable = get64(record + 16);
        if (get32(record) >= core->log_count) return "unknown_log";
        struct log *log = &core->logs[get32(record)];
        uint64_t sent = log->unsent < log->head ? log_entry(log, log->unsent)->sequence : log->made;
        if (durable > taken || taken > sent) return "bound";
        if (taken > log->taken) core->faults = 0;
        log->taken = max64(log->taken, taken);
        log->durable = max64(log->durable, durable);
        int is_early = core->release == CATCHMENT_KEPT_UNTIL_TAKEN;
        if (log_release(log, is_early ? log->taken : log->durable)) core->is_changed = 1;
        if (log_has_marks_to_make(core, log)) log_settle(core, log);
    }
    return NULL;
}

/* A number in the fewest digits that read back as it, with a point whatever the program's locale
 * has there. */
static void number_text(char *out, size_t size, double number) {
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(out, size, "%.*g", digits, number);
        if (strtod(out, NULL) == number) break; /* never for what is no number */
    }
    size_t kept = 0, points = 0;
    for (const char *at = out; *at; at++)
        if (strchr("0123456789+-einfa", *at)) out[kept++] = *at;
        else if (!points++) out[kept++] = '.';
    out[kept] = 0;
}

/* The value of a record of settings, as text; 0 if its type is not known. */
static int setting_text(struct setting *setting, const uint8_t *record, const struct message *m) {
    uint64_t bits = get64(record + 8);
    size_t size = sizeof setting->value;
    double number;
    memcpy(&number, &bits, sizeof number);
    setting->value[0] = 0;
    switch (record[1]) {
    case CATCHMENT_BOOL: snprintf(setting->value, size, bits & 0xFF ? "true" : "false"); break;
    case CATCHMENT_I64: snprintf(setting->value, size, "%lld", (long long)(int64_t)bits); break;
    case CATCHMENT_U64: snprintf(setting->value, size, "%llu", (unsigned long long)bits); break;
    case CATCHMENT_F64: number_text(setting->value, size, number); break;
    case CATCHMENT_TEXT:
        copy_text(setting->value, size, m->text, m->record_count == 1 ? m->text_bytes : 0);
        break;
    default: return 0;
    }
    return 1;
}

/* Answers a command without the front-end: it does nothing of it. */
static void core_refuse(struct core *core, const char *why) {
    core->command.state = COMMAND_ANSWERED;
    core->command.answer = REFUSED;
    snprintf(core->command.why, sizeof core->command.why, "%s", why);
    encode_answer(core, REFUSED, why);
}

static const char *on_command(struct core *core, const struct message *message) {
    struct command *command = &core->command;
    const uint8_t *fixed = message->fixed;
    uint64_t number = get64(fixed + 8);
    if (core->state != OPEN) return core->state == LEAVING ? NULL : "connection";
    if (number == 0) return "bound";
    for (size_t i = 0; i < message->record_count; i++) {
        const uint8_t *record = message->records + i * message->record_bytes, *name = record + 64;
        size_t bytes = 64;
        while (bytes && !name[bytes - 1]) bytes--;
        if (!is_text(name, bytes)) return "text";
        uint32_t log = get32(record + 4);
        if (log != UINT32_MAX && log >= core->log_count) return "unknown_log";
    }
    if (number == command->number && command->state == COMMAND_ANSWERED)
        encode_answer(core, command->answer, command->why);
    if (number <= command->number) return NULL;
    command->is_owed |= command->state == COMMAND_LATER;
    command->number = number;
    command->state = COMMAND_CALL;
    command->working_at = core->polled_at + 1000 * MS;
    command->kind = get16(fixed + 40);
    command->run_number = get64(fixed + 32);
    memcpy(command->run, fixed + 16, 16);
    int is_first = command->kind == CATCHMENT_PREPARE || command->kind == CATCHMENT_START;
    if (is_first && memcmp(core->run, command->run, 16)) {
        memcpy(core->run, command->run, 16);
        memcpy(core->held_run, command->run, 16);
        core->run_number = command->run_number;
        core->epoch = 0; /* another run's stream has epochs of its own */
    }
    command->setting_count = (uint32_t)message->record_count;
    for (size_t i = 0; i < message->record_count; i++) {
        const uint8_t *record = message->records + i * message->record_bytes;
        struct setting *setting = &command->settings[i];
        copy_text(setting->name, sizeof setting->name, record + 64, 64);
        if (!setting_text(setting, record, message)) core_refuse(core, "a value of unknown type");
    }
    if (command->is_owed) core_refuse(core, "the front-end is at work on the command before");
    for (uint32_t i = 0; i < core->log_count && command->kind == COMMAND_SET; i++)
        if (core->logs[i].settings_at < core->setting_count && command->state == COMMAND_CALL)
            core_refuse(core, "a ring is full, and an earlier setting has no mark yet");
    return NULL;
}

static const char *on_bye(struct core *core, uint64_t now, const struct message *message) {
    static const char *const NAMES[] = {
        "done", "version", "token", "name", "name in use", "does not fit", "mixed", "later",
        "malformed", "silent", "too many", "unknown", "superseded", "tls required", "ending"};
    unsigned reason = get16(message->fixed + 8);
    uint32_t retry_ms = get32(message->fixed + 12);
    char text[TEXT_BYTES_MAX + 128];
    if (retry_ms > 60000) return "bound";
    snprintf(text, sizeof text, "the recorder said: %s (%u)%s%.*s",
             reason < sizeof NAMES / sizeof NAMES[0] ? NAMES[reason] : "reason", reason,
             message->text_bytes ? ": " : "", (int)message->text_bytes, message->text);
    for (uint32_t i = 0; i < core->log_count && reason == BYE_ENDING; i++)
        core->logs[i].run_end = core->logs[i].made;
    if (retry_ms && core->state != LEAVING) core_break(core, now, retry_ms, text);
    else core_end(core, text);
    return NULL;
}

/* The recorder's preamble. Returns 1 if it is whole and agreed. */
static int core_preamble(struct core *core, uint64_t now) {
    const uint8_t *in = core->in;
    char text[160];
    if (memcmp(in, MAGIC, min64(core->in_bytes, sizeof MAGIC))) {
        core_break(core, now, 0, in[0] == TLS_ALERT ? "a recorder with TLS is catchment://"
                                                    : "what answers there is no recorder");
        return 0;
    }
    if (core->in_bytes < PREAMBLE_BYTES) return 0;
    if (in[8] == 1 && in[9] == 1 && in[10] == core->service && in[11] == 1 && in[12] == 1
        && in[13] == 1)
        return 1;
    snprintf(text, sizeof text,
             "no common version: session 1 and service %u here; there session %u to %u, service %u "
             "in version %u to %u", core->service, in[8], in[9], in[10], in[11], in[12]);
    core_end(core, text);
    return 0;
}

/* Takes bytes of control. */
static void core_received(struct core *core, uint64_t now, const uint8_t *bytes, size_t count) {
    uint32_t generation = core->generation;
    core->silent_ns = 0;
    while (core->state >= OPENING && core->state != ENDED && core->generation == generation) {
        struct message message;
        const char *fault = NULL;
        size_t taken = min64(count, sizeof core->in - core->in_bytes);
        memcpy(core->in + core->in_bytes, bytes, taken);
        bytes += taken;
        count -= taken;
        core->in_bytes += taken;
        message.used = 0;
        if (!core->has_preamble) {
            core->has_preamble = core_preamble(core, now);
            if (core->has_preamble) message.used = PREAMBLE_BYTES;
        } else {
            fault = parse(core->in, core->in_bytes, core->in_number, &message);
            if (!fault && message.used && message.type) {
                switch (message.type->number) {
                case WELCOME: fault = on_welcome(core, now, &message); break;
                case GRANTS: fault = on_grants(core, now, &message); break;
                case POSITIONS: fault = on_positions(core, &message); break;
                case COMMAND: fault = on_command(core, &message); break;
                default: fault = on_bye(core, now, &message);
                }
            }
            if (fault) {
                core_fault(core, now, fault, get16(core->in + 2));
                return;
            }
            if (message.used) core->in_number++;
        }
        if (!message.used && !count) return;
        core->in_bytes -= message.used;
        memmove(core->in, core->in + message.used, core->in_bytes);
    }
}

/* --- The core: what it sends on data connections. --------------------------------------------- */

static void link_head(struct link *link, size_t bytes) {
    link->left[0].at = link->head;
    link->left[0].bytes = bytes;
}

static void link_body(struct link *link, const uint8_t *at, size_t bytes) {
    static const uint8_t ZEROS[8] = {0};
    link->left[1].at = at;
    link->left[1].bytes = bytes;
    link->left[2].at = ZEROS;
    link->left[2].bytes = (0 - bytes) & 7;
}

static void build_attach(struct core *core, struct link *link) {
    uint8_t *out = link->head;
    memcpy(out, MAGIC, sizeof MAGIC);
    memset(out + 8, 1, 5);
    out[10] = core->service;
    out[13] = 2;
    put16(out + 14, 0);
    uint8_t *fixed = message_begin(out + PREAMBLE_BYTES, ATTACH, link->number++, 40);
    put64(fixed + 8, core->session);
    memcpy(fixed + 16, core->ticket, 16);
    put16(fixed + 32, (uint64_t)(link - core->links));
    link_head(link, PREAMBLE_BYTES + message_end(out + PREAMBLE_BYTES, 0, 0, NULL, 0, 0));
}

static void build_mark(struct link *link, struct log *log, const struct entry *entry) {
    static const char *const REASONS[] = {"", "the ring was full", "hardware", "busy"};
    uint8_t *fixed = message_begin(link->head, MARK, link->number++, 64);
    uint64_t mask = log_key_mask(log), at = entry_at(log, log->unsent_at, entry);
    const void *text = log->ring + at % log->ring_bytes;
    size_t text_bytes = entry->bytes;
    put32(fixed + 8, log->number);
    put16(fixed + 12, entry->kind);
    put64(fixed + 16, entry->sequence);
    put64(fixed + 24, log_behind(log, log->unsent) - entry->sequence);
    put32(fixed + 48, entry->flags);
    if (entry->flags && entry->kind != CATCHMENT_END) put64(fixed + 32, entry->key & mask);
    if (entry->flags && (entry->kind == ABANDONED || entry->kind == CATCHMENT_END))
        put64(fixed + 40, entry->other & mask);
    if (entry->kind == CATCHMENT_BEGIN) put64(fixed + 56, entry->other);
    if (entry->kind == CATCHMENT_END) put64(fixed + 56, entry->key);
    if (entry->kind == ABANDONED) {
        put16(fixed + 14, entry->tag);
        text = REASONS[entry->tag];
        text_bytes = strlen(REASONS[entry->tag]);
    }
    link_head(link, message_end(link->head, 0, 0, text, text_bytes, 0));
    log->unsent_at = at + entry->bytes;
    log->unsent++;
}

static void build_part(struct core *core, struct link *link, struct log *log,
                       const struct entry *entry) {
    uint64_t most = (core->message_bytes_max - HEADER_BYTES - 56) / 4096 * 4096;
    uint64_t at = entry_at(log, log->unsent_at, entry), position = log->part_at;
    uint64_t bytes = min64(entry->bytes - position, min64(most, MIB));
    uint8_t *fixed = message_begin(link->head, PART, link->number++, 56);
    put32(fixed + 8, log->number);
    fixed[12] = entry->tag;
    fixed[13] = entry->flags;
    put64(fixed + 16, entry->sequence);
    put64(fixed + 24, entry->key & log_key_mask(log));
    put64(fixed + 32, entry->other);
    put64(fixed + 40, position);
    put64(fixed + 48, entry->bytes);
    link_head(link, message_end(link->head, 0, 0, NULL, 0, bytes));
    link_body(link, log->ring + at % log->ring_bytes + position, bytes);
    log->part_at += bytes;
    if (log->part_at < entry->bytes) return;
    log->part_at = 0;
    log->unsent_at = at + entry->bytes;
    log->unsent++;
}

/* As many fragments as lie together and fit into `bytes_max`; one at least. */
static void build_fragments(struct link *link, struct log *log, uint64_t bytes_max,
                            uint64_t message_bytes_max) {
    size_t record_bytes = log->flags & CATCHMENT_REFERENCE ? 24 : 16, count = 0;
    uint64_t mask = log_key_mask(log);
    uint64_t begin = entry_at(log, log->unsent_at, log_entry(log, log->unsent)), end = begin;
    uint8_t *fixed = message_begin(link->head, FRAGMENTS, link->number++, 24);
    put32(fixed + 8, log->number);
    put64(fixed + 16, log_entry(log, log->unsent)->sequence);
    for (uint8_t *record = fixed + 24; log->unsent < log->head && count < RECORDS_MAX; count++) {
        const struct entry *entry = log_entry(log, log->unsent);
        uint64_t body = end - begin + entry->bytes;
        uint64_t bytes = HEADER_BYTES + 24 + record_bytes * (count + 1) + body + 7;
        if (entry->kind != FRAGMENT || bytes > message_bytes_max) break;
        if (count && (body > bytes_max || entry_at(log, end, entry) != end)) break;
        if (count && end % log->ring_bytes == 0) break; /* the next one lies at the ring's begin */
        put64(record, entry->key & mask);
        put32(record + 8, entry->bytes);
        put32(record + 12, (uint32_t)entry->tag | (uint32_t)entry->flags << 8);
        if (record_bytes == 24) put64(record + 16, entry->other);
        record += record_bytes;
        end += entry->bytes;
        log->unsent++;
    }
    log->unsent_at = end;
    link_head(link, message_end(link->head, record_bytes, count, NULL, 0, end - begin));
    link_body(link, log->ring + begin % log->ring_bytes, end - begin);
}

/* The next packet of a channel link. */
static void build_samples(struct link *link, struct log *log, const struct entry *entry) {
    uint64_t at = entry_at(log, log->unsent_at, entry);
    uint8_t *fixed = message_begin(link->head, SAMPLES, link->number++, 24);
    put32(fixed + 8, log->number);
    put64(fixed + 16, entry->sequence);
    link_head(link, message_end(link->head, 0, 0, NULL, 0, entry->bytes));
    link_body(link, log->ring + at % log->ring_bytes, entry->bytes);
    log->unsent_at = at + entry->bytes;
    log->unsent++;
}

/* A message without a packet: the sign of life of the one channel link of a connection. */
static void build_no_samples(struct core *core, struct link *link) {
    const struct log *log = &core->logs[link - core->links];
    uint8_t *fixed = message_begin(link->head, SAMPLES, link->number++, 24);
    put32(fixed + 8, log->number);
    put64(fixed + 16, log->unsent < log->head ? log_entry(log, log->unsent)->sequence : log->made);
    link_head(link, message_end(link->head, 0, 0, NULL, 0, 0));
}

static void build_heartbeat(struct core *core, struct link *link, uint64_t now) {
    uint8_t *record = message_begin(link->head, HEARTBEAT, link->number++, 8) + 8;
    size_t count = 0;
    for (uint32_t i = (uint32_t)(link - core->links); i < core->log_count; i += core->link_count) {
        struct log *log = &core->logs[i];
        if (!log->is_low_water_due || log->unsent != log->head || log->answer == 4) continue;
        put32(record, i);
        put32(record + 4, (log->is_idle ? 1u : 0) | (log->has_low_water ? 2u : 0));
        put64(record + 8, log->made);
        put64(record + 16, log->has_low_water ? log->floor & log_key_mask(log) : 0);
        record += 24;
        count++;
        log->is_low_water_due = 0;
        if (log->floor >= link->highest_key) log->ahead_bytes = 0;
    }
    link_head(link, message_end(link->head, 24, count, NULL, 0, 0));
    link->heartbeat_at = now;
}

/* The key by which a log's next item is in order with those of others; marks go at once. */
static uint64_t log_next_key(const struct log *log) {
    const struct entry *entry = log_entry(log, log->unsent);
    return entry->kind == FRAGMENT || (entry->kind == ABANDONED && entry->flags) ? entry->key : 0;
}

static int log_can_send(const struct log *log) {
    if (log->unsent == log->head || log->answer == 4) return 0;
    /* The last range waits while the entries are used up, so that more can join it. */
    return log->unsent + 1 < log->head || log_entry(log, log->unsent)->kind != ABANDONED
        || log_free_entries(log) > ENTRIES_FOR_MARKS;
}

/* The log of a connection that sends next: the one with the lowest key, unless others that have
 * nothing may not fall further behind. */
static struct log *link_choose(struct core *core, struct link *link) {
    struct log *best = NULL;
    uint32_t first = (uint32_t)(link - core->links), step = core->link_count;
    for (uint32_t i = first; i < core->log_count; i += step) {
        struct log *log = &core->logs[i];
        if (log_can_send(log) && (!best || log_next_key(log) < log_next_key(best))) best = log;
    }
    if (!best || link->log_count == 1) return best;
    for (uint32_t i = first; i < core->log_count; i += step) {
        const struct log *log = &core->logs[i];
        int is_behind = log->unsent == log->head && !log->is_idle && log->answer != 4
            && log->floor < log_next_key(best);
        if (is_behind && log->ahead_bytes >= core->skew_bytes) return NULL;
    }
    return best;
}

/* What a message of one log means for the others of its connection. */
static void link_order(struct core *core, struct link *link, struct log *sent, uint64_t key) {
    size_t bytes = link->left[0].bytes + link->left[1].bytes;
    link->highest_key = max64(link->highest_key, key);
    if (key >= link->highest_key) sent->ahead_bytes = 0;
    for (uint32_t i = (uint32_t)(link - core->links); i < core->log_count; i += core->link_count)
        if (core->logs[i].unsent == core->logs[i].head && core->logs[i].floor < key)
            core->logs[i].ahead_bytes += bytes;
}

static void build_items(struct core *core, struct link *link, struct log *log) {
    const struct entry *entry = log_entry(log, log->unsent);
    uint64_t whole_max = min64(MIB, core->message_bytes_max - HEADER_BYTES - 24 - 24 - 7);
    uint64_t bytes_max = link->log_count == 1 ? NONE : core->skew_bytes / link->log_count;
    if (log->is_packets) build_samples(link, log, entry);
    else if (entry->kind != FRAGMENT) build_mark(link, log, entry);
    else if (entry->bytes > whole_max) build_part(core, link, log, entry);
    else {
        /* Long ones fill messages; of short ones a recorder takes a message when it is whole. */
        uint64_t most = entry->bytes >= LONG_BYTES ? NONE : SHORT_MESSAGE_BYTES;
        build_fragments(link, log, bytes_max, min64(most, core->message_bytes_max));
    }
    uint64_t behind = log->unsent > log->tail ? log_behind(log, log->unsent - 1) : 0;
    log->sent = max64(log->sent, behind);
    if (link->log_count > 1 && log->unsent > log->tail)
        link_order(core, link, log, log_entry(log, log->unsent - 1)->key);
}

static int link_has_low_water(const struct core *core, const struct link *link) {
    for (uint32_t i = (uint32_t)(link - core->links); i < core->log_count; i += core->link_count)
        if (core->logs[i].is_low_water_due && core->logs[i].unsent == core->logs[i].head) return 1;
    return 0;
}

/* Makes the next message of a connection if none is under way. Returns whether `left` has one. */
static int link_next(struct core *core, struct link *link, uint64_t now) {
    struct log *log;
    if (link->left[0].bytes + link->left[1].bytes + link->left[2].bytes) return 1;
    if (link->number == 0) build_attach(core, link);
    else if (now - link->heartbeat_at >= LOW_WATER_NS && link_has_low_water(core, link))
        build_heartbeat(core, link, now);
    else if (!core->is_paused && (log = link_choose(core, link)) != NULL)
        build_items(core, link, log);
    else if (now - link->message_at < core->ping_ns) return 0;
    else if (core->service == CHANNELS) build_no_samples(core, link);
    else build_heartbeat(core, link, now);
    link->message_at = now;
    return 1;
}

/* When a connection has something to send, if its socket takes it; NONE: it has not. */
static uint64_t link_due_at(struct core *core, struct link *link, uint64_t now) {
    if (core->state != OPEN || !link->is_open) return NONE;
    if (!core->is_paused && link_choose(core, link)) return now;
    return link_has_low_water(core, link) ? max64(now, link->heartbeat_at + LOW_WATER_NS) : NONE;
}

/* The socket took so many bytes. */
static void link_sent(struct link *link, size_t bytes) {
    link->written += bytes;
    for (int i = 0; i < 3; i++) {
        size_t taken = min64(bytes, link->left[i].bytes);
        if (!taken) continue;
        link->left[i].at += taken;
        link->left[i].bytes -= taken;
        bytes -= taken;
    }
}

/* --- The core: its connections and its time. -------------------------------------------------- */

static void core_control_opened(struct core *core) {
    core->in_bytes = core->out_bytes = core->out_sent = 0;
    core->in_number = core->out_number = core->logs_said = core->logs_granted = 0;
    core->has_preamble = core->is_welcome = 0;
    core->silent_ns = core->stalled_ns = 0;
    core->state = OPENING;
    memcpy(core->out, MAGIC, sizeof MAGIC);
    memset(core->out + 8, 1, 6);
    core->out[10] = core->service;
    put16(core->out + 14, 0);
    core->out_bytes = PREAMBLE_BYTES;
    encode_hello(core);
    core_describe(core);
}

static void link_opened(struct link *link, uint64_t now) {
    uint8_t *head = link->head;
    uint32_t log_count = link->log_count;
    memset(link, 0, sizeof *link);
    link->head = head;
    link->log_count = log_count;
    link->is_open = 1;
    link->message_at = now;
}

/* A data connection ended: `bye` on control may say why. */
static void core_link_closed(struct core *core, uint64_t now, const char *why) {
    if (core->break_at || core->state != OPEN) return;
    core_say(core, "%s", why);
    core->break_at = now + LAST_WORDS_NS;
}

static void core_control_sent(struct core *core, size_t bytes) {
    core->out_sent += bytes;
    core->stalled_ns = 0;
    if (core->out_sent == core->out_bytes) core->out_sent = core->out_bytes = 0;
}

/* Who is silent, and what is due, in a session that is open. */
static void core_live(struct core *core, uint64_t now, uint64_t passed) {
    core->silent_ns += passed;
    core->stalled_ns = core->out_bytes > core->out_sent ? core->stalled_ns + passed : 0;
    if (core->silent_ns >= core->silence_ns || core->stalled_ns >= STALL_NS) {
        core_bye(core, BYE_SILENT, core->silent_ns / MS, "");
        core_break(core, now, 0, "the recorder is silent");
        return;
    }
    for (uint32_t i = 0; i < core->link_count; i++) {
        struct link *link = &core->links[i];
        if (!link->is_open) { /* what it counts is of the session's connections before */
            if (now < core->deadline) continue;
            core_break(core, now, 0, "no data connection within 3 s");
            return;
        }
        link->still_ns = link->written > link->received ? link->still_ns + passed : 0;
        if (link->still_ns >= core->silence_ns) {
            core_bye(core, BYE_SILENT, link->still_ns / MS, "a data connection is not read");
            core_break(core, now, 0, "the recorder does not read a data connection");
            return;
        }
    }
    if (core->break_at && now >= core->break_at) {
        char why[sizeof core->why];
        memcpy(why, core->why, sizeof why);
        core_break(core, now, 0, why);
        return;
    }
    if (now >= core->ping_at) {
        encode_ping(core);
        core->ping_at = now + core->ping_ns;
    }
    /* Also while the callback for the command before it goes on. */
    int is_open = core->command.state == COMMAND_LATER || core->command.state == COMMAND_CALL;
    if (is_open && now >= core->command.working_at) {
        encode_answer(core, WORKING, "");
        core->command.working_at = now + 1000 * MS;
    }
    if (now >= core->counts_at) {
        core_report_counts(core);
        core->counts_at = now + 1000 * MS;
    }
    core_report(core, now);
}

/* Does what time asks for. Returns when to be called again, if no connection has more to send. */
static uint64_t core_work(struct core *core, uint64_t now) {
    uint64_t passed = min64(now - core->polled_at, POLLED_NS_MAX);
    core->polled_at = now;
    switch (core->state) {
    case WAITING:
        if (now < core->connect_at) return core->connect_at;
        core->state = CONNECTING;
        core->generation++;
        core->deadline = now + OPENING_NS;
        break;
    case CONNECTING:
    case OPENING:
        if (now >= core->deadline) core_break(core, now, 0, "the recorder gave no answer in 3 s");
        else if (core->state == OPENING) core_describe(core);
        break;
    case OPEN: core_live(core, now, passed); break;
    case LEAVING:
        if (now >= core->deadline) core_end(core, "the recorder did not say goodbye");
        break;
    case ENDED: return NONE;
    }
    if (core->state == WAITING) return core->connect_at;
    uint64_t wake_at = now + POLL_NS;
    return core->state == OPEN ? min64(wake_at, max64(now, core->ping_at)) : wake_at;
}

/* Fragments that no recorder confirmed. */
static uint64_t core_unconfirmed(const struct core *core) {
    uint64_t count = 0;
    for (uint32_t i = 0; i < core->log_count; i++)
        count += core->logs[i].unconfirmed + log_fragments(&core->logs[i], 0, NONE);
    return count;
}

static int core_is_drained(const struct core *core) {
    for (uint32_t i = 0; i < core->log_count; i++)
        if (core->logs[i].tail != core->logs[i].head && core->logs[i].answer != 4) return 0;
    return 1;
}

static void core_leave(struct core *core, uint64_t now) {
    uint64_t held = 0;
    for (uint32_t i = 0; i < core->log_count; i++)
        held += core->logs[i].made - log_first(&core->logs[i]);
    if (core->state != OPEN) {
        core_end(core, "closed");
        return;
    }
    core_bye(core, BYE_DONE, held, "");
    core->state = LEAVING;
    core->deadline = now + FAREWELL_NS;
}

/* The marks begin of a start, each once, and again in a run that goes on behind a stop. They stand
   before what the front-end makes while it starts: the callback may send, and so may a thread that
   it begins. */
static void core_start(struct core *core) {
    const struct command *command = &core->command;
    for (uint32_t i = 0; i < core->log_count; i++) {
        struct log *log = &core->logs[i];
        int is_marked = (log->flags & CATCHMENT_MARKS) != 0;
        int is_begun = log->is_in_run && !memcmp(log->begun_run, command->run, 16);
        if (!is_marked || is_begun) continue;
        log_begin_run(log, command->run, command->run_number);
        log_settle(core, log);
    }
}

/* The front-end's answer to the open command. */
static void core_answer(struct core *core, const char *refusal) {
    struct command *command = &core->command;
    int is_set = command->kind == COMMAND_SET;
    command->state = COMMAND_ANSWERED;
    command->answer = refusal ? REFUSED : command->kind == CATCHMENT_PREPARE ? AGREED : DONE;
    snprintf(command->why, sizeof command->why, "%s", refusal ? refusal : "");
    for (size_t bytes = strlen(command->why); !is_sentence(command->why);)
        command->why[--bytes] = 0; /* as far as it is text */
    encode_answer(core, command->answer, command->why);
    if (refusal) return;
    if (!is_set) {
        /* By command: prepared, running, paused, running, stopped, in no run. */
        static const uint8_t STAGES[] = {0, 1, 2, 3, 2, 4, 0};
        core->stage = STAGES[command->kind];
        core->stage_run = (uint16_t)command->run_number;
    }
    if (command->kind == CATCHMENT_PAUSE) core->is_paused = core->stops_in_pause;
    else if (command->kind != CATCHMENT_PREPARE && !is_set) core->is_paused = 0;
    if (is_set) {
        core->setting_count = command->setting_count;
        memcpy(core->settings, command->settings, sizeof core->settings);
    }
    if (command->kind == CATCHMENT_START) core_start(core);
    for (uint32_t i = 0; i < core->log_count; i++) {
        struct log *log = &core->logs[i];
        if (is_set) log->settings_at = 0;
        if (command->kind == CATCHMENT_STOP && log->is_in_run) {
            log->is_in_run = 0;
            if (!log->must_begin) log->end_run = command->run_number, log->must_end = 1;
            log->must_begin = 0; /* a run that left no mark begin has no end */
        }
        log_settle(core, log);
    }
}

/* --- The core: what callers do. --------------------------------------------------------------- */

/* Whether a source can take something. */
static int core_check(struct core *core, int source, struct log **log) {
    *log = NULL;
    if (source < 0 || (uint32_t)source >= core->log_count)
        return fail(CATCHMENT_REFUSED, "no source %d: there are %u", source,
                    (unsigned)core->log_count);
    *log = &core->logs[source];
    if (core->state >= LEAVING) return fail(CATCHMENT_ENDED, "the session ended: %s", core->why);
    if ((*log)->answer == 4)
        return fail(CATCHMENT_ENDED, "the recorder refused source %d \"%s\", reason %u", source,
                    (*log)->name, (unsigned)(*log)->reason);
    if ((*log)->made >= SEQUENCE_END - RANGE_MAX)
        return fail(CATCHMENT_ENDED, "source %d has no more sequences", source);
    return CATCHMENT_ACCEPTED;
}

/* Takes room for a fragment whose key, if it is given, rises. */
static int core_reserve(struct core *core, struct log *log, const uint64_t *key, uint64_t bytes) {
    uint64_t unwrapped;
    if (bytes > log->granted_bytes)
        return fail(CATCHMENT_REFUSED,
                    "source %u \"%s\": a fragment of %llu bytes; fragment_bytes_max is %llu",
                    (unsigned)log->number, log->name, (unsigned long long)bytes,
                    (unsigned long long)log->granted_bytes);
    if (key && !log_unwrap(log, *key, &unwrapped)) return log_refuse_key(log, *key);
    if (log_has_marks_to_make(core, log)) log_settle(core, log);
    if (log_has_marks_to_make(core, log) || !log_place(log, bytes, !key, &log->reserved_at)) {
        log->is_full = 1;
        return fail(CATCHMENT_FULL, "source %u \"%s\": the ring of %llu bytes is full",
                    (unsigned)log->number, log->name, (unsigned long long)log->ring_bytes);
    }
    log->reserved_bytes = bytes;
    return CATCHMENT_ACCEPTED;
}

static int core_commit(struct log *log, const struct catchment_fragment *fragment, uint64_t bytes) {
    uint64_t key;
    if (!log_unwrap(log, fragment->key, &key)) return log_refuse_key(log, fragment->key);
    uint64_t at = log->reserved_at;
    struct entry *entry = log_append(log, FRAGMENT, key, fragment->groups, at, bytes, 1);
    entry->tag = fragment->tag;
    entry->flags = fragment->flags;
    log_raise(log, key);
    return CATCHMENT_ACCEPTED;
}

static int core_abandon(struct log *log, uint64_t count, uint64_t key, uint64_t key_last,
                        int reason) {
    int is_known = key != CATCHMENT_NO_KEY || key_last != CATCHMENT_NO_KEY;
    uint64_t low = 0, high = 0;
    struct entry *last = log->head > log->unsent ? log_entry(log, log->head - 1) : NULL;
    if (count < 1 || count > RANGE_MAX || reason < 0 || reason > CATCHMENT_BUSY)
        return fail(CATCHMENT_REFUSED, "abandon: 1 to 2^40 fragments, for the reason 0 to 3");
    if (is_known && !log_unwrap(log, key, &low)) return log_refuse_key(log, key);
    if (is_known && (!log_unwrap(log, key_last, &high) || high < low))
        return log_refuse_key(log, key_last);
    if (last && last->kind == ABANDONED && last->tag == reason && last->flags == is_known
        && log->made - last->sequence + count <= RANGE_MAX) {
        last->other = high;
        log->made += count;
    } else if (log_free_entries(log) > ENTRIES_FOR_MARKS) {
        last = log_append(log, ABANDONED, low, high, log->head_at, 0, count);
        last->tag = (uint8_t)reason;
        last->flags = (uint8_t)is_known;
    } else {
        return fail(CATCHMENT_FULL, "source %u: no entry for another range", (unsigned)log->number);
    }
    log->counts.abandoned[reason] += count;
    if (is_known) log_raise(log, high);
    return CATCHMENT_ACCEPTED;
}

static int core_low_water(struct log *log, uint64_t key, int is_idle) {
    uint64_t unwrapped;
    if (key != CATCHMENT_NO_KEY) {
        if (!log_unwrap(log, key, &unwrapped)) return log_refuse_key(log, key);
        log->floor = unwrapped;
        log->has_floor = log->has_low_water = 1;
    }
    log->is_idle = is_idle != 0;
    log->is_low_water_due = 1;
    return CATCHMENT_ACCEPTED;
}

static int core_mark(struct core *core, struct log *log, int kind, uint64_t key, const char *text) {
    uint64_t bytes = text ? strlen(text) : 0, at = log->head_at, unwrapped = 0;
    int is_known = key != CATCHMENT_NO_KEY && kind != CATCHMENT_SETTING;
    int is_begin = kind == CATCHMENT_BEGIN, is_end = kind == CATCHMENT_END;
    if (!is_begin && !is_end && kind != CATCHMENT_NUMBERING && kind != CATCHMENT_SETTING)
        return fail(CATCHMENT_REFUSED, "no mark of kind %d", kind);
    if (text && !is_sentence(text)) return fail(CATCHMENT_REFUSED, "1,024 bytes of UTF-8 at most");
    if (kind == CATCHMENT_SETTING && (!text || !strchr(text, '=')))
        return fail(CATCHMENT_REFUSED, "a setting is \"name=value\"");
    if (is_known && key > log_key_mask(log)) return log_refuse_key(log, key);
    if (is_known && is_begin && !log_unwrap(log, key, &unwrapped)) return log_refuse_key(log, key);
    if (log_has_marks_to_make(core, log)) log_settle(core, log);
    if (log_has_marks_to_make(core, log) || !log_place(log, bytes, 0, &at))
        return fail(CATCHMENT_FULL, "source %u: no room for a mark", (unsigned)log->number);
    if (bytes) memcpy(log->ring + at % log->ring_bytes, text, bytes);
    if (is_begin) log->begin = log->made;
    struct entry *entry = log_append(log, kind, is_end ? core->run_number : is_known ? key : 0,
                                     is_end && is_known ? key : is_begin ? core->run_number : 0, at,
                                     bytes, 1);
    entry->flags = (uint8_t)is_known;
    if (kind == CATCHMENT_NUMBERING) {
        log->has_floor = (uint8_t)is_known;
        log->floor = is_known ? key : 0;
        log->has_low_water = 0;
    }
    return CATCHMENT_ACCEPTED;
}

static int core_take_report(struct core *core, const struct catchment_report *given) {
    struct report *report = NULL;
    uint32_t alarms = 0;
    int is_alarm = given->kind == CATCHMENT_REPORT_ALARM;
    const char *name = given->name ? given->name : "", *text = given->text ? given->text : "";
    const char *unit = given->unit ? given->unit : "";
    if (given->kind < 1 || given->kind > 4 || given->type < 1 || given->type > 5
        || !is_name(name, "-_.") || !is_sentence(text) || !is_sentence(unit) || strlen(unit) > 32
        || given->source < -1 || given->source >= (int)core->log_count)
        return fail(CATCHMENT_REFUSED,
                    "report \"%s\": no such kind, type or source, or no name, unit or text", name);
    uint32_t log = given->source < 0 ? UINT32_MAX : (uint32_t)given->source;
    for (uint32_t i = 0; i < REPORTS_MAX; i++) {
        struct report *used = &core->reports[i];
        int is_same = used->is_used && used->kind == given->kind && used->log == log
            && !strcmp(used->name, name);
        alarms += used->is_used && used->kind == CATCHMENT_REPORT_ALARM;
        if (is_alarm ? !report && !used->is_used : is_same) report = used;
    }
    for (uint32_t i = 0; i < REPORTS_MAX && !report && !is_alarm; i++)
        if (!core->reports[i].is_used) report = &core->reports[i];
    if (!report || (is_alarm && alarms >= ALARMS_MAX))
        return fail(CATCHMENT_FULL, "report \"%s\": too many names, or alarms that wait", name);
    report->is_used = report->is_due = 1;
    report->kind = (uint8_t)given->kind;
    report->type = (uint8_t)given->type;
    report->flags = (given->is_raised ? 1u : 0) | (given->is_writable ? 2u : 0);
    report->log = log;
    report->value = given->type == CATCHMENT_TEXT ? 0 : given->value;
    report->min = given->min;
    report->max = given->max;
    copy_text(report->name, sizeof report->name, name, strlen(name));
    copy_text(report->unit, sizeof report->unit, unit, strlen(unit));
    copy_text(report->text, sizeof report->text, text, strlen(text));
    return CATCHMENT_ACCEPTED;
}

/* --- The core: how it is made. ---------------------------------------------------------------- */

static void core_free(struct core *core) {
    for (uint32_t i = 0; core->logs && i < core->log_count; i++) {
        free(core->logs[i].ring);
        free(core->logs[i].entries);
    }
    for (uint32_t i = 0; i < LINKS_MAX; i++) free(core->links[i].head);
    free(core->logs);
}

static int log_make(struct log *log, const struct catchment_source *source, uint64_t ring_bytes,
                    int is_packets) {
    uint64_t entries = ENTRIES_MIN;
    const char *name = source->name ? source->name : "";
    copy_text(log->name, sizeof log->name, name, strlen(name));
    log->ring_bytes = (source->buffer ? source->buffer : ring_bytes) & ~(uint64_t)7;
    log->fragment_bytes_max = source->fragment_bytes_max;
    if (!log->fragment_bytes_max) log->fragment_bytes_max = min64(MIB, log->ring_bytes / 2);
    log->groups = source->groups;
    log->flags = source->flags;
    log->key_kind = source->key_kind ? source->key_kind : CATCHMENT_NUMBER;
    log->key_bits = source->key_bits ? source->key_bits : 64;
    log->presence = source->presence;
    log->dtype = source->dtype;
    log->begin = log->run_end = NONE;
    log->is_packets = (uint8_t)is_packets;
    if (is_packets) {
        log->fragment_bytes_max = PACKET_BYTES_MAX;
        log->flags = 0;
        log->key_kind = CATCHMENT_NUMBER;
        log->key_bits = 64;
    }
    if (*name && !is_name(name, "-_.:/"))
        return fail(CATCHMENT_REFUSED, "\"%s\" is no name of a source", name);
    if (log->fragment_bytes_max > FRAGMENT_BYTES_MAX || log->ring_bytes < log->fragment_bytes_max)
        return fail(CATCHMENT_REFUSED,
                    "source \"%s\": fragments of up to %llu bytes in a ring of %llu", name,
                    (unsigned long long)log->fragment_bytes_max,
                    (unsigned long long)log->ring_bytes);
    if (log->key_bits != 64 && (log->key_bits < 16 || log->key_bits > 48))
        return fail(CATCHMENT_REFUSED, "source \"%s\": key_bits is 16 to 48, or 64", name);
    if (log->key_kind > CATCHMENT_TIME || log->presence > CATCHMENT_SPARSE)
        return fail(CATCHMENT_REFUSED, "source \"%s\": no such kind of keys, or presence", name);
    while (entries < log->ring_bytes / BYTES_PER_ENTRY) entries *= 2;
    log->mask = entries - 1;
    log->ring = malloc(log->ring_bytes);
    log->entries = malloc(entries * sizeof *log->entries);
    if (log->ring && log->entries) return CATCHMENT_ACCEPTED;
    return fail(CATCHMENT_REFUSED, "no memory for a ring of %llu bytes",
                (unsigned long long)log->ring_bytes);
}

static int core_make(struct core *core, const char *name, const struct catchment_options *options) {
    static const struct catchment_source ONE = {.flags = CATCHMENT_MARKS};
    const struct catchment_source *sources = options->source_count ? options->sources : &ONE;
    uint32_t count = options->source_count ? options->source_count : 1;
    uint64_t buffer = options->buffer ? options->buffer : 64 * MIB;
    const char *token = options->token ? options->token : "";
    const char *program = options->program ? options->program : "";
    char copy[16] = "";
    if (options->index) snprintf(copy, sizeof copy, "-%d", options->index);
    if (count > LOGS_MAX) return fail(CATCHMENT_REFUSED, "4,096 sources at most");
    if (options->channels && count > LINKS_MAX)
        return fail(CATCHMENT_REFUSED, "16 channel links at most");
    if (!is_name(name, "-_.:/") || strlen(name) + strlen(copy) > 64)
        return fail(CATCHMENT_REFUSED, "\"%s\" is no name of a front-end", name);
    if (!is_sentence(token) || !is_sentence(program) || strlen(program) > 32)
        return fail(CATCHMENT_REFUSED, "a token of more than 1,024 bytes, or a program of 32");
    if (buffer < BUFFER_BYTES_MIN || buffer > BUFFER_BYTES_MAX)
        return fail(CATCHMENT_REFUSED, "a buffer is 64 KiB to 2^40 bytes");
    if (options->skew > SKEW_BYTES_MAX)
        return fail(CATCHMENT_REFUSED, "skew is at most 1 GiB, got %llu bytes",
                    (unsigned long long)options->skew);
    copy_text(core->name, sizeof core->name, name, strlen(name));
    memcpy(core->name + strlen(name), copy, strlen(copy));
    snprintf(core->program, sizeof core->program, "%s", program);
    snprintf(core->token, sizeof core->token, "%s", token);
    core->release = (uint8_t)(options->release ? options->release : CATCHMENT_KEPT_UNTIL_DURABLE);
    core->stops_in_pause = options->stops_in_pause != 0;
    core->service = options->channels ? CHANNELS : EVENTS;
    core->buffer_ms = options->buffer_ms;
    core->log_count = count;
    core->link_count = (uint32_t)min64(count, LINKS_MAX);
    core->report_credit = 1000;
    core->logs = calloc(count, sizeof *core->logs);
    if (!core->logs) return fail(CATCHMENT_REFUSED, "no memory for %u sources", (unsigned)count);
    for (uint32_t i = 0; i < count; i++) {
        struct log *log = &core->logs[i];
        log->number = i;
        log->link = i % core->link_count;
        core->links[log->link].log_count++;
        for (uint32_t j = 0; j < i; j++)
            if (!strcmp(sources[i].name ? sources[i].name : "", core->logs[j].name))
                return fail(CATCHMENT_REFUSED, "two sources are named \"%s\"", core->logs[j].name);
        int made = log_make(log, &sources[i], buffer / count, options->channels != 0);
        if (made != CATCHMENT_ACCEPTED) return made;
        core->buffer_bytes += log->ring_bytes;
        if (log->ring_bytes < 2 * log->fragment_bytes_max) {
            const struct catchment_report short_ring = {
                .kind = CATCHMENT_REPORT_ALARM, .type = CATCHMENT_TEXT, .is_raised = 1,
                .source = (int)i, .name = "buffer_short",
                .text = "the ring has less than twice the bytes of the longest fragment"};
            (void)core_take_report(core, &short_ring);
        }
    }
    if (count > LINKS_MAX) core->skew_wanted = options->skew ? options->skew : MIB;
    for (uint32_t i = 0; i < core->link_count; i++)
        if (!(core->links[i].head = malloc(DATA_HEAD_BYTES + 64)))
            return fail(CATCHMENT_REFUSED, "no memory for connections");
    return CATCHMENT_ACCEPTED;
}

/* --- Sockets, and the service thread. --------------------------------------------------------- */

struct socket {
    int fd;    /* -1: none */
    void *tls; /* NULL: in the clear, or not begun */
    int is_connecting, is_shaking, is_blocked;
};

struct catchment {
    struct core core;
    char host[256], port[8];
    struct addrinfo *addresses, *address; /* of the attempt under way, and the next one to try */
    uint64_t address_until;
    struct sockaddr_storage peer;
    socklen_t peer_bytes;
    uint32_t generation;
    struct socket control, links[LINKS_MAX];
    const struct catchment_tls *tls;
    void *trusted; /* NULL: in the clear */
    char why[CATCHMENT_WHY_BYTES]; /* what a socket, or TLS, said last; the service thread's */
    int wake[2]; /* a pipe: what is written to it ends the service thread's sleep */
    int is_sleeping, is_stopping, has_thread, has_tls, token_in_clear;
    unsigned waiters;
    struct catchment_calls calls;
    void *user;
    struct command calling; /* what the callback is called for */
#ifndef CATCHMENT_NO_THREADS
    pthread_mutex_t mutex;
    pthread_cond_t changed, called;
    pthread_t thread, calls_thread;
#endif
};

static uint64_t clock_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

#ifndef CATCHMENT_NO_THREADS
static void lock(catchment *c) { pthread_mutex_lock(&c->mutex); }

static void unlock(catchment *c) { pthread_mutex_unlock(&c->mutex); }
#else
static void lock(catchment *c) { (void)c; }

static void unlock(catchment *c) { (void)c; }
#endif

/* Tells waiting callers of a change. */
static void tell(catchment *c) {
    c->core.is_changed = 0;
#ifndef CATCHMENT_NO_THREADS
    if (c->waiters) pthread_cond_broadcast(&c->changed);
#endif
}

/* Wakes the thread that calls the front-end. */
static void call(catchment *c) {
#ifndef CATCHMENT_NO_THREADS
    pthread_cond_signal(&c->called);
#else
    (void)c;
#endif
}

/* Ends the service thread's sleep. The pipe is never full: one byte is written for each sleep. */
static void wake(catchment *c) {
    if (!c->is_sleeping) return;
    c->is_sleeping = 0;
    while (write(c->wake[1], "", 1) < 0 && errno == EINTR) {}
}

/* Wakes the service thread for an item of a log, if it can send it. */
static void wake_for(catchment *c, const struct log *log) {
    if (!c->links[log->link].is_blocked && c->core.links[log->link].is_open) wake(c);
}

static void socket_close(catchment *c, struct socket *socket) {
    if (socket->tls) c->tls->close(socket->tls);
    if (socket->fd >= 0) close(socket->fd);
    memset(socket, 0, sizeof *socket);
    socket->fd = -1;
}

/* Keeps why the system refused something. */
static void note(catchment *c, int error) {
    snprintf(c->why, sizeof c->why, "%s", strerror(error));
}

/* Begins to connect to an address; 0 if that failed at once. */
static int socket_connect(catchment *c, struct socket *to, const struct sockaddr *address,
                          socklen_t bytes) {
    int one = 1;
    to->fd = socket(address->sa_family, SOCK_STREAM, 0);
    if (to->fd < 0) return note(c, errno), 0;
    fcntl(to->fd, F_SETFD, FD_CLOEXEC);
    fcntl(to->fd, F_SETFL, O_NONBLOCK);
    setsockopt(to->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
#ifdef SO_NOSIGPIPE
    setsockopt(to->fd, SOL_SOCKET, SO_NOSIGPIPE, &one, sizeof one);
#endif
    to->is_connecting = 1;
    if (connect(to->fd, address, bytes) == 0 || errno == EINPROGRESS || errno == EINTR) return 1;
    note(c, errno);
    socket_close(c, to);
    return 0;
}

/* Whether a connection that was begun is there, and its handshake is done: 1; 0: not yet; -1: it
 * failed. What a handshake computes takes milliseconds, and goes without the lock. */
static int socket_open(catchment *c, struct socket *socket) {
    int error = 0;
    socklen_t bytes = sizeof error;
    if (socket->is_connecting && getsockopt(socket->fd, SOL_SOCKET, SO_ERROR, &error, &bytes))
        error = errno;
    if (error) return note(c, error), -1;
    socket->is_connecting = 0;
    if (!c->trusted) return 1;
    socket->is_shaking = 1;
    if (!socket->tls) socket->tls = c->tls->open(c->trusted, socket->fd);
    if (!socket->tls) return note(c, ENOMEM), -1;
    unlock(c);
    int64_t result = c->tls->shake(socket->tls, c->why);
    lock(c);
    socket->is_blocked = result == CATCHMENT_TLS_WRITE;
    socket->is_shaking = result == CATCHMENT_TLS_WRITE || result == CATCHMENT_TLS_READ;
    return socket->is_shaking ? 0 : result > 0 ? 1 : -1;
}

static int is_loopback(const struct sockaddr_storage *address) {
    static const uint8_t SIX[16] = {[15] = 1}, MAPPED[12] = {[10] = 0xFF, [11] = 0xFF};
    if (address->ss_family == AF_INET) {
        const struct sockaddr_in *four = (const struct sockaddr_in *)address;
        return (ntohl(four->sin_addr.s_addr) >> 24) == 127;
    }
    const uint8_t *six = ((const struct sockaddr_in6 *)address)->sin6_addr.s6_addr;
    return !memcmp(six, SIX, 16) || (!memcmp(six, MAPPED, 12) && six[12] == 127);
}

/* Tries the next address of the recorder. `c->why` says why the one before failed. */
static void control_next(catchment *c, uint64_t now) {
    char text[600];
    socket_close(c, &c->control);
    while (c->address) {
        const struct addrinfo *address = c->address;
        c->address = address->ai_next;
        if (address->ai_addrlen > sizeof c->peer) continue;
        memcpy(&c->peer, address->ai_addr, address->ai_addrlen);
        c->peer_bytes = address->ai_addrlen;
        c->address_until = now + 1000 * MS;
        if (socket_connect(c, &c->control, address->ai_addr, address->ai_addrlen)) return;
    }
    snprintf(text, sizeof text, "cannot connect to %s, port %s: %s", c->host, c->port, c->why);
    core_break(&c->core, now, 0, text);
}

/* Begins to connect control. A name is looked up without the lock: that may take seconds. */
static void control_connect(catchment *c, uint64_t now) {
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *found = NULL;
    if (c->addresses) freeaddrinfo(c->addresses);
    c->addresses = c->address = NULL;
    unlock(c);
    int error = getaddrinfo(c->host, c->port, &hints, &found);
    lock(c);
    if (c->core.state != CONNECTING) {
        if (!error) freeaddrinfo(found);
    } else if (error) {
        char text[400];
        snprintf(text, sizeof text, "cannot find %s: %s", c->host, gai_strerror(error));
        core_break(&c->core, now, 0, text);
    } else {
        c->addresses = c->address = found;
        control_next(c, now);
    }
}

static void control_connected(catchment *c, uint64_t now) {
    int was_connecting = c->control.is_connecting, result = socket_open(c, &c->control);
    if (c->core.state != CONNECTING) return;
    if (was_connecting) c->address_until = now + 1000 * MS; /* and as long for a handshake */
    if (result < 0) control_next(c, now);
    if (result <= 0) return;
    if (*c->core.token && !c->trusted && !c->token_in_clear && !is_loopback(&c->peer)) {
        core_end(&c->core, "no token goes over a network in the clear, but by token_in_clear");
        return;
    }
    core_control_opened(&c->core);
}

/* Gives bytes to TLS, a record at a time: short pieces are sent together. */
static int64_t give_tls(catchment *c, const struct socket *to, struct iovec *parts, size_t count) {
    uint8_t record[RECORD_BYTES];
    int64_t taken, all = 0;
    for (;;) {
        while (count && !parts->iov_len) parts++, count--;
        if (!count) return all;
        const uint8_t *from = parts->iov_base;
        size_t bytes = min64(parts->iov_len, RECORD_BYTES);
        if (bytes < RECORD_BYTES && count > 1) {
            bytes = 0;
            for (size_t i = 0; i < count && bytes < RECORD_BYTES; i++) {
                size_t more = min64(parts[i].iov_len, RECORD_BYTES - bytes);
                memcpy(record + bytes, parts[i].iov_base, more);
                bytes += more;
            }
            from = record;
        }
        taken = c->tls->write(to->tls, from, bytes, c->why);
        if (taken <= 0) break;
        all += taken;
        for (size_t i = 0; i < count; i++) {
            size_t part = min64((uint64_t)taken, parts[i].iov_len);
            parts[i].iov_base = (uint8_t *)parts[i].iov_base + part;
            parts[i].iov_len -= part;
            taken -= (int64_t)part;
        }
    }
    int is_later = taken == CATCHMENT_TLS_WRITE || taken == CATCHMENT_TLS_READ;
    return is_later || all ? all : -1; /* a connection that broke says so again */
}

/* Gives bytes to a socket. Returns how many it took; 0: none now; -1: it is lost. */
static int64_t give(catchment *c, const struct socket *to, struct iovec *parts, size_t count) {
#ifdef MSG_NOSIGNAL
    const int flags = MSG_NOSIGNAL;
#else
    const int flags = 0;
#endif
    if (to->tls) return give_tls(c, to, parts, count);
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = count};
    ssize_t taken;
    do taken = sendmsg(to->fd, &message, flags);
    while (taken < 0 && errno == EINTR);
    if (taken >= 0) return taken;
    return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : (note(c, errno), -1);
}

/* Takes bytes of a socket. Returns how many there were; 0: the peer has closed it; -1: it is lost;
 * -2: none now. */
static int64_t take(catchment *c, struct socket *from, uint8_t *bytes, size_t room) {
    if (from->tls) {
        int64_t count = c->tls->read(from->tls, bytes, room, c->why);
        if (count == CATCHMENT_TLS_WRITE) from->is_blocked = 1;
        return count >= 0 ? count : count == CATCHMENT_TLS_BROKEN ? -1 : -2;
    }
    ssize_t count = recv(from->fd, bytes, room, 0);
    if (count >= 0) return count;
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return -2;
    return note(c, errno), -1;
}

static void control_lost(catchment *c, uint64_t now, int64_t count) {
    int is_early = c->core.state == OPENING && !c->core.has_preamble && !c->trusted;
    char text[400];
    if (!count) snprintf(c->why, sizeof c->why, "the recorder closed it");
    snprintf(text, sizeof text, "the connection to the recorder broke: %s%s", c->why,
             is_early ? "; a recorder with TLS is catchment://" : "");
    core_break(&c->core, now, 0, text);
}

/* Receives what there is on control. */
static void control_receive(catchment *c, uint64_t now) {
    uint8_t bytes[CONTROL_BYTES_MAX];
    uint32_t generation = c->core.generation;
    for (int i = 0; i < 16 && c->control.fd >= 0; i++) {
        int64_t count = take(c, &c->control, bytes, sizeof bytes);
        if (count == -2) return;
        if (count <= 0) {
            control_lost(c, now, count);
            return;
        }
        core_received(&c->core, now, bytes, (size_t)count);
        if (c->core.state < OPENING || c->core.state == ENDED || c->core.generation != generation)
            return;
    }
}

static void control_send(catchment *c, uint64_t now) {
    struct core *core = &c->core;
    while (core->out_sent < core->out_bytes && c->control.fd >= 0 && !c->control.is_blocked) {
        struct iovec part = {core->out + core->out_sent, core->out_bytes - core->out_sent};
        int64_t taken = give(c, &c->control, &part, 1);
        if (taken < 0) { /* what it said last may be there, and tells more */
            enum state before = core->state;
            control_receive(c, now);
            if (core->state == before) control_lost(c, now, -1);
            return;
        }
        c->control.is_blocked = taken == 0;
        if (taken) core_control_sent(core, (size_t)taken);
        if (core->state == OPENING) core_describe(core);
    }
}

static void link_lost(catchment *c, uint32_t number, uint64_t now, const char *what) {
    char text[400];
    snprintf(text, sizeof text, "%s: %s", what, c->why);
    socket_close(c, &c->links[number]);
    c->core.links[number].is_open = 0;
    core_link_closed(&c->core, now, text);
}

/* Sends on a data connection until its socket is full, nothing is left (returns 0), or it is time
 * to look at control (1). Bytes of the rings go to the socket without the lock. */
static int link_send(catchment *c, uint32_t number, uint64_t now) {
    struct link *link = &c->core.links[number];
    struct socket *to = &c->links[number];
    for (uint64_t bytes = 0; bytes < ROUND_BYTES;) {
        struct iovec parts[3];
        size_t count = 0;
        if (to->is_blocked || c->core.state != OPEN || !link->is_open) return 0;
        if (!link_next(&c->core, link, now)) return 0;
        for (int i = 0; i < 3; i++)
            if (link->left[i].bytes)
                parts[count++] = (struct iovec){.iov_base = (void *)(uintptr_t)link->left[i].at,
                                                .iov_len = link->left[i].bytes};
        unlock(c);
        int64_t taken = give(c, to, parts, count);
        lock(c);
        if (taken < 0) {
            link_lost(c, number, now, "a data connection broke");
            return 0;
        }
        to->is_blocked = taken == 0;
        link_sent(link, (size_t)taken);
        bytes += (uint64_t)taken;
    }
    return 1;
}

/* Closes what is left of connections that broke, and opens those that the core wants. */
static void service_connections(catchment *c, uint64_t now) {
    struct core *core = &c->core;
    int is_wanted = core->state != WAITING && core->state != ENDED;
    if (!is_wanted || c->generation != core->generation) {
        /* The last words of a side that closes. What does not go at once is lost with it. */
        if (c->control.fd >= 0 && !c->control.is_connecting && core->out_sent < core->out_bytes) {
            struct iovec part = {core->out + core->out_sent, core->out_bytes - core->out_sent};
            (void)give(c, &c->control, &part, 1);
        }
        core->out_sent = core->out_bytes = 0;
        socket_close(c, &c->control);
        for (uint32_t i = 0; i < core->link_count; i++) socket_close(c, &c->links[i]);
        c->generation = core->generation;
    }
    if (core->state == CONNECTING && c->control.fd < 0) control_connect(c, now);
    int is_under_way = c->control.is_connecting || c->control.is_shaking;
    if (core->state == CONNECTING && is_under_way && now >= c->address_until) {
        note(c, ETIMEDOUT);
        if (c->control.is_shaking) snprintf(c->why, sizeof c->why, "no answer in the handshake");
        control_next(c, now);
    }
    for (uint32_t i = 0; i < core->link_count && core->state == OPEN && !core->break_at; i++)
        if (c->links[i].fd < 0
            && !socket_connect(c, &c->links[i], (const struct sockaddr *)&c->peer, c->peer_bytes))
            link_lost(c, i, now, "no data connection");
}

/* Calls the front-end for a command. Meanwhile the recorder may give it up, and give another. */
static void service_command(catchment *c) {
    const struct command *command = &c->calling;
    char why[CATCHMENT_WHY_BYTES] = "";
    int result = CATCHMENT_AGREED, is_later = 0;
    if (c->core.command.state != COMMAND_CALL) return;
    c->core.command.state = COMMAND_LATER; /* catchment_answer may come before it returns */
    c->calling = c->core.command;
    if (command->kind == CATCHMENT_START) core_start(&c->core);
    unlock(c);
    if (command->kind == COMMAND_SET) {
        for (uint32_t i = 0; i < command->setting_count && result == CATCHMENT_AGREED; i++) {
            const struct setting *setting = &command->settings[i];
            if (strlen(setting->name) + 1 + strlen(setting->value) > TEXT_BYTES_MAX) {
                snprintf(why, sizeof why, "the value of %s is too long", setting->name);
                result = CATCHMENT_REFUSED;
            } else if (c->calls.set) {
                result = c->calls.set(c->user, setting->name, setting->value, why);
                is_later |= result == CATCHMENT_LATER; /* one answer for all of them */
                if (result == CATCHMENT_LATER) result = CATCHMENT_AGREED;
            }
        }
        if (is_later && result == CATCHMENT_AGREED) result = CATCHMENT_LATER;
    } else if (command->kind < CATCHMENT_PREPARE || command->kind > CATCHMENT_CANCEL) {
        snprintf(why, sizeof why, "no command has the kind %u", (unsigned)command->kind);
        result = CATCHMENT_REFUSED;
    } else if (c->calls.command) {
        result = c->calls.command(c->user, (int)command->kind, command->run_number, why);
    }
    lock(c);
    why[sizeof why - 1] = 0;
    if (result == CATCHMENT_LATER) return;
    if (c->core.command.number != command->number) {
        c->core.command.is_owed = 0;
        return;
    }
    if (c->core.command.state != COMMAND_LATER) return;
    core_answer(&c->core, result == CATCHMENT_AGREED ? NULL : *why ? why : "refused");
    tell(c);
}

/* What poll said of a data connection: it is there, it takes bytes again, or it is lost. */
static void link_polled(catchment *c, uint32_t number, int events, uint64_t now) {
    struct socket *socket = &c->links[number];
    uint8_t bytes[RECORD_BYTES];
    if (c->core.state != OPEN || socket->fd < 0 || !events) return;
    if (socket->is_connecting || socket->is_shaking) {
        int result = socket_open(c, socket);
        if (c->core.state != OPEN) return;
        if (result < 0) link_lost(c, number, now, "no data connection");
        else if (result) link_opened(&c->core.links[number], now);
        return;
    }
    if (events & POLLOUT) socket->is_blocked = 0;
    if (!(events & (POLLIN | POLLERR | POLLHUP))) return;
    /* A recorder says nothing here, and what it says means nothing. */
    int64_t count = take(c, socket, bytes, sizeof bytes);
    if (!count) snprintf(c->why, sizeof c->why, "it was closed");
    if (count == 0 || count == -1) link_lost(c, number, now, "a data connection broke");
}

/* One round: what is due, sent, waited for (at most wait_ms; -1: as long as nothing is due) and
 * received. Called with the lock, which it gives back meanwhile. */
static void service(catchment *c, int wait_ms) {
    struct core *core = &c->core;
    struct pollfd polled[LINKS_MAX + 2] = {{0}};
    uint64_t now = clock_ns();
    int is_busy = 0;
    if (!c->has_thread) service_command(c);
    uint64_t wake_at = core_work(core, now);
    service_connections(c, now);
    for (uint32_t i = 0; i < core->link_count; i++) is_busy |= link_send(c, i, now);
    control_send(c, now);
    if (core->is_changed) tell(c);
    if (core->break_at) wake_at = min64(wake_at, core->break_at);
    if (core->state == WAITING) wake_at = core->connect_at;
    /* Callers may have made more while another connection was being served. */
    for (uint32_t i = 0; i < core->link_count; i++) {
        uint64_t due_at = c->links[i].is_blocked ? NONE : link_due_at(core, &core->links[i], now);
        wake_at = min64(wake_at, due_at);
    }
    nfds_t count = 0;
    polled[count++] = (struct pollfd){c->wake[0], POLLIN, 0};
    int is_full = c->control.is_connecting || c->control.is_blocked
               || core->out_sent < core->out_bytes;
    polled[count++] = (struct pollfd){c->control.fd, (short)(POLLIN | (is_full ? POLLOUT : 0)), 0};
    for (uint32_t i = 0; i < core->link_count; i++) {
        const struct socket *one = &c->links[i];
        int is_waiting = one->is_connecting || one->is_blocked;
        polled[count++] = (struct pollfd){one->fd, (short)(POLLIN | (is_waiting ? POLLOUT : 0)), 0};
    }
    now = clock_ns();
    uint64_t sleep_ms = wake_at == NONE ? 1000 : wake_at > now ? (wake_at - now + MS - 1) / MS : 0;
    if (wait_ms >= 0) sleep_ms = min64(sleep_ms, (uint64_t)wait_ms);
    int is_called = core->command.state == COMMAND_CALL;
    if (is_called && c->has_thread) call(c);
    if (is_busy || (is_called && !c->has_thread) || c->is_stopping) sleep_ms = 0;
    c->is_sleeping = sleep_ms > 0;
    unlock(c);
    int found = poll(polled, count, (int)min64(sleep_ms, 1000));
    lock(c);
    c->is_sleeping = 0;
    if (found <= 0) return;
    now = clock_ns();
    if (polled[0].revents) {
        char bytes[64];
        while (read(c->wake[0], bytes, sizeof bytes) == sizeof bytes) {}
    }
    if (polled[1].revents && c->control.fd == polled[1].fd) {
        if (c->control.is_connecting || c->control.is_shaking) control_connected(c, now);
        else {
            if (polled[1].revents & POLLOUT) c->control.is_blocked = 0;
            if (polled[1].revents & ~POLLOUT) control_receive(c, now);
        }
    }
    for (uint32_t i = 0; i < core->link_count; i++)
        if (c->links[i].fd == polled[i + 2].fd) link_polled(c, i, polled[i + 2].revents, now);
    if (core->is_changed) tell(c);
}

#ifndef CATCHMENT_NO_THREADS
static void *service_thread(void *argument) {
    catchment *c = argument;
    lock(c);
    while (!c->is_stopping) service(c, -1);
    unlock(c);
    return NULL;
}

/* Calls the front-end, however long that takes: the session goes on meanwhile. */
static void *calls_thread(void *argument) {
    catchment *c = argument;
    lock(c);
    while (!c->is_stopping) {
        if (c->core.command.state == COMMAND_CALL) {
            service_command(c);
            wake(c);
        } else pthread_cond_wait(&c->called, &c->mutex);
    }
    unlock(c);
    return NULL;
}

/* Ends the threads that were started. */
static void threads_stop(catchment *c) {
    lock(c);
    c->is_stopping = 1;
    wake(c);
    call(c);
    unlock(c);
    pthread_join(c->calls_thread, NULL);
    if (c->has_thread) pthread_join(c->thread, NULL);
}

/* Starts the threads; signals are the program's. */
static int threads_start(catchment *c) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    c->has_thread = 1; /* before the threads look */
    int error = pthread_create(&c->calls_thread, NULL, calls_thread, c);
    if (error) c->has_thread = 0;
    else if ((error = pthread_create(&c->thread, NULL, service_thread, c))) {
        c->has_thread = 0;
        threads_stop(c);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error ? fail(CATCHMENT_REFUSED, "no thread: %s", strerror(error)) : CATCHMENT_ACCEPTED;
}
#endif

/* Waits for a change, at most until a deadline (NONE: without one). Called with the lock, which it
 * gives back meanwhile. Without a service thread it does that one's work. */
static void wait_for_change(catchment *c, uint64_t until) {
    uint64_t now = clock_ns();
#ifndef CATCHMENT_NO_THREADS
    if (c->has_thread) {
        uint64_t at = min64(until, now + 1000 * MS);
        struct timespec time = {(time_t)(at / 1000000000u), (long)(at % 1000000000u)};
        c->waiters++;
        pthread_cond_timedwait(&c->changed, &c->mutex, &time);
        c->waiters--;
        return;
    }
#endif
    service(c, (int)min64(until > now ? (until - now + MS - 1) / MS : 0, 50));
}

static uint64_t deadline(int wait_ms) {
    return wait_ms < 0 ? NONE : clock_ns() + (uint64_t)wait_ms * MS;
}

/* --- The public functions. -------------------------------------------------------------------- */

const char *catchment_error(void) { return last_error; }

/* Reads catchment://HOST[:PORT], or catchment+tcp:// in the clear. */
static int read_url(catchment *c, const char *url) {
    const char *clear = "catchment+tcp://", *host, *port = "7100";
    int is_clear = !strncmp(url, clear, strlen(clear));
    c->has_tls = !strncmp(url, "catchment://", 12);
    host = url + (is_clear ? strlen(clear) : c->has_tls ? 12 : strlen(url));
    int is_six = *host == '[';
    host += is_six;
    size_t bytes = strcspn(host, is_six ? "]" : ":");
    const char *rest = host + bytes + (is_six && host[bytes]);
    if (*rest == ':') port = rest + 1;
    if ((*rest && *rest != ':') || (is_six && !host[bytes]) || !bytes || bytes >= sizeof c->host
        || strcspn(host, "/@[") < bytes || strspn(port, "0123456789") != strlen(port)
        || strlen(port) < 1 || strlen(port) > 5 || atoi(port) > 65535)
        return fail(CATCHMENT_REFUSED, "%s is no address of a recorder: write "
                    "catchment://HOST[:PORT], or catchment+tcp:// in the clear", url);
    copy_text(c->host, sizeof c->host, host, bytes);
    copy_text(c->port, sizeof c->port, port, strlen(port));
    return CATCHMENT_ACCEPTED;
}

/* Reads what is trusted, if the address asks for TLS. */
static int read_certificate(catchment *c, const char *url,
                            const struct catchment_options *options) {
    c->tls = options->tls;
    if (!c->has_tls) return CATCHMENT_ACCEPTED;
    if (!c->tls)
        return fail(CATCHMENT_REFUSED, "%s asks for TLS, which is in catchment_tls.c: set `tls` to "
                    "&catchment_tls", url);
    if (!options->certificate)
        return fail(CATCHMENT_REFUSED, "%s asks for TLS: give the recorder's certificate, or its "
                    "authority's, to trust", url);
    c->trusted = c->tls->trust(options->certificate, c->host, c->why);
    return c->trusted ? CATCHMENT_ACCEPTED : fail(CATCHMENT_REFUSED, "%s", c->why);
}

/* A number that no other session has. */
static int draw_session(struct core *core) {
    int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
    ssize_t bytes = fd < 0 ? -1 : read(fd, &core->session, sizeof core->session);
    if (fd >= 0) close(fd);
    if (bytes != (ssize_t)sizeof core->session || !core->session)
        return fail(CATCHMENT_REFUSED, "no random number from /dev/urandom");
    core->random = core->session;
    return CATCHMENT_ACCEPTED;
}

static int make(catchment *c, const char *url, const char *name,
                const struct catchment_options *options) {
    c->wake[0] = c->wake[1] = c->control.fd = -1;
    for (uint32_t i = 0; i < LINKS_MAX; i++) c->links[i].fd = -1;
    c->calls = options->calls;
    c->user = options->user;
    c->token_in_clear = options->token_in_clear;
#ifndef CATCHMENT_NO_THREADS
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&c->mutex, NULL);
    pthread_cond_init(&c->changed, &attributes);
    pthread_cond_init(&c->called, NULL);
    pthread_condattr_destroy(&attributes);
#endif
    int result = read_url(c, url);
    if (result == CATCHMENT_ACCEPTED) result = read_certificate(c, url, options);
    if (result == CATCHMENT_ACCEPTED) result = core_make(&c->core, name, options);
    if (result == CATCHMENT_ACCEPTED) result = draw_session(&c->core);
    if (result != CATCHMENT_ACCEPTED) return result;
    c->core.polled_at = c->core.connect_at = c->core.credit_at = clock_ns();
    if (pipe(c->wake)) return fail(CATCHMENT_REFUSED, "no pipe: %s", strerror(errno));
    for (int i = 0; i < 2; i++) {
        fcntl(c->wake[i], F_SETFD, FD_CLOEXEC);
        fcntl(c->wake[i], F_SETFL, O_NONBLOCK);
    }
#ifndef CATCHMENT_NO_THREADS
    if (!options->no_thread) return threads_start(c);
#endif
    return CATCHMENT_ACCEPTED;
}

/* Stops the threads and frees all. */
static void destroy(catchment *c) {
#ifndef CATCHMENT_NO_THREADS
    if (c->has_thread) threads_stop(c);
    pthread_cond_destroy(&c->called);
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->mutex);
#endif
    socket_close(c, &c->control);
    for (uint32_t i = 0; i < LINKS_MAX; i++) socket_close(c, &c->links[i]);
    if (c->trusted) c->tls->distrust(c->trusted);
    for (int i = 0; i < 2; i++)
        if (c->wake[i] >= 0) close(c->wake[i]);
    if (c->addresses) freeaddrinfo(c->addresses);
    core_free(&c->core);
    free(c);
}

catchment *catchment_connect(const char *url, const char *name,
                             const struct catchment_options *options) {
    static const struct catchment_options DEFAULTS = {0};
    catchment *c = calloc(1, sizeof *c);
    if (!options) options = &DEFAULTS;
    if (!c) {
        fail(CATCHMENT_REFUSED, "no memory for a session");
        return NULL;
    }
    if (make(c, url, name, options) != CATCHMENT_ACCEPTED) {
        destroy(c);
        return NULL;
    }
    uint32_t wait_ms = options->connect_ms ? options->connect_ms : 10000;
    uint64_t until = clock_ns() + wait_ms * MS;
    lock(c);
    while (!c->core.was_open && c->core.state != ENDED && clock_ns() < until)
        wait_for_change(c, until);
    int is_open = c->core.was_open && c->core.state != ENDED;
    if (!is_open)
        fail(CATCHMENT_ENDED, "%s%s", c->core.state == ENDED ? "" : "not connected in time: ",
             *c->core.why ? c->core.why : "no answer");
    unlock(c);
    if (is_open) return c;
    destroy(c);
    return NULL;
}

int64_t catchment_close(catchment *c, int wait_ms) {
    uint64_t until = clock_ns() + (uint64_t)(wait_ms > 0 ? wait_ms : 0) * MS;
#ifndef CATCHMENT_NO_THREADS
    if (c->has_thread && pthread_equal(c->calls_thread, pthread_self()))
        return fail(CATCHMENT_REFUSED, "a callback cannot close the session that calls it");
#endif
    lock(c);
    while (!core_is_drained(&c->core) && c->core.state != ENDED && clock_ns() < until)
        wait_for_change(c, until);
    core_leave(&c->core, clock_ns());
    c->core.is_changed = 1;
    wake(c);
    while (c->core.state != ENDED) wait_for_change(c, NONE);
    uint64_t unconfirmed = core_unconfirmed(&c->core);
    if (unconfirmed)
        fail(CATCHMENT_ENDED, "%llu fragments are not confirmed: %s",
             (unsigned long long)unconfirmed, c->core.why);
    unlock(c);
    destroy(c);
    return (int64_t)unconfirmed;
}

/* Begins a call for a source, or for a channel link: nobody else is copying into its ring. Takes
 * the lock, and keeps it. */
static int enter(catchment *c, int source, int is_packets, struct log **log) {
    lock(c);
    for (;;) {
        int result = core_check(&c->core, source, log);
        if (result != CATCHMENT_ACCEPTED) return result;
        if ((*log)->is_packets != is_packets)
            return fail(CATCHMENT_REFUSED, is_packets ? "source %d is no channel link"
                                                      : "source %d takes packets alone", source);
        if ((*log)->reserved == RESERVED_NOT) return CATCHMENT_ACCEPTED;
        if ((*log)->reserved == RESERVED_BY_CALLER)
            return fail(CATCHMENT_REFUSED, "source %d has a place that was reserved", source);
        wait_for_change(c, NONE);
    }
}

/* Begins a call that needs room for a fragment. */
static int enter_reserve(catchment *c, int source, const uint64_t *key, uint64_t bytes, int wait_ms,
                         int is_packets, struct log **log) {
    uint64_t until = deadline(wait_ms), from = 0;
    int result = enter(c, source, is_packets, log);
    while (result == CATCHMENT_ACCEPTED) {
        result = core_reserve(&c->core, *log, key, bytes);
        if (result != CATCHMENT_FULL) break;
        uint64_t now = clock_ns();
        from = from ? from : now;
        if (wait_ms == 0 || now >= until) {
            (*log)->counts.full++;
            break;
        }
        wake_for(c, *log);
        wait_for_change(c, until);
        unlock(c);
        result = enter(c, source, is_packets, log);
    }
    if (from && *log) (*log)->counts.waited_ns += clock_ns() - from;
    return result;
}

/* Ends a call with its result. */
static int leave(catchment *c, int result) {
    unlock(c);
    return result;
}

/* Puts a fragment, or a packet, whose key is its sequence. */
static int put(catchment *c, int source, const struct catchment_fragment *fragment,
               const void *data, size_t bytes, int wait_ms) {
    struct log *log;
    const uint64_t *key = fragment ? &fragment->key : NULL;
    int result = enter_reserve(c, source, key, bytes, wait_ms, !fragment, &log);
    if (result != CATCHMENT_ACCEPTED) return leave(c, result);
    uint8_t *at = log->ring + log->reserved_at % log->ring_bytes;
    if (bytes > COPY_LOCKED_BYTES) {
        log->reserved = RESERVED_BY_LIBRARY;
        unlock(c);
        memcpy(at, data, bytes);
        lock(c);
        log->reserved = RESERVED_NOT;
        tell(c);
    } else if (bytes) {
        memcpy(at, data, bytes);
    }
    const struct catchment_fragment packet = {.key = log->made};
    result = core_commit(log, fragment ? fragment : &packet, bytes);
    wake_for(c, log);
    return leave(c, result);
}

int catchment_send(catchment *c, int source, uint64_t key, const void *data, size_t bytes) {
    struct catchment_fragment fragment = {.key = key};
    return put(c, source, &fragment, data, bytes, -1);
}

int catchment_try_send(catchment *c, int source, uint64_t key, const void *data, size_t bytes) {
    struct catchment_fragment fragment = {.key = key};
    return put(c, source, &fragment, data, bytes, 0);
}

int catchment_put(catchment *c, int source, const struct catchment_fragment *fragment,
                  const void *data, size_t bytes, int wait_ms) {
    return put(c, source, fragment, data, bytes, wait_ms);
}

int catchment_put_packet(catchment *c, int link, const void *packet, size_t bytes, int wait_ms) {
    const uint8_t *at = packet;
    int is_heartbeat = bytes > 5 && !memcmp(at, "CTLK", 4) && at[5] == 2;
    if (!bytes || is_heartbeat)
        return fail(CATCHMENT_REFUSED, "a heartbeat, of which the library has its own, or nothing");
    return put(c, link, NULL, packet, bytes, wait_ms);
}

void *catchment_reserve(catchment *c, int source, size_t bytes, int wait_ms) {
    struct log *log;
    void *at = NULL;
    if (enter_reserve(c, source, NULL, bytes, wait_ms, 0, &log) == CATCHMENT_ACCEPTED) {
        log->reserved = RESERVED_BY_CALLER;
        at = log->ring + log->reserved_at % log->ring_bytes;
    }
    unlock(c);
    return at;
}

int catchment_commit(catchment *c, int source, const struct catchment_fragment *fragment,
                     size_t bytes) {
    struct log *log;
    lock(c);
    int result = core_check(&c->core, source, &log);
    if (result != CATCHMENT_ACCEPTED) return leave(c, result);
    if (log->reserved != RESERVED_BY_CALLER || bytes > log->reserved_bytes)
        return leave(c, fail(CATCHMENT_REFUSED, "source %d: no place of %zu bytes was reserved",
                             source, bytes));
    if (fragment) result = core_commit(log, fragment, bytes);
    if (result == CATCHMENT_ACCEPTED) log->reserved = RESERVED_NOT;
    wake_for(c, log);
    return leave(c, result);
}

int catchment_abandon(catchment *c, int source, uint64_t count, uint64_t key, uint64_t key_last,
                      int reason) {
    struct log *log;
    int result = enter(c, source, 0, &log);
    if (result == CATCHMENT_ACCEPTED) result = core_abandon(log, count, key, key_last, reason);
    if (result == CATCHMENT_ACCEPTED) wake_for(c, log);
    return leave(c, result);
}

int catchment_low_water(catchment *c, int source, uint64_t key, int is_idle) {
    struct log *log;
    int result = enter(c, source, 0, &log);
    if (result == CATCHMENT_ACCEPTED) result = core_low_water(log, key, is_idle);
    if (result == CATCHMENT_ACCEPTED) wake_for(c, log);
    return leave(c, result);
}

int catchment_mark(catchment *c, int source, int kind, uint64_t key, const char *text) {
    struct log *log;
    int result = enter(c, source, 0, &log);
    if (result == CATCHMENT_ACCEPTED) result = core_mark(&c->core, log, kind, key, text);
    if (result == CATCHMENT_ACCEPTED) wake_for(c, log);
    return leave(c, result);
}

int catchment_report(catchment *c, const struct catchment_report *report) {
    lock(c);
    int result = core_take_report(&c->core, report);
    wake(c);
    return leave(c, result);
}

int catchment_status(catchment *c, const char *text) {
    const struct catchment_report report = {
        .kind = CATCHMENT_REPORT_STATUS, .type = CATCHMENT_TEXT, .source = -1, .name = "status",
        .text = text};
    return catchment_report(c, &report);
}

int catchment_answer(catchment *c, const char *refusal) {
    lock(c);
    if (c->core.command.is_owed) {
        c->core.command.is_owed = 0;
        return leave(c, fail(CATCHMENT_REFUSED, "the recorder gave this command up"));
    }
    if (c->core.command.state != COMMAND_LATER)
        return leave(c, fail(CATCHMENT_REFUSED, "no command waits for an answer"));
    core_answer(&c->core, refusal);
    wake(c);
    return leave(c, CATCHMENT_ACCEPTED);
}

int catchment_poll(catchment *c, int wait_ms) {
    lock(c);
    if (!c->has_thread && c->core.state != ENDED) service(c, wait_ms);
    int is_over = c->core.state == ENDED;
    return leave(c, is_over ? fail(CATCHMENT_ENDED, "%s", c->core.why) : CATCHMENT_ACCEPTED);
}

int catchment_counts(catchment *c, int source, struct catchment_counts *counts) {
    lock(c);
    if (source < 0 || (uint32_t)source >= c->core.log_count)
        return leave(c, fail(CATCHMENT_REFUSED, "no source %d", source));
    const struct log *log = &c->core.logs[source];
    *counts = log->counts;
    counts->made = log->made;
    counts->taken = log->taken;
    counts->durable = log->durable;
    counts->held_bytes = log->head_at - log->tail_at;
    return leave(c, CATCHMENT_ACCEPTED);
}
