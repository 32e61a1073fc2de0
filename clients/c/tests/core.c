/* The core of the C client without sockets: it writes the golden messages of the specification,
 * reads those of a recorder, and refuses malformed ones. `core GOLDEN` takes the folder
 * crates/format/wire/tests/golden; it prints what differs.
 */
#define _POSIX_C_SOURCE 200809L

#include <stdlib.h>
#include <string.h>

#include "core.h"

/* --- The golden files. ------------------------------------------------------------------------ */

struct bytes {
    size_t count;
    uint8_t at[65536];
};

static FILE *open_golden(const char *folder, const char *name) {
    char path[1024];
    snprintf(path, sizeof path, "%s/%s.hex", folder, name);
    FILE *file = fopen(path, "r");
    if (!file) {
        printf("no file %s\n", path);
        exit(1);
    }
    return file;
}

static void add_hex(struct bytes *bytes, const char *line) {
    unsigned value;
    for (; sscanf(line, "%2x", &value) == 1 && bytes->count < sizeof bytes->at; line += 2)
        bytes->at[bytes->count++] = (uint8_t)value;
}

/* The bytes of the n-th section "## WHO" of a file: all, or its message `only`, a preamble
 * included. */
static struct bytes golden(const char *folder, const char *name, const char *who, int nth,
                           int only) {
    static struct bytes bytes;
    char line[512];
    int is_here = 0, message = -1;
    FILE *file = open_golden(folder, name);
    bytes.count = 0;
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        if (!strncmp(line, "## ", 3)) is_here = !strcmp(line + 3, who) && nth-- == 0;
        else if (line[0] == '#') message += is_here;
        else if (is_here && (only < 0 || message == only)) add_hex(&bytes, line);
    }
    fclose(file);
    CHECK(bytes.count);
    return bytes;
}

static void check_same(const char *what, const uint8_t *got, size_t got_bytes,
                       struct bytes wanted) {
    size_t at = 0;
    while (at < got_bytes && at < wanted.count && got[at] == wanted.at[at]) at++;
    if (at == got_bytes && at == wanted.count) return;
    printf("%s: %zu bytes, expected %zu; they differ at %zu: %02x, expected %02x\n", what,
           got_bytes, wanted.count, at, at < got_bytes ? got[at] : 0u,
           at < wanted.count ? wanted.at[at] : 0u);
    failures++;
}

/* --- A session that is the golden one's. ------------------------------------------------------ */

static struct core *made_core(const char *token, uint32_t count) {
    struct catchment_source sources[2] = {
        {.name = "", .fragment_bytes_max = 1 << 20, .flags = CATCHMENT_MARKS, .dtype = 2},
        {.name = "b", .fragment_bytes_max = 1 << 20, .flags = CATCHMENT_REFERENCE}};
    struct catchment_options options = {.sources = sources, .source_count = count, .token = token,
                                        .program = "example 1.0", .buffer_ms = 640};
    struct core *core = calloc(1, sizeof *core);
    if (!core || core_make(core, "camera", &options) != CATCHMENT_ACCEPTED) {
        printf("%s\n", last_error);
        exit(1);
    }
    core->session = 0x5EED000000000007;
    core->random = 1;
    return core;
}

static void put_fragment(struct core *core, int source, uint64_t key, const char *text, uint8_t tag,
                         uint8_t flags, uint64_t groups) {
    struct catchment_fragment fragment = {.key = key, .tag = tag, .flags = flags, .groups = groups};
    struct log *log = &core->logs[source];
    CHECK(core_reserve(core, log, &key, strlen(text)) == CATCHMENT_ACCEPTED);
    memcpy(log->ring + log->reserved_at % log->ring_bytes, text, strlen(text));
    CHECK(core_commit(log, &fragment, strlen(text)) == CATCHMENT_ACCEPTED);
}

/* Begins the log of a session that has been going on for a while. */
static void set_made(struct core *core, int source, uint64_t made) {
    struct log *log = &core->logs[source];
    log->made = log->taken = log->durable = log->sent = made;
}

/* Takes what a data connection would send, into `out`. */
static size_t transmit(struct core *core, uint32_t number, uint64_t now, uint8_t *out) {
    struct link *link = &core->links[number];
    size_t bytes = 0;
    while (link_next(core, link, now))
        for (int i = 0; i < 3; i++) {
            size_t part = link->left[i].bytes;
            if (part) memcpy(out + bytes, link->left[i].at, part);
            link_sent(link, part);
            bytes += part;
        }
    return bytes;
}

static void open_control(struct core *core, uint64_t now) {
    (void)core_work(core, now);
    CHECK(core->state == CONNECTING);
    core_control_opened(core);
}

/* --- What is written. ------------------------------------------------------------------------- */

static void hello_is_the_golden_one(const char *folder) {
    struct core *core = made_core("catchment_0123abcd", 1);
    open_control(core, 1);
    check_same("hello", core->out, core->out_bytes,
               golden(folder, "hello", "sender, control", 0, -1));
    struct bytes welcome = golden(folder, "hello", "recorder, control", 0, -1);
    /* Byte by byte, since a stream has no borders. */
    for (size_t i = 0; i < welcome.count; i++) {
        CHECK(core->state == OPENING);
        core_received(core, 2, welcome.at + i, 1);
    }
    CHECK(core->state == OPEN && core->run_number == 42 && core->run[0] == 0x10);
    CHECK(core->ticket[0] == 0xA0 && core->message_bytes_max == 131064);
    CHECK(core->ping_ns == 500 * MS && core->silence_ns == 2500 * MS && core->run_state == 2);
    CHECK(core->logs[0].granted_bytes == 1 << 20);
    drop_core(core);
}

static void fragments_are_the_golden_ones(const char *folder) {
    static uint8_t out[4096];
    struct core *core = made_core("", 1);
    core->message_bytes_max = 131064;
    core->logs[0].granted_bytes = 1 << 20;
    set_made(core, 0, 1000);
    put_fragment(core, 0, 17, "hello", 0, 0, 0);
    put_fragment(core, 0, 18, "", 0, 0, 0);
    put_fragment(core, 0, 20, "abcd", 2, CATCHMENT_BROKEN, 0);
    core->links[0].number = 7;
    core->ping_ns = NONE;
    size_t bytes = transmit(core, 0, 1, out);
    check_same("fragments", out, bytes, golden(folder, "fragments", "sender, data 0", 0, -1));
    drop_core(core);
}

/* A session's data connection of channels: its first packet is the golden one. What the library
 * makes where there is none is the third message, the second is a heartbeat, which nobody sends. */
static void packets_are_the_golden_ones(const char *folder) {
    enum { HEADS = HEADER_BYTES + 24 };
    static uint8_t out[4096];
    const struct catchment_source link = {.name = ""};
    const struct catchment_options options = {.sources = &link, .source_count = 1, .channels = 1};
    struct core *core = calloc(1, sizeof *core);
    if (!core || core_make(core, "magnets", &options) != CATCHMENT_ACCEPTED) exit(1);
    struct log *log = &core->logs[0];
    struct bytes packet = golden(folder, "channels", "sender, channels data 0", 0, 0);
    size_t bytes = get32(packet.at + 8);
    core->message_bytes_max = 131064;
    core->ping_ns = 500 * MS;
    log->granted_bytes = PACKET_BYTES_MAX;
    set_made(core, 0, 11);
    CHECK(core_reserve(core, log, NULL, bytes) == CATCHMENT_ACCEPTED);
    memcpy(log->ring + log->reserved_at % log->ring_bytes, packet.at + HEADS, bytes);
    const struct catchment_fragment at = {.key = log->made};
    CHECK(core_commit(log, &at, bytes) == CATCHMENT_ACCEPTED);
    core->links[0].number = 1;
    core->links[0].message_at = 1;
    size_t sent = transmit(core, 0, 1, out);
    check_same("samples", out, sent, packet);
    core->links[0].number = 3;
    sent = transmit(core, 0, 1 + core->ping_ns, out);
    check_same("no samples", out, sent,
               golden(folder, "channels", "sender, channels data 0", 0, 2));
    uint8_t record[128];
    encode_log(record, log);
    for (int i = 24; i < 64; i++) CHECK(record[i] == 0);
    drop_core(core);
}

/* The golden resume: a recorder that repairs, then one with a higher epoch, which goes on within
 * what is held; what is durable there is not sent again. */
static void a_resume_is_the_golden_one(const char *folder) {
    static uint8_t out[4096];
    struct core *core = made_core("", 1);
    struct log *log = &core->logs[0];
    log->granted_bytes = 1 << 20;
    for (int i = 0; i < 16; i++) core->held_run[i] = (uint8_t)(0x10 + i);
    memcpy(core->run, core->held_run, 16);
    memcpy(log->begun_run, core->held_run, 16);
    core->command.number = 2;
    core->stage = 3;
    core->stage_run = 42;
    log->begin = 0;
    set_made(core, 0, 1000);
    put_fragment(core, 0, 17, "hello", 0, 0, 0);
    put_fragment(core, 0, 18, "", 0, 0, 0);
    put_fragment(core, 0, 20, "abcd", 2, CATCHMENT_BROKEN, 0);
    put_fragment(core, 0, 21, "xyz", 0, 0, 0);
    struct bytes hello = golden(folder, "resume", "sender, control, first attempt", 0, -1);
    open_control(core, 1);
    check_same("resume: hello", core->out, core->out_bytes, hello);
    struct bytes later = golden(folder, "resume", "recorder, control", 0, -1);
    core_received(core, 2, later.at, later.count);
    CHECK(core->state == WAITING && core->connect_at == 2 + 200 * MS);
    CHECK(!strcmp(core->why, "the recorder said: later (7): repairing run 42"));
    CHECK(core_work(core, 2 + 199 * MS) == core->connect_at && core->state == WAITING);
    open_control(core, 2 + 200 * MS);
    check_same("resume: hello again", core->out, core->out_bytes, hello);
    core->out_bytes = 0;
    struct bytes welcome = golden(folder, "resume", "recorder, control", 1, -1);
    core_received(core, 300 * MS, welcome.at, welcome.count);
    CHECK(core->state == OPEN && core->epoch == 1 && log->taken == 1002 && log->durable == 1002);
    CHECK(log_first(log) == 1002);
    open_links(core, 300 * MS);
    size_t bytes = transmit(core, 0, 301 * MS, out);
    check_same("resume: data", out, bytes, golden(folder, "resume", "sender, data 0", 0, -1));
    (void)core_work(core, 800 * MS);
    check_same("resume: ping", core->out, core->out_bytes,
               golden(folder, "resume", "sender, control", 0, -1));
    struct bytes taken = golden(folder, "resume", "recorder, control", 2, -1);
    core_received(core, 801 * MS, taken.at, taken.count);
    CHECK(log->taken == 1004 && log->durable == 1002 && !core_is_drained(core));
    CHECK(core->links[0].received == core->links[0].written && core_unconfirmed(core) == 2);
    taken = golden(folder, "resume", "recorder, control, when the frame is on disk", 0, -1);
    /* What a recorder of an earlier epoch says of positions holds no more. */
    put32(taken.at + HEADER_BYTES + 16, 0);
    core_received(core, 802 * MS, taken.at, taken.count);
    CHECK(core->state == OPEN && log->durable == 1002 && core->epoch == 1);
    put32(taken.at + 12, 4);
    put32(taken.at + HEADER_BYTES + 16, 1);
    core_received(core, 802 * MS, taken.at, taken.count);
    CHECK(log->durable == 1004 && core_is_drained(core) && core_unconfirmed(core) == 0);
    CHECK(core->state == OPEN && log->counts.sent_again == 0);
    drop_core(core);
}

/* What is left of a link's message, compared with message `index` of the golden file of all
 * others. */
static void check_link(const char *folder, const char *what, struct link *link, int index) {
    static uint8_t out[16384];
    size_t bytes = 0;
    for (int i = 0; i < 3; i++) {
        if (link->left[i].bytes) memcpy(out + bytes, link->left[i].at, link->left[i].bytes);
        bytes += link->left[i].bytes;
        link->left[i].bytes = 0;
    }
    check_same(what, out, bytes, golden(folder, "others", "sender, data 0", 0, index));
}

/* Its order of messages is not one that a client chooses, so each is made by itself. */
static void data_messages_are_the_golden_ones(const char *folder) {
    struct core *core = made_core("", 2);
    struct link *link = &core->links[0];
    struct log *log = &core->logs[0], *other = &core->logs[1];
    struct catchment_fragment fragment = {.key = 7, .tag = 2, .flags = 2, .groups = 2};
    core->link_count = 1; /* both logs are on the first connection */
    core->skew_bytes = 1 << 20;
    link->log_count = 2;
    link->number = 2;
    core->message_bytes_max = 131064;
    log->granted_bytes = other->granted_bytes = 1 << 20;
    build_heartbeat(core, link, 1);
    check_link(folder, "heartbeat without records", link, 0);
    set_made(core, 0, 1012);
    set_made(core, 1, 12);
    CHECK(core_low_water(log, 40, 1) == CATCHMENT_ACCEPTED);
    CHECK(core_low_water(other, CATCHMENT_NO_KEY, 0) == CATCHMENT_ACCEPTED);
    build_heartbeat(core, link, 2);
    check_link(folder, "heartbeat", link, 1);
    log->has_floor = log->is_idle = log->has_low_water = 0;
    set_made(core, 0, 1002);
    log->flags = CATCHMENT_REFERENCE;
    put_fragment(core, 0, 5, "xy", 1, 0, 5);
    put_fragment(core, 0, 6, "", 1, 0, 1);
    build_items(core, link, log);
    check_link(folder, "fragments with groups", link, 2);
    CHECK(core_reserve(core, other, &fragment.key, 4100) == CATCHMENT_ACCEPTED);
    for (int i = 0; i < 4096; i++) other->ring[i] = (uint8_t)i;
    memcpy(other->ring + 4096, "last", 4);
    CHECK(core_commit(other, &fragment, 4100) == CATCHMENT_ACCEPTED);
    core->message_bytes_max = HEADER_BYTES + 56 + 4096;
    build_items(core, link, other);
    check_link(folder, "part", link, 3);
    core->message_bytes_max = 131064;
    build_part(core, link, other, log_entry(other, other->unsent));
    check_link(folder, "last part", link, 4);
    log->has_floor = 1;
    log->floor = 1;
    log->begin_run = log->end_run = 42;
    log->must_begin = 1;
    log_settle(core, log);
    CHECK(log->begin == 1004);
    build_items(core, link, log);
    check_link(folder, "begin", link, 5);
    log->made = 1006;
    log->floor = 31;
    log->must_end = 1;
    log_settle(core, log);
    build_items(core, link, log);
    check_link(folder, "end", link, 6);
    CHECK(core_abandon(log, 1, 31, 31, CATCHMENT_BUFFER) == CATCHMENT_ACCEPTED);
    CHECK(core_abandon(log, 2, 32, 33, CATCHMENT_BUFFER) == CATCHMENT_ACCEPTED);
    build_items(core, link, log);
    check_link(folder, "abandoned, two ranges joined", link, 7);
    CHECK(core_mark(core, log, CATCHMENT_NUMBERING, 0, NULL) == CATCHMENT_ACCEPTED);
    build_items(core, link, log);
    check_link(folder, "numbering", link, 8);
    CHECK(core_mark(core, log, CATCHMENT_SETTING, NONE, "gain=5") == CATCHMENT_ACCEPTED);
    build_items(core, link, log);
    check_link(folder, "setting", link, 9);
    drop_core(core);
}

static void check_control(const char *folder, const char *what, struct core *core, int index) {
    check_same(what, core->out, core->out_bytes,
               golden(folder, "others", "sender, control", 0, index));
    core->out_bytes = 0;
}

static void control_messages_are_the_golden_ones(const char *folder) {
    struct report rate = {.kind = 1, .type = 3, .value = 12345, .unit = "1/s", .name = "triggers"};
    struct report gain = {.kind = 2, .type = 3, .flags = 2, .log = UINT32_MAX, .value = 5, .min = 1,
                          .max = 9, .unit = "dB", .name = "gain"};
    struct catchment_report hot = {.kind = 3, .type = 5, .is_raised = 1, .name = "hot",
                                   .text = "61 \xC2\xB0" "C"};
    struct core *core = made_core("", 1);
    core->state = OPEN;
    core->out_number = 3;
    core->command.number = 3;
    encode_answer(core, REFUSED, "no trigger: hv is off");
    check_control(folder, "refusal", core, 0);
    core->command.number = 4;
    encode_answer(core, DONE, "");
    check_control(folder, "done", core, 1);
    uint8_t *record = message_begin(core->out, REPORT, core->out_number++, 8) + 8;
    encode_record(record, &rate);
    encode_record(record + 128, &gain);
    core->out_bytes = message_end(core->out, 128, 2, NULL, 0, 0);
    check_control(folder, "report of two records", core, 2);
    CHECK(core_take_report(core, &hot) == CATCHMENT_ACCEPTED);
    core_report(core, 1);
    check_control(folder, "alarm", core, 3);
    core->cookie = 1;
    core->logs[0].pinged_flags = 2; /* nothing has changed */
    encode_ping(core);
    check_control(folder, "ping", core, 4);
    core_bye(core, BYE_DONE, 3, "");
    check_control(folder, "bye", core, 5);
    drop_core(core);
}

/* --- What is read. ---------------------------------------------------------------------------- */

static void commands_and_positions_are_read(const char *folder) {
    struct core *core = made_core("", 1);
    struct bytes commands = golden(folder, "others", "recorder, control", 0, -1);
    struct command *command = &core->command;
    core->state = OPEN;
    core->has_preamble = 1;
    core->in_number = 4;
    core_received(core, 1, commands.at, HEADER_BYTES + get32(commands.at + 4));
    CHECK(command->number == 3 && command->state == COMMAND_CALL && command->kind == 2);
    CHECK(command->run_number == 42 && command->run[15] == 0x1F && command->setting_count == 0);
    size_t first = HEADER_BYTES + get32(commands.at + 4);
    core_received(core, 1, commands.at + first, commands.count - first);
    CHECK(command->number == 4 && command->kind == COMMAND_SET && command->setting_count == 2);
    CHECK(!strcmp(command->settings[0].name, "gain") && !strcmp(command->settings[0].value, "5"));
    CHECK(!strcmp(command->settings[1].name, "note") && !*command->settings[1].value);
    struct bytes positions = golden(folder, "others", "recorder, control", 1, -1);
    core->links[0].still_ns = 5;
    core_received(core, 1, positions.at, positions.count);
    CHECK(core->state == OPEN && core->epoch == 1 && core->links[0].still_ns == 0);
    /* Longer parts than version 1 has are read, and a type with bit 15 is skipped. */
    struct bytes later = golden(folder, "others",
                                "recorder, control, of a later minor version", 0, -1);
    struct message message;
    const char *fault = parse(later.at, later.count, 7, &message);
    CHECK(!strcmp(fault, "connection")); /* it is a sender's message */
    CHECK(message.record_bytes == 32 && get64(message.records + 8) == 1004);
    core->in_number = 8;
    core_received(core, 1, later.at + message.used, later.count - message.used);
    CHECK(core->state == OPEN && core->in_number == 9 && core->in_bytes == 0);
    drop_core(core);
}

/* What a recorder must not send is a fault by its name. What only a sender sends is one in any
 * case. */
static void check_malformed(const char *fault, const char *says, const struct bytes *bytes) {
    struct message message;
    struct core *core = made_core("", 1);
    core->session = 1;
    const char *got = parse(bytes->at, bytes->count, 0, &message);
    int is_ours = message.type && message.type->is_received;
    core->state = OPEN;
    if (!got && is_ours && message.used) {
        switch (message.type->number) {
        case WELCOME: got = on_welcome(core, 1, &message); break;
        case GRANTS: core->is_welcome = 1; got = on_grants(core, 1, &message); break;
        case POSITIONS: got = on_positions(core, &message); break;
        case COMMAND: got = on_command(core, &message); break;
        default: got = on_bye(core, 1, &message);
        }
    }
    int is_senders = message.type && !is_ours && got && !strcmp(got, "connection");
    if (!got || (strcmp(got, fault) && !is_senders)) {
        printf("%s: \"%s\", expected \"%s\"\n", says, got ? got : "no fault", fault);
        failures++;
    }
    /* It is a fault of the connection as well, and none of it is taken. */
    core->state = OPEN;
    core->has_preamble = 1;
    core_received(core, 1, bytes->at, bytes->count);
    CHECK(core->state == WAITING && core->faults == 1 && get16(core->out + 2) == BYE);
    drop_core(core);
}

static void malformed_messages_are_refused(const char *folder) {
    static struct bytes bytes;
    char line[512], fault[32] = "", says[256] = "";
    int cases = 0, is_last = 0;
    FILE *file = open_golden(folder, "malformed");
    while (!is_last) {
        is_last = !fgets(line, sizeof line, file);
        if (!is_last && line[0] != '#') {
            add_hex(&bytes, line);
            continue;
        }
        if (*fault) check_malformed(fault, says, &bytes);
        cases += *fault != 0;
        bytes.count = 0;
        fault[0] = 0;
        (void)sscanf(is_last ? "" : line, "# control, %31[^:]: %255[^\n]", fault, says);
    }
    fclose(file);
    CHECK(cases > 50);
}

/* Positions beyond what was sent are a fault, and free nothing. */
static void overstated_positions_free_nothing(void) {
    static uint8_t out[4096], positions[HEADER_BYTES + 152 + 24];
    struct core *core = made_core("", 1);
    core->state = OPEN;
    core->has_preamble = 1;
    core->message_bytes_max = 131064;
    core->ping_ns = core->silence_ns = NONE;
    core->logs[0].granted_bytes = 1 << 20;
    link_opened(&core->links[0], 1);
    put_fragment(core, 0, 1, "sent", 0, 0, 0);
    (void)transmit(core, 0, 1, out);
    put_fragment(core, 0, 2, "not sent", 0, 0, 0);
    uint8_t *fixed = message_begin(positions, POSITIONS, 0, 152);
    (void)message_end(positions, 24, 1, NULL, 0, 0);
    put64(fixed + 152 + 8, 2);
    put64(fixed + 152 + 16, 2);
    core_received(core, 1, positions, sizeof positions);
    CHECK(core->state == WAITING && strstr(core->why, "\"bound\""));
    CHECK(core_unconfirmed(core) == 2 && core->logs[0].taken == 0);
    drop_core(core);
}

/* --- Silence. --------------------------------------------------------------------------------- */

/* Passes time in steps of 100 ms until a session breaks; returns how long that took, in ms. */
static uint64_t until_break(struct core *core, uint64_t *now, int is_unread) {
    uint64_t from = *now;
    while (core->state == OPEN && *now < from + 20000 * MS) {
        static uint8_t positions[HEADER_BYTES + 152];
        *now += 100 * MS;
        (void)message_begin(positions, POSITIONS, core->in_number, 152);
        (void)message_end(positions, 0, 0, NULL, 0, 0);
        put16(positions + HEADER_BYTES + 20, is_unread ? 1 : 0);
        if (is_unread >= 0) core_received(core, *now, positions, sizeof positions);
        (void)core_work(core, *now);
        core->out_sent = core->out_bytes = 0;
    }
    return (*now - from) / MS;
}

static void open_session(struct core *core, uint64_t *now, const char *folder) {
    struct bytes welcome = golden(folder, "hello", "recorder, control", 0, -1);
    while (core->state != CONNECTING) (void)core_work(core, *now += 100 * MS);
    core_control_opened(core);
    core_received(core, *now, welcome.at, welcome.count);
    CHECK(core->state == OPEN);
}

/* A recorder that is silent, or does not read and does not say so, is left after 2.5 s; one that
 * holds is not. What was counted before a break counts for nothing behind it. */
static void silence_is_counted_for_each_connection_alone(const char *folder) {
    static uint8_t out[4096];
    struct core *core = made_core("", 1);
    uint64_t now = 1;
    for (int turn = 0; turn < 3; turn++) {
        open_session(core, &now, folder);
        open_links(core, now);
        CHECK(until_break(core, &now, -1) == 2500);
        CHECK(!strcmp(core->why, "the recorder is silent"));
        open_session(core, &now, folder);
        open_links(core, now);
        (void)transmit(core, 0, now, out);
        CHECK(until_break(core, &now, 1) == 20000); /* held */
        CHECK(until_break(core, &now, 0) == 2400); /* 100 ms went since it was last said */
        CHECK(!strcmp(core->why, "the recorder does not read a data connection"));
        open_session(core, &now, folder); /* and no data connection */
        CHECK(until_break(core, &now, 0) == 3000);
    }
    drop_core(core);
}

/* --- Addresses. ------------------------------------------------------------------------------- */

static void check_url(const char *url, const char *host, const char *port) {
    static catchment c;
    memset(&c, 0, sizeof c);
    int is_read = read_url(&c, url) == CATCHMENT_ACCEPTED;
    if (is_read == (host != NULL) && (!host || (!strcmp(c.host, host) && !strcmp(c.port, port))))
        return;
    printf("%s: host \"%s\", port \"%s\", %d\n", url, c.host, c.port, is_read);
    failures++;
}

static void addresses_are_read(void) {
    check_url("catchment+tcp://daq1", "daq1", "7100");
    check_url("catchment+tcp://daq1.example.org:71", "daq1.example.org", "71");
    check_url("catchment+tcp://10.0.0.1:65535", "10.0.0.1", "65535");
    check_url("catchment+tcp://[fe80::1%eth0]:71", "fe80::1%eth0", "71");
    check_url("catchment+tcp://[::1]", "::1", "7100");
    check_url("catchment://daq1", "daq1", "7100");
    check_url("catchment://[::1]:71", "::1", "71");
    static const char *const WRONG[] = {
        "https://daq1", "daq1:7100", "catchment+tcp://", "catchment://", "catchment+tcp://:7100",
        "catchment+tcp://[::1", "catchment+tcp://[::1]x", "catchment+tcp://daq1:",
        "catchment+tcp://daq1:port", "catchment+tcp://daq1:65536", "catchment+tcp://daq1/run",
        "catchment://me@daq1", "catchment+tcp://::1"};
    for (size_t i = 0; i < sizeof WRONG / sizeof WRONG[0]; i++) check_url(WRONG[i], NULL, NULL);
}

/* A token goes in the clear to these alone. */
static void loopback_is_known(void) {
    static const struct {
        const char *text;
        int is_loopback;
    } ADDRESSES[] = {{"127.0.0.1", 1}, {"127.9.9.9", 1}, {"128.0.0.1", 0}, {"10.0.0.127", 0},
                     {"::1", 1}, {"::ffff:127.0.0.1", 1}, {"::2", 0}, {"::ffff:10.0.0.1", 0}};
    for (size_t i = 0; i < sizeof ADDRESSES / sizeof ADDRESSES[0]; i++) {
        struct addrinfo hints = {.ai_flags = AI_NUMERICHOST}, *found = NULL;
        struct sockaddr_storage address = {0};
        CHECK(getaddrinfo(ADDRESSES[i].text, "1", &hints, &found) == 0);
        memcpy(&address, found->ai_addr, found->ai_addrlen);
        freeaddrinfo(found);
        CHECK(is_loopback(&address) == ADDRESSES[i].is_loopback);
    }
}

int main(int count, char **arguments) {
    if (count < 2) return 2;
    const char *folder = arguments[1];
    setvbuf(stdout, NULL, _IONBF, 0);
    hello_is_the_golden_one(folder);
    fragments_are_the_golden_ones(folder);
    packets_are_the_golden_ones(folder);
    a_resume_is_the_golden_one(folder);
    data_messages_are_the_golden_ones(folder);
    control_messages_are_the_golden_ones(folder);
    commands_and_positions_are_read(folder);
    malformed_messages_are_refused(folder);
    overstated_positions_free_nothing();
    silence_is_counted_for_each_connection_alone(folder);
    addresses_are_read();
    loopback_is_known();
    return failures != 0;
}
