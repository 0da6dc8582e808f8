/* Devices, their figures and their memory; the list of calls, and the faults that are told. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "stub.h"

int stub_devices, stub_lost[MOST_DEVICES], stub_count[LIVES];
_Thread_local int stub_current, stub_mode;
char stub_directory[512];

static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static char told[1 << 20];
static size_t told_bytes;
static struct { char name[48]; int code, times; } faults[16];
static struct { int number; long value; } figures[64];
static int figure_count;

enum { GUARD = 256, PATTERN = 0x5A };
struct allocation { uint64_t address, bytes; unsigned char *raw; int device; struct allocation *next; };
static struct allocation *allocations;

static void read_directory(void)
{
    const char *named = getenv("XPU_HIP_STUB");
    char path[600];
    if (!named || stub_directory[0]) return;
    snprintf(stub_directory, sizeof stub_directory, "%s", named);
    snprintf(path, sizeof path, "%s/figures", named);
    FILE *file = fopen(path, "r");
    while (file && figure_count < 64 &&
           fscanf(file, "%d %ld", &figures[figure_count].number, &figures[figure_count].value) == 2)
        figure_count++;
    if (file) fclose(file);
    stub_devices = (int)stub_figure(-2, 1);
}

long stub_figure(int number, long otherwise)
{
    for (int i = 0; i < figure_count; i++)
        if (figures[i].number == number) return figures[i].value;
    return otherwise;
}

int stub_enter(const char *name, const char *format, ...)
{
    pthread_mutex_lock(&lock);
    read_directory();
    va_list rest;
    va_start(rest, format);
    if (told_bytes + 512 < sizeof told) {
        told_bytes += snprintf(told + told_bytes, 128, "%s", name);
        if (*format) told[told_bytes++] = ' ';
        told_bytes += vsnprintf(told + told_bytes, 256, format, rest);
        told[told_bytes++] = '\n';
        told[told_bytes] = 0;
    }
    va_end(rest);
    for (int i = 0; i < 16; i++)
        if (faults[i].times && !strcmp(faults[i].name, name)) {
            faults[i].times--;
            return faults[i].code;
        }
    return SUCCESS;
}

int stub_leave(int code)
{
    pthread_mutex_unlock(&lock);
    return code;
}

/* ---- what the tests ask ---- */
const char *stub_told(void) { return told; }
void stub_forget(void) { told_bytes = 0; told[0] = 0; }
int stub_live(int kind) { return stub_count[kind]; }
void stub_lose(int device, int code) { stub_lost[device] = code; }
int stub_thread_mode(void) { return stub_mode; }
int stub_thread_device(void) { return stub_current; }

void stub_fail(const char *name, int code, int times)
{
    for (int i = 0; i < 16; i++)
        if (!faults[i].times || !strcmp(faults[i].name, name)) {
            snprintf(faults[i].name, sizeof faults[i].name, "%s", name);
            faults[i].code = code;
            faults[i].times = times;
            return;
        }
}

/* ---- devices ---- */
int hipInit(unsigned flags)
{
    ENTER("hipInit", "%u", flags);
    LEAVE(stub_devices ? SUCCESS : NO_DEVICE);
}

int hipRuntimeGetVersion(int *version)
{
    ENTER("hipRuntimeGetVersion", "");
    *version = (int)stub_figure(-1, 70253211);
    LEAVE(SUCCESS);
}

int hipGetDeviceCount(int *count)
{
    ENTER("hipGetDeviceCount", "");
    *count = stub_devices;
    LEAVE(stub_devices ? SUCCESS : NO_DEVICE);
}

int hipGetDevice(int *device)
{
    ENTER("hipGetDevice", "");
    *device = stub_current;
    LEAVE(SUCCESS);
}

int hipSetDevice(int device)
{
    ENTER("hipSetDevice", "%d", device);
    if (device < 0 || device >= stub_devices) LEAVE(INVALID_DEVICE);
    stub_current = device;
    LEAVE(SUCCESS);
}

int hipDeviceSynchronize(void)
{
    ENTER("hipDeviceSynchronize", "");
    if (stub_is_forbidden()) LEAVE(CAPTURE_UNSUPPORTED);
    LEAVE(stub_drain_all(stub_current));
}

int hipDeviceGetAttribute(int *value, int attribute, int device)
{
    ENTER("hipDeviceGetAttribute", "%d %d", attribute, device);
    *value = (int)stub_figure(attribute, 0);
    LEAVE(device < stub_devices ? SUCCESS : INVALID_DEVICE);
}

int hipDeviceGetUuid(char *uuid, int device)
{
    ENTER("hipDeviceGetUuid", "%d", device);
    char text[17];
    snprintf(text, sizeof text, "%016x", 0xabc0 + device);
    memcpy(uuid, stub_figure(-3, 0) ? "XX\0\0\0\0\0\0\0\0\0\0\0\0\0\0" : text, 16);
    LEAVE(SUCCESS);
}

int hipDeviceGetPCIBusId(char *text, int bytes, int device)
{
    ENTER("hipDeviceGetPCIBusId", "%d %d", bytes, device);
    snprintf(text, bytes, "0000:%02X:00.0", 0xA0 + device);
    LEAVE(SUCCESS);
}

int hipDeviceTotalMem(size_t *bytes, int device)
{
    ENTER("hipDeviceTotalMem", "%d", device);
    *bytes = (size_t)stub_figure(-4, 1L << 30);
    LEAVE(SUCCESS);
}

int hipGetDeviceProperties(void *properties, int device)
{
    ENTER("hipGetDeviceProperties", "%d", device);
    char path[600];
    snprintf(path, sizeof path, "%s/properties", stub_directory);
    FILE *file = fopen(path, "rb");
    if (!file) LEAVE(INVALID_VALUE);
    const size_t got = fread(properties, 1, 1 << 16, file);
    fclose(file);
    LEAVE(got ? SUCCESS : INVALID_VALUE);
}

int hipGetDevicePropertiesR0600(void *properties, int device)
{
    return hipGetDeviceProperties(properties, device);
}

/* ---- memory ---- */
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

/* ---- errors ---- */
static const struct { int code; const char *name; } names[] = {
    {0, "hipSuccess"}, {1, "hipErrorInvalidValue"}, {2, "hipErrorOutOfMemory"}, {100, "hipErrorNoDevice"},
    {101, "hipErrorInvalidDevice"}, {200, "hipErrorInvalidImage"}, {209, "hipErrorNoBinaryForGpu"},
    {400, "hipErrorInvalidHandle"}, {500, "hipErrorNotFound"}, {600, "hipErrorNotReady"},
    {700, "hipErrorIllegalAddress"}, {719, "hipErrorLaunchFailure"},
    {900, "hipErrorStreamCaptureUnsupported"}, {903, "hipErrorStreamCaptureUnmatched"},
    {906, "hipErrorStreamCaptureImplicit"},
};

const char *hipGetErrorName(int code)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].code == code) return names[i].name;
    return "hipErrorUnknown";
}

const char *hipGetErrorString(int code)
{
    return code == NO_DEVICE ? "no ROCm-capable device is detected" : hipGetErrorName(code);
}
