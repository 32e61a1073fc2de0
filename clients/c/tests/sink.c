/* A recorder that discards what it reads and says at once that it is durable: what a client alone
 * can do. Reads headers, and passes over bodies. `sink PORT [HOLD_MS]`: positions each so many ms
 * (10). It serves one session, and ends with it.
 */
#define _POSIX_C_SOURCE 200809L

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { LINKS = 17, LOGS = 600, BUFFER = 1 << 18, MESSAGE_BYTES = 131064 };

static struct link {
    int fd, kind, index;
    size_t begin, end, skip; /* bytes of the buffer; bytes of a body that are still to come */
    uint64_t read;
    uint8_t buffer[BUFFER];
} links[LINKS];
static uint64_t expected[LOGS], session, message_bytes = MESSAGE_BYTES;
static uint32_t log_count, described, sent;

static uint64_t get(const uint8_t *at, int bytes) {
    uint64_t value = 0;
    for (int i = bytes; i-- > 0;) value = value << 8 | at[i];
    return value;
}

static void put(uint8_t *at, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++, value >>= 8) at[i] = (uint8_t)value;
}

static double now_s(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static struct link *control(void) {
    for (int i = 0; i < LINKS; i++)
        if (links[i].fd >= 0 && links[i].kind == 1) return &links[i];
    exit(1);
}

/* Sends a control message whose fixed part and records are behind its header in `out`. */
static void tell(uint8_t *out, unsigned type, size_t fixed, size_t record, size_t count) {
    size_t head = fixed + record * count;
    put(out, 0x4CC7, 2);
    put(out + 2, type, 2);
    put(out + 4, head, 4);
    put(out + 12, sent++, 4);
    put(out + 16, fixed, 2);
    put(out + 18, count ? record : 0, 2);
    put(out + 20, count, 4);
    if (send(control()->fd, out, 16 + head, MSG_NOSIGNAL) != (ssize_t)(16 + head)) exit(1);
}

static void positions(uint64_t cookie) {
    uint8_t out[16384] = {0};
    put(out + 24, cookie, 8);
    for (int i = 0; i < LINKS; i++)
        if (links[i].fd >= 0 && links[i].kind == 2)
            put(out + 40 + 8 * links[i].index, links[i].read, 8);
    for (uint32_t i = 0; i < log_count; i++) {
        put(out + 168 + 24 * i, i, 4);
        put(out + 176 + 24 * i, expected[i], 8);
        put(out + 184 + 24 * i, expected[i], 8);
    }
    tell(out, 5, 152, 24, log_count);
}

static void welcome(void) {
    uint8_t out[16384] = {0};
    put(out + 24, session, 8);
    out[32] = 1;
    put(out + 64, 0, 8);
    put(out + 64 + 8, 42, 8);
    put(out + 80, 2, 2);
    put(out + 104, 500, 4);
    put(out + 108, 2500, 4);
    put(out + 120, message_bytes, 4);
    put(out + 124, log_count, 4);
    tell(out, 2, 112, 0, 0);
    for (uint32_t at = 0; at < log_count;) {
        uint32_t count = log_count - at < 255 ? log_count - at : 255;
        memset(out, 0, sizeof out);
        for (uint32_t i = 0; i < count; i++) {
            put(out + 24 + 64 * i, at + i, 4);
            put(out + 28 + 64 * i, 1, 2);
            put(out + 56 + 64 * i, (uint64_t)1920 << 20, 8);
        }
        tell(out, 11, 8, 64, count);
        at += count;
    }
}

/* One message of which at least the head is there; the body is passed over. */
static void message(struct link *link, const uint8_t *at) {
    unsigned type = (unsigned)get(at + 2, 2);
    size_t count = get(at + 20, 4);
    if (type == 1) {
        session = get(at + 24, 8);
        log_count = (uint32_t)get(at + 76, 4);
    } else if (type == 10) {
        described += (uint32_t)count;
        if (described == log_count) welcome();
    } else if (type == 3) {
        link->index = (int)get(at + 48, 2);
    } else if (type == 4) {
        positions(get(at + 24, 8));
    } else if (type == 9) {
        uint8_t out[64] = {0};
        tell(out, 9, 24, 0, 0);
        exit(0);
    } else if (type == 32) {
        expected[get(at + 24, 4)] = get(at + 32, 8) + count;
    } else if (type == 33) {
        if (get(at + 56, 8) + get(at + 8, 4) == get(at + 64, 8))
            expected[get(at + 24, 4)] = get(at + 32, 8) + 1;
    } else if (type == 34) {
        expected[get(at + 24, 4)] = get(at + 32, 8) + get(at + 40, 8);
    }
}

static void take(struct link *link) {
    if (link->begin == link->end) link->begin = link->end = 0;
    if (link->begin > BUFFER / 2) {
        memmove(link->buffer, link->buffer + link->begin, link->end - link->begin);
        link->end -= link->begin;
        link->begin = 0;
    }
    ssize_t got = recv(link->fd, link->buffer + link->end, BUFFER - link->end, 0);
    if (got <= 0) {
        close(link->fd);
        link->fd = -1;
        return;
    }
    link->read += (uint64_t)got;
    link->end += (size_t)got;
    if (link->kind == 0 && link->end >= 16) {
        link->kind = link->buffer[13];
        link->begin = 16;
        uint8_t answer[16] = {0x89, 'C', 'T', 'S', 'L', '\r', '\n', 0x1A, 1, 1, 1, 1, 1, 1};
        if (link->kind == 1 && send(link->fd, answer, 16, MSG_NOSIGNAL) != 16) exit(1);
    }
    for (;;) {
        size_t here = link->end - link->begin, passed = link->skip < here ? link->skip : here;
        link->begin += passed;
        link->skip -= passed;
        here -= passed;
        if (link->skip || here < 24) return;
        const uint8_t *at = link->buffer + link->begin;
        size_t head = get(at + 4, 4), body = get(at + 8, 4);
        if (here < 16 + head) return;
        message(link, at);
        link->begin += 16 + head;
        link->skip = body + ((0 - body) & 7);
    }
}

int main(int count, char **arguments) {
    int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    struct sockaddr_in address = {.sin_family = AF_INET};
    double each = count > 2 ? atof(arguments[2]) / 1e3 : 0.01, told = 0;
    if (count > 3) message_bytes = strtoull(arguments[3], NULL, 10);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons((uint16_t)(count > 1 ? atoi(arguments[1]) : 7100));
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listener, (struct sockaddr *)&address, sizeof address)) return 1;
    if (listen(listener, 64)) return 1;
    for (int i = 0; i < LINKS; i++) links[i].fd = -1;
    for (;;) {
        struct pollfd polled[LINKS + 1] = {{listener, POLLIN, 0}};
        for (int i = 0; i < LINKS; i++) polled[i + 1] = (struct pollfd){links[i].fd, POLLIN, 0};
        if (poll(polled, LINKS + 1, 5) < 0 && errno != EINTR) return 1;
        for (int i = 0; i < LINKS; i++)
            if (links[i].fd >= 0 && polled[i + 1].revents) take(&links[i]);
        for (int i = 0; i < LINKS && polled[0].revents; i++)
            if (links[i].fd < 0) {
                links[i] = (struct link){.fd = accept(listener, NULL, NULL)};
                setsockopt(links[i].fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
                break;
            }
        if (described && described == log_count && now_s() >= told + each) {
            positions(0);
            told = now_s();
        }
    }
}
