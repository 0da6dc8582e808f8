/* Streams, events and graphs: what is queued, in which order, and when it is done. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "stub.h"

struct graph { struct item *items; size_t count; };

static struct stream defaults[MOST_DEVICES];
static struct stream *streams; /* those that were made */
static uint64_t number;
static double event_rate = 1.0;

void stub_event_rate(double rate) { event_rate = rate; }

struct stream *stub_stream(void *handle)
{
    if ((uint64_t)handle > 2) { /* 1 and 2 are names of default streams */
        struct stream *one = streams;
        while (one && one != handle) one = one->next;
        return one && one->device == stub_current ? one : NULL;
    }
    struct stream *own = &defaults[stub_current];
    own->device = stub_current;
    own->is_blocking = 1;
    return own;
}

static void append(struct stream *stream, struct item item)
{
    if (stream->count == stream->room) {
        stream->room = stream->room ? 2 * stream->room : 64;
        stream->items = realloc(stream->items, stream->room * sizeof item);
    }
    item.number = ++number;
    stream->items[stream->count++] = item;
}

int stub_queue(void *handle, struct item item)
{
    struct stream *stream = stub_stream(handle);
    if (!stream) return INVALID_HANDLE;
    if (stub_lost[stream->device]) return stub_lost[stream->device];
    append(stream, item);
    return SUCCESS;
}

int stub_is_forbidden(void)
{
    if (stub_mode == MODE_RELAXED) return 0;
    for (struct stream *one = streams; one; one = one->next)
        if (one->is_capturing && one->mode != MODE_RELAXED) return 1;
    return 0;
}

static int64_t now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000L + time.tv_nsec;
}

static void act(struct stream *stream, const struct item *item)
{
    switch (item->kind) {
    case FILL: memset(item->to, (int)item->values[0], item->bytes); break;
    case COPY: memmove(item->to, item->from, item->bytes); break;
    case CALL: ((void (*)(const void *))item->to)(item->from); break;
    case RECORD: item->event->time_ns = now_ns(); item->event->is_done = 1; break;
    case WAIT: if (item->event->stream) stub_drain(item->event->stream, item->event->number); break;
    case KERNEL: if (stub_run(item)) stub_lost[stream->device] = ILLEGAL_ADDRESS; break;
    }
}

/* Do what was queued before, and what that waits for. The default stream and those that block wait for
 * each other. */
int stub_drain(struct stream *stream, uint64_t until)
{
    if (stream->is_capturing) return CAPTURE_UNSUPPORTED;
    while (stream->first < stream->count && stream->items[stream->first].number <= until) {
        const struct item item = stream->items[stream->first++];
        struct stream *own = &defaults[stream->device];
        if (stream == own) {
            for (struct stream *one = streams; one; one = one->next)
                if (one->is_blocking && !one->is_capturing && one->device == own->device)
                    stub_drain(one, item.number);
        } else if (stream->is_blocking) {
            stub_drain(own, item.number);
        }
        if (!stub_lost[stream->device]) act(stream, &item);
    }
    if (stream->first == stream->count) stream->first = stream->count = 0;
    if (stream == &defaults[stream->device])
        for (struct stream *one = streams; one; one = one->next)
            if (one->is_blocking && !one->is_capturing && one->device == stream->device)
                stub_drain(one, until);
    return stub_lost[stream->device];
}

int stub_drain_all(int device)
{
    for (struct stream *one = streams; one; one = one->next)
        if (one->device == device && !one->is_capturing) stub_drain(one, UINT64_MAX);
    defaults[device].device = device;
    return stub_drain(&defaults[device], UINT64_MAX);
}

/* ---- streams ---- */
int hipStreamCreateWithFlags(void **handle, unsigned flags)
{
    ENTER("hipStreamCreateWithFlags", "%u", flags);
    struct stream *fresh = calloc(1, sizeof *fresh);
    fresh->device = stub_current;
    fresh->is_blocking = !(flags & 1);
    fresh->next = streams;
    streams = fresh;
    stub_count[STREAMS]++;
    *handle = fresh;
    LEAVE(SUCCESS);
}

int hipStreamDestroy(void *handle)
{
    ENTER("hipStreamDestroy", "");
    struct stream **place = &streams;
    while (*place && *place != handle) place = &(*place)->next;
    if (!*place) LEAVE(INVALID_HANDLE);
    struct stream *one = *place;
    stub_drain(one, UINT64_MAX);
    *place = one->next;
    free(one->items);
    free(one);
    stub_count[STREAMS]--;
    LEAVE(SUCCESS);
}

int hipStreamSynchronize(void *handle)
{
    ENTER("hipStreamSynchronize", "");
    struct stream *stream = stub_stream(handle);
    LEAVE(stream ? stub_drain(stream, UINT64_MAX) : INVALID_HANDLE);
}

int hipStreamWaitEvent(void *handle, struct event *event, unsigned flags)
{
    ENTER("hipStreamWaitEvent", "%u", flags);
    LEAVE(stub_queue(handle, (struct item){.kind = WAIT, .event = event}));
}

int hipLaunchHostFunc(void *handle, void *function, void *given)
{
    ENTER("hipLaunchHostFunc", "");
    LEAVE(stub_queue(handle, (struct item){.kind = CALL, .to = function, .from = given}));
}

/* ---- events ---- */
int hipEventCreateWithFlags(struct event **event, unsigned flags)
{
    ENTER("hipEventCreateWithFlags", "%u", flags);
    *event = calloc(1, sizeof **event);
    stub_count[EVENTS]++;
    LEAVE(SUCCESS);
}

int hipEventDestroy(struct event *event)
{
    ENTER("hipEventDestroy", "");
    if (event->stream) stub_drain(event->stream, event->number);
    free(event);
    stub_count[EVENTS]--;
    LEAVE(SUCCESS);
}

int hipEventRecord(struct event *event, void *handle)
{
    ENTER("hipEventRecord", "");
    const int code = stub_queue(handle, (struct item){.kind = RECORD, .event = event});
    if (!code) {
        event->stream = stub_stream(handle);
        event->number = number;
        event->is_done = 0;
    }
    LEAVE(code);
}

int hipEventSynchronize(struct event *event)
{
    ENTER("hipEventSynchronize", "");
    LEAVE(event->stream ? stub_drain(event->stream, event->number) : SUCCESS);
}

int hipEventElapsedTime(float *milliseconds, struct event *start, struct event *end)
{
    ENTER("hipEventElapsedTime", "");
    if (!start->is_done || !end->is_done) LEAVE(NOT_READY);
    *milliseconds = (float)((end->time_ns - start->time_ns) * event_rate / 1e6);
    LEAVE(SUCCESS);
}

/* ---- captures and graphs ---- */
int hipThreadExchangeStreamCaptureMode(int *mode)
{
    ENTER("hipThreadExchangeStreamCaptureMode", "%d", *mode);
    const int before = stub_mode;
    stub_mode = *mode;
    *mode = before;
    LEAVE(SUCCESS);
}

int hipStreamIsCapturing(void *handle, int *status)
{
    ENTER("hipStreamIsCapturing", "");
    struct stream *stream = stub_stream(handle);
    if (!stream) LEAVE(INVALID_HANDLE);
    *status = stream->is_capturing;
    LEAVE(SUCCESS);
}

int hipStreamBeginCapture(void *handle, int mode)
{
    ENTER("hipStreamBeginCapture", "%d", mode);
    struct stream *stream = stub_stream(handle);
    if (!stream) LEAVE(INVALID_HANDLE);
    if (stream == &defaults[stream->device]) LEAVE(CAPTURE_UNSUPPORTED);
    stub_drain(stream, UINT64_MAX);
    stream->is_capturing = 1;
    stream->mode = mode;
    LEAVE(SUCCESS);
}

static struct graph *graph_of(const struct item *items, size_t count, enum live kind)
{
    struct graph *graph = calloc(1, sizeof *graph);
    graph->items = malloc((count + 1) * sizeof *items);
    if (count) memcpy(graph->items, items, count * sizeof *items);
    graph->count = count;
    stub_count[kind]++;
    return graph;
}

int hipStreamEndCapture(void *handle, struct graph **graph)
{
    ENTER("hipStreamEndCapture", "");
    struct stream *stream = stub_stream(handle);
    if (!stream || !stream->is_capturing) LEAVE(CAPTURE_UNMATCHED);
    *graph = graph_of(stream->items, stream->count, GRAPHS);
    stream->is_capturing = 0;
    stream->first = stream->count = 0;
    LEAVE(SUCCESS);
}

int hipGraphGetNodes(struct graph *graph, void **nodes, size_t *count)
{
    ENTER("hipGraphGetNodes", "%d", nodes != NULL);
    if (nodes) LEAVE(INVALID_VALUE); /* nobody here wants them */
    *count = graph->count;
    LEAVE(SUCCESS);
}

int hipGraphInstantiateWithFlags(struct graph **executable, struct graph *graph, unsigned long long flags)
{
    ENTER("hipGraphInstantiateWithFlags", "%llu", flags);
    *executable = graph_of(graph->items, graph->count, EXECUTABLES);
    LEAVE(SUCCESS);
}

int hipGraphUpload(struct graph *executable, void *handle)
{
    ENTER("hipGraphUpload", "%zu", executable->count);
    LEAVE(stub_stream(handle) ? SUCCESS : INVALID_HANDLE);
}

int hipGraphLaunch(struct graph *executable, void *handle)
{
    ENTER("hipGraphLaunch", "%zu", executable->count);
    int code = SUCCESS;
    for (size_t i = 0; i < executable->count && !code; i++) code = stub_queue(handle, executable->items[i]);
    LEAVE(code);
}

static int destroy(struct graph *graph, enum live kind)
{
    free(graph->items);
    free(graph);
    stub_count[kind]--;
    return SUCCESS;
}

int hipGraphDestroy(struct graph *graph)
{
    ENTER("hipGraphDestroy", "");
    LEAVE(destroy(graph, GRAPHS));
}

int hipGraphExecDestroy(struct graph *executable)
{
    ENTER("hipGraphExecDestroy", "");
    LEAVE(destroy(executable, EXECUTABLES));
}
