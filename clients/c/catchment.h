/* Catchment's library for front-ends in C: delivers fragments of events, or packets of channels, to
 * a recorder over TCP, so that nothing is lost or recorded twice when the network or the recorder
 * fails. TLS is in a second file, catchment_tls.c, for programs that want it.
 *
 *     catchment *c = catchment_connect("catchment+tcp://daq1:7100", "camera", NULL);
 *     for (uint64_t key = 0; c && key < 1000; key++)
 *         if (catchment_send(c, 0, key, image, sizeof image) != CATCHMENT_ACCEPTED) break;
 *     return !c || catchment_close(c, 10000) != 0;
 *
 * A fragment is copied into the ring of its source and leaves it when the recorder has said that it
 * is durable. A service thread sends, keeps the session alive, and resumes it after a break.
 *
 * All functions may be called from any thread, but catchment_close, behind which the handle is
 * gone. Calls for one source take effect in some order; a place that catchment_reserve gave
 * belongs to one caller until catchment_commit. Memory is taken in catchment_connect alone, but for
 * what OpenSSL takes for a connection.
 *
 * With CATCHMENT_NO_THREADS defined there is no service thread, and the one thread of the program
 * calls catchment_poll at least each 200 ms. The protocol is docs/spec/session.md and
 * event-link.md. A recorder for the tests of a front-end is tests/recorder.py, which `make install`
 * installs (docs/guide/frontend.md).
 */
#ifndef CATCHMENT_H
#define CATCHMENT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __GNUC__
#define CATCHMENT_CHECKED __attribute__((warn_unused_result))
#else
#define CATCHMENT_CHECKED
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* One sender: a session, the rings of its sources, its connections and its thread. */
typedef struct catchment catchment;

/* What calls return. Behind each result but the first, catchment_error has the reason. */
enum {
    CATCHMENT_ACCEPTED = 0,
    CATCHMENT_FULL = -1,    /* no room now */
    CATCHMENT_ENDED = -2,   /* the session, or the source, is over: no later call succeeds */
    CATCHMENT_REFUSED = -3  /* this call is wrong: a key that does not rise, a fragment too long */
};

#define CATCHMENT_NO_KEY UINT64_MAX /* in the place of a key that is not known */

enum { CATCHMENT_REFERENCE = 1, CATCHMENT_MARKS = 2 };              /* flags of a source */
enum { CATCHMENT_NUMBER = 1, CATCHMENT_TIME = 2 };                  /* kinds of keys */
enum { CATCHMENT_REQUIRED = 1, CATCHMENT_OPTIONAL, CATCHMENT_SPARSE }; /* presence */
enum { CATCHMENT_BROKEN = 1, CATCHMENT_BIG_ENDIAN = 2 };            /* flags of a fragment */
enum { CATCHMENT_BUFFER = 1, CATCHMENT_HARDWARE, CATCHMENT_BUSY };  /* reasons to abandon */
enum { CATCHMENT_BEGIN = 1, CATCHMENT_END, CATCHMENT_NUMBERING = 4, CATCHMENT_SETTING }; /* marks */
enum { CATCHMENT_KEPT_UNTIL_DURABLE = 1, CATCHMENT_KEPT_UNTIL_TAKEN }; /* release */
enum {                                                              /* commands */
    CATCHMENT_PREPARE = 1,
    CATCHMENT_START,
    CATCHMENT_PAUSE,
    CATCHMENT_CONTINUE,
    CATCHMENT_STOP,
    CATCHMENT_CANCEL
};
enum { CATCHMENT_REPORT_COUNTER = 1, CATCHMENT_REPORT_SETTING, CATCHMENT_REPORT_ALARM,
       CATCHMENT_REPORT_STATUS };
enum { CATCHMENT_BOOL = 1, CATCHMENT_I64, CATCHMENT_U64, CATCHMENT_F64, CATCHMENT_TEXT };

/* A source of fragments. What is 0 has the value in brackets. */
struct catchment_source {
    const char *name;            /* unique in the sender; NULL: empty, where there is one source */
    uint64_t fragment_bytes_max; /* longest fragment (1 MiB, or half of its ring if that is less) */
    uint64_t buffer;             /* bytes of its ring (an equal part of the sender's buffer) */
    uint64_t groups;             /* bit i: takes part in events of group i (in all events) */
    uint32_t flags;              /* CATCHMENT_REFERENCE, CATCHMENT_MARKS */
    uint8_t key_kind;            /* (CATCHMENT_NUMBER) */
    uint8_t key_bits;            /* 16 to 48: keys wrap at that width; (64: whole, below 2^62) */
    uint8_t presence;            /* (as the recorder's configuration says) */
    uint8_t dtype;               /* number of a dtype of frame-file.md, section 4 (not known) */
};

/* What stands beside the bytes of a fragment. */
struct catchment_fragment {
    uint64_t key;
    uint64_t groups; /* of a reference source: the groups that took part in the event */
    uint8_t tag;     /* a trigger's type, common to all of the event that have one; 0: none */
    uint8_t flags;   /* CATCHMENT_BROKEN, CATCHMENT_BIG_ENDIAN */
};

#define CATCHMENT_WHY_BYTES 256
enum { CATCHMENT_AGREED = 0, CATCHMENT_LATER = 1 };

/* Callbacks. Each is optional, and runs on a thread of its own: it may take as long as it needs,
 * and call all functions but catchment_close. Without threads it runs in catchment_poll, may not
 * wait, and nothing is sent meanwhile: one that needs more than a second returns CATCHMENT_LATER.
 * A callback returns CATCHMENT_AGREED, or CATCHMENT_LATER if catchment_answer will be called, or
 * another number to refuse, with a sentence in `why`, of CATCHMENT_WHY_BYTES. `set` is called for
 * each setting of a command in turn, until one is refused, which refuses the command; one answer is
 * for all that come later. */
struct catchment_calls {
    int (*command)(void *user, int kind, uint64_t run_number, char *why);
    int (*set)(void *user, const char *name, const char *value, char *why);
};

/* TLS for addresses catchment://: `catchment_tls` is that of catchment_tls.c, with OpenSSL. No
 * function waits. `shake`, `read` and `write` return how many bytes went (a handshake that is done:
 * 1), 0 where the peer has closed, or a number of the enumeration; `why` has CATCHMENT_WHY_BYTES.
 * A call of `write` that returned CATCHMENT_TLS_WRITE is made again with the same bytes, or more
 * behind them. */
enum { CATCHMENT_TLS_READ = -1, CATCHMENT_TLS_WRITE = -2, CATCHMENT_TLS_BROKEN = -3 };

struct catchment_tls {
    void *(*trust)(const char *certificate, const char *host, char *why); /* NULL: see `why` */
    void (*distrust)(void *trusted);
    void *(*open)(const void *trusted, int fd); /* NULL: no memory */
    int64_t (*shake)(void *tls, char *why);
    int64_t (*read)(void *tls, void *bytes, size_t room, char *why);
    int64_t (*write)(void *tls, const void *bytes, size_t count, char *why);
    void (*close)(void *tls); /* says so to the peer, and leaves the descriptor open */
};

extern const struct catchment_tls catchment_tls;

/* What is 0 has the value in brackets. */
struct catchment_options {
    const struct catchment_source *sources; /* (one source, without a name, that marks) */
    uint32_t source_count;
    uint32_t connect_ms;  /* longest time in catchment_connect (10,000) */
    uint64_t buffer;      /* bytes of all rings together (64 MiB) */
    uint64_t skew;        /* for more than 16 sources: bytes by which their keys may be out of order
                             on a connection, at most 1 GiB (1 MiB) */
    uint32_t buffer_ms;   /* how long the buffer lasts at the highest rate (not known) */
    int release;          /* (CATCHMENT_KEPT_UNTIL_DURABLE) */
    int index;            /* n of the n-th copy of a front-end: "-n" is appended to the name */
    int channels;         /* not 0: `sources` are channel links, 16 at most, named as the recorder's
                             configuration names them; catchment_put_packet alone delivers */
    int no_thread;        /* not 0: catchment_poll is called instead; all calls are of one thread */
    int stops_in_pause;   /* not 0: nothing is sent while the run is paused */
    int token_in_clear;   /* not 0: send the token over a network without TLS */
    const char *token;    /* (none) */
    const struct catchment_tls *tls; /* &catchment_tls, for addresses catchment:// (none) */
    const char *certificate; /* with it, the file (PEM) of the certificate to trust: the recorder's
                                own, RUNS/.catchment/tls/certificate.pem, or its authority's */
    const char *program;  /* name and version, for display (none) */
    struct catchment_calls calls;
    void *user;           /* passed to the callbacks */
};

/* What a source has done. made = durable (or taken) + held + held_at_run_end. */
struct catchment_counts {
    uint64_t made, taken, durable; /* items: fragments, marks, and each one that was abandoned */
    uint64_t held_bytes;
    uint64_t sent_again;      /* items, after breaks */
    uint64_t abandoned[4];    /* by reason; [0]: others */
    uint64_t full;            /* answers CATCHMENT_FULL */
    uint64_t waited_ns;       /* for room */
    uint64_t key_refused;
    uint64_t held_at_run_end; /* items given up because their run ended without them */
    uint64_t resumes;         /* of the session */
};

/* A report for the recorder's page. `value`, `min` and `max` have the bits of their type. */
struct catchment_report {
    int kind, type;
    int is_raised, is_writable; /* of an alarm; of a setting */
    int source;                 /* -1: the sender */
    uint64_t value, min, max;   /* min and max: of a setting, equal if it has no bounds */
    const char *name, *unit;
    const char *text;           /* of type CATCHMENT_TEXT, or the sentence of an alarm */
};

/* Opens a session, and waits until the recorder has admitted it. `url` is catchment://HOST[:PORT],
 * with TLS, or catchment+tcp://HOST[:PORT], in the clear; HOST is a name, an IPv4 address or an
 * IPv6 address in brackets.
 * Returns NULL if that does not succeed within connect_ms (and the time that a look-up of the name
 * under way still takes), or at once if the session or a source is refused for good. */
catchment *catchment_connect(const char *url, const char *name,
                             const struct catchment_options *options) CATCHMENT_CHECKED;

/* Waits until all is durable, at most wait_ms (and 0.3 s for the farewell), ends the session, waits
 * until a callback that runs has returned, however long that takes, and frees the handle. Returns
 * how many fragments of the whole session are not confirmed. CATCHMENT_REFUSED: it was called by a
 * callback, and did nothing. */
int64_t catchment_close(catchment *c, int wait_ms) CATCHMENT_CHECKED;

/* Copies a fragment into the ring of its source. catchment_send waits for room without a limit;
 * catchment_try_send does not wait; catchment_put waits for wait_ms (below 0: without a limit). */
int catchment_send(catchment *c, int source, uint64_t key, const void *data,
                   size_t bytes) CATCHMENT_CHECKED;
int catchment_try_send(catchment *c, int source, uint64_t key, const void *data,
                       size_t bytes) CATCHMENT_CHECKED;
int catchment_put(catchment *c, int source, const struct catchment_fragment *fragment,
                  const void *data, size_t bytes, int wait_ms) CATCHMENT_CHECKED;

/* Copies a packet of samples, as docs/spec/link.md has it, into the ring of a channel link; it
 * waits as catchment_put does. The library makes heartbeats itself. */
int catchment_put_packet(catchment *c, int link, const void *packet, size_t bytes,
                         int wait_ms) CATCHMENT_CHECKED;

/* A place in the ring for a fragment of at most so many bytes, aligned to 8 bytes, to be filled by
 * the caller. NULL: none, and catchment_error has the reason. Then catchment_commit with the bytes
 * that were filled; without a fragment (NULL) the place is given back. */
void *catchment_reserve(catchment *c, int source, size_t bytes, int wait_ms) CATCHMENT_CHECKED;
int catchment_commit(catchment *c, int source, const struct catchment_fragment *fragment,
                     size_t bytes) CATCHMENT_CHECKED;

/* Says that `count` fragments were made and never entered the ring, the lowest and highest of their
 * keys, or CATCHMENT_NO_KEY twice. It needs no room, and does not wait: ranges of one reason are
 * joined. CATCHMENT_FULL: dozens of ranges with other reasons between them are unconfirmed. */
int catchment_abandon(catchment *c, int source, uint64_t count, uint64_t key, uint64_t key_last,
                      int reason) CATCHMENT_CHECKED;

/* Says that no fragment below `key` will follow, so that events need not wait for this source; with
 * `is_idle` also that it may be silent for long, until its next fragment. CATCHMENT_NO_KEY: that
 * alone. Later fragments below `key` are refused. */
int catchment_low_water(catchment *c, int source, uint64_t key, int is_idle) CATCHMENT_CHECKED;

/* A mark behind the last fragment. CATCHMENT_NUMBERING: keys begin again, at `key`.
 * CATCHMENT_SETTING: `text` is "name=value". CATCHMENT_BEGIN, CATCHMENT_END: first and last key
 * of the run; the library inserts these itself for a source with CATCHMENT_MARKS. */
int catchment_mark(catchment *c, int source, int kind, uint64_t key,
                   const char *text) CATCHMENT_CHECKED;

/* Shown by the recorder. A report replaces an unsent one of its kind and name; alarms wait, at
 * most 64. catchment_status is one line of text about the whole front-end. */
int catchment_report(catchment *c, const struct catchment_report *report);
int catchment_status(catchment *c, const char *text);

/* The answer to a command of which the callback returned CATCHMENT_LATER. NULL: agreed. It is
 * refused if the recorder gave the command up meanwhile, and gave another one. */
int catchment_answer(catchment *c, const char *refusal);

/* Where there is no service thread: sends and receives what can be, and waits at most wait_ms for
 * more. Returns CATCHMENT_ACCEPTED, or CATCHMENT_ENDED. */
int catchment_poll(catchment *c, int wait_ms);

int catchment_counts(catchment *c, int source, struct catchment_counts *counts);

/* Why the last call of this thread that failed did so. The text changes with the next one. */
const char *catchment_error(void);

#ifdef __cplusplus
}
#endif

#endif
