/* Memory of the devices, with guards beside each allocation. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "stub.h"

enum { GUARD = 256, PATTERN = 0x5A };
struct allocation { uint64_t address, bytes; unsigned char *raw; int device; struct allocation *next; };
static struct allocation *allocations;

static struct allocation *find(uint64_t address)
{
    struct allocation *one = allocations;
    while (one && !(address >= one->address && address < one->address + one->bytes)) one = one->next;
    return one;
}

int stub_find(uint64_t address, uint64_t *base, uint64_t *bytes, int *device)
{
    const struct allocation *one = find(address);
    if (!one) return 0;
    *base = one->address;
    *bytes = one->bytes;
    *device = one->device;
    return 1;
}

int hipMalloc(void **address, size_t bytes)
{
    ENTER("hipMalloc", "%zu", bytes);
    if (stub_is_forbidden()) LEAVE(CAPTURE_UNSUPPORTED);
    uint64_t held = 0;
    for (struct allocation *one = allocations; one; one = one->next) held += one->bytes;
    if (held + bytes > (uint64_t)stub_figure(-4, 1L << 30)) LEAVE(OUT_OF_MEMORY);
    struct allocation *fresh = calloc(1, sizeof *fresh);
    fresh->raw = aligned_alloc(GUARD, (bytes + GUARD - 1) / GUARD * GUARD + 2 * GUARD);
    memset(fresh->raw, PATTERN, (bytes + GUARD - 1) / GUARD * GUARD + 2 * GUARD);
    fresh->address = (uint64_t)fresh->raw + GUARD;
    fresh->bytes = bytes;
    fresh->device = stub_current;
    fresh->next = allocations;
    allocations = fresh;
    stub_count[ALLOCATIONS]++;
    *address = (void *)fresh->address;
    LEAVE(SUCCESS);
}

int hipFree(void *address)
{
    ENTER("hipFree", "");
    if (stub_is_forbidden()) LEAVE(CAPTURE_UNSUPPORTED);
    struct allocation **place = &allocations;
    while (*place && (*place)->address != (uint64_t)address) place = &(*place)->next;
    struct allocation *one = *place;
    if (!one) LEAVE(INVALID_VALUE);
    stub_drain_all(one->device);
    for (int i = 0; i < GUARD; i++)
        if (one->raw[i] != PATTERN || ((unsigned char *)(one->address + one->bytes))[i] != PATTERN) {
            fprintf(stderr, "stub: memory beside an allocation of %zu bytes was written\n", (size_t)one->bytes);
            abort();
        }
    *place = one->next;
    free(one->raw);
    free(one);
    stub_count[ALLOCATIONS]--;
    LEAVE(SUCCESS);
}

static int reaches(const void *address, size_t bytes)
{
    const struct allocation *one = find((uint64_t)address);
    return one && (uint64_t)address + bytes <= one->address + one->bytes;
}

int hipMemcpyHtoD(void *to, void *from, size_t bytes)
{
    ENTER("hipMemcpyHtoD", "%zu", bytes);
    if (!reaches(to, bytes)) LEAVE(INVALID_VALUE);
    const int code = stub_drain(stub_stream(NULL), UINT64_MAX);
    memcpy(to, from, bytes);
    LEAVE(code);
}

int hipMemcpyDtoH(void *to, void *from, size_t bytes)
{
    ENTER("hipMemcpyDtoH", "%zu", bytes);
    if (!reaches(from, bytes)) LEAVE(INVALID_VALUE);
    const int code = stub_drain(stub_stream(NULL), UINT64_MAX);
    memcpy(to, from, bytes);
    LEAVE(code);
}

int hipMemcpyDtoDAsync(void *to, void *from, size_t bytes, void *stream)
{
    ENTER("hipMemcpyDtoDAsync", "%zu", bytes);
    if (!reaches(to, bytes) || !reaches(from, bytes)) LEAVE(INVALID_VALUE);
    LEAVE(stub_queue(stream, (struct item){.kind = COPY, .to = to, .from = from, .bytes = bytes}));
}

int hipMemsetD8Async(void *to, unsigned char value, size_t bytes, void *stream)
{
    ENTER("hipMemsetD8Async", "%u %zu", value, bytes);
    if (bytes && !reaches(to, bytes)) LEAVE(INVALID_VALUE);
    struct item item = {.kind = FILL, .to = to, .bytes = bytes, .values = {value}};
    LEAVE(stub_queue(stream, item));
}

int hipPointerGetAttribute(int *value, int attribute, void *address)
{
    ENTER("hipPointerGetAttribute", "%d", attribute);
    const struct allocation *one = find((uint64_t)address);
    if (!one) LEAVE(INVALID_VALUE);
    *value = attribute == 2 ? 2 : one->device; /* the memory's type, or its device */
    LEAVE(SUCCESS);
}
