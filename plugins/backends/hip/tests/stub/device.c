/* Devices and their figures; the list of calls, and the faults that are told. */
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

static void read_directory(void)
{
    const char *named = getenv("HIP_STUB_DIRECTORY");
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
