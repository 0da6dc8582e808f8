/* A runtime over host memory that stands for libamdhip64 in the tests: what its files share.
 *
 * Work is queued and done when somebody waits for it, so that what is missing a wait is seen. Every call is
 * written down, and each can be told to fail. A kernel is the same source compiled for the host.
 */
#ifndef STUB_H
#define STUB_H

#include <stddef.h>
#include <stdint.h>

enum {
    SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NO_DEVICE = 100, INVALID_DEVICE = 101,
    INVALID_IMAGE = 200, NO_BINARY = 209, INVALID_HANDLE = 400, NOT_FOUND = 500, NOT_READY = 600,
    ILLEGAL_ADDRESS = 700, CAPTURE_UNSUPPORTED = 900, CAPTURE_UNMATCHED = 903
};
enum { MOST_DEVICES = 8, MOST_VALUES = 32, MODE_RELAXED = 2 };

struct stream;
struct event {
    struct stream *stream;
    uint64_t number; /* of its recording in the order of all that was queued */
    int64_t time_ns;
    int is_done;
};

enum kind { KERNEL, FILL, COPY, CALL, RECORD, WAIT };
struct item {
    enum kind kind;
    uint64_t number;
    void *to;
    const void *from;
    size_t bytes;
    struct event *event;
    struct function *function;
    int32_t grid[3];
    int64_t dynamic_bytes;
    uint64_t values[MOST_VALUES];
};

struct stream {
    int device, is_blocking, is_capturing, mode;
    struct item *items;
    size_t first, count, room;
    struct stream *next;
};

/* The state of all, under one lock that every entry point holds. */
extern int stub_devices, stub_lost[MOST_DEVICES];
extern _Thread_local int stub_current, stub_mode;
extern char stub_directory[512];
enum live { ALLOCATIONS, STREAMS, EVENTS, GRAPHS, EXECUTABLES, MODULES, LIVES };
extern int stub_count[LIVES];

/* Write a call down; the code that it is to fail with, or 0. Locks until LEAVE. */
int stub_enter(const char *name, const char *format, ...);
int stub_leave(int code);
#define ENTER(...)                                   \
    do {                                             \
        const int told = stub_enter(__VA_ARGS__);    \
        if (told) return stub_leave(told);           \
    } while (0)
#define LEAVE(code) return stub_leave(code)

long stub_figure(int number, long otherwise); /* of the file `figures` */
int stub_find(uint64_t address, uint64_t *base, uint64_t *bytes, int *device); /* an allocation */
struct stream *stub_stream(void *handle);     /* of the current device; NULL for another's, or one that is gone */
int stub_queue(void *handle, struct item item); /* on a stream, or into what it captures */
int stub_drain_all(int device);
int stub_drain(struct stream *stream, uint64_t until);
int stub_is_forbidden(void); /* a capture elsewhere forbids what this thread is about to do */
int stub_run(const struct item *item);

#endif
