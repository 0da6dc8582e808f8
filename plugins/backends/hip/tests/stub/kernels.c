/* Code objects and launches. A launch runs what the emulator's backend made of the same source.
 *
 * That is an object for the host, which the tests put beside each code object under the hash of its bytes. Its
 * layouts are those of the emulator's xpu_emulator.h. It checks each access against the allocation.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "stub.h"

enum { EM_GPU = 224, MACH = 0xFF, STACK = 128 << 10, STUB_VERSION = 2 };

struct buffer { unsigned char *base; int64_t bytes; unsigned char *written; const char *name; };
struct fault { int32_t check, thread, block[3]; uint64_t address; char text[360]; };
struct launch {
    const struct buffer *buffers;
    const int64_t *sizes;
    int32_t grid[3], threads;
    unsigned char *stacks;
    int64_t stack_bytes, dynamic_shared_bytes;
    unsigned char *shared;
    void *cells, *flights;
    unsigned char *threads_memory;
    struct fault *result;
};
struct kernel {
    int32_t version, wave, threads, is_checked, buffers, sizes, thread_bytes, written;
    const char *parameters;
    void (*body)(const struct launch *);
    int64_t (*static_shared_bytes)(void);
    void (*run)(const struct kernel *, const struct launch *);
};
struct function { char name[128]; const struct kernel *kernel; int device; struct function *next; };
struct module { void *library; int device; struct function *functions; };

static size_t image_bytes(const unsigned char *image)
{
    const Elf64_Ehdr *head = (const Elf64_Ehdr *)image; /* lld puts the section headers last */
    return head->e_shoff + (size_t)head->e_shentsize * head->e_shnum;
}

static uint64_t hash_of(const unsigned char *bytes, size_t count) /* FNV-1a */
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < count; i++) hash = (hash ^ bytes[i]) * 0x100000001b3u;
    return hash;
}

int hipModuleLoadData(struct module **module, const void *image)
{
    ENTER("hipModuleLoadData", "");
    const Elf64_Ehdr *head = image;
    if (memcmp(image, ELFMAG, SELFMAG) || head->e_machine != EM_GPU) LEAVE(INVALID_IMAGE);
    if ((head->e_flags & MACH) != (unsigned)stub_figure(-5, 0)) LEAVE(NO_BINARY);
    char path[700];
    snprintf(path, sizeof path, "%s/kernels/%016llx.so", stub_directory,
             (unsigned long long)hash_of(image, image_bytes(image)));
    struct module *fresh = calloc(1, sizeof *fresh);
    fresh->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    fresh->device = stub_current;
    if (!fresh->library) {
        fprintf(stderr, "stub: this code has no twin for the host: %s\n", dlerror());
        free(fresh);
        LEAVE(INVALID_IMAGE);
    }
    stub_count[MODULES]++;
    *module = fresh;
    LEAVE(SUCCESS);
}

int hipModuleUnload(struct module *module)
{
    ENTER("hipModuleUnload", "");
    stub_drain_all(module->device);
    dlclose(module->library);
    while (module->functions) {
        struct function *one = module->functions;
        module->functions = one->next;
        free(one);
    }
    free(module);
    stub_count[MODULES]--;
    LEAVE(SUCCESS);
}

int hipModuleGetFunction(struct function **function, struct module *module, const char *name)
{
    ENTER("hipModuleGetFunction", "%s", name);
    const struct kernel *kernel = dlsym(module->library, name);
    if (!kernel || kernel->version != STUB_VERSION) LEAVE(NOT_FOUND);
    struct function *fresh = calloc(1, sizeof *fresh);
    snprintf(fresh->name, sizeof fresh->name, "%s", name);
    fresh->kernel = kernel;
    fresh->device = module->device;
    fresh->next = module->functions;
    module->functions = fresh;
    *function = fresh;
    LEAVE(SUCCESS);
}

int hipFuncGetAttribute(int *value, int attribute, struct function *function)
{
    ENTER("hipFuncGetAttribute", "%d", attribute);
    const struct kernel *kernel = function->kernel;
    const int known[] = {kernel->threads, (int)kernel->static_shared_bytes(), 0, 0, 64};
    *value = attribute < 5 ? known[attribute] : 0;
    LEAVE(SUCCESS);
}

int hipModuleLaunchKernel(struct function *function, unsigned x, unsigned y, unsigned z, unsigned bx,
                          unsigned by, unsigned bz, unsigned shared, void *stream, void **values, void **extra)
{
    const struct kernel *kernel = function->kernel;
    const int count = kernel->buffers + kernel->sizes;
    struct item item = {.kind = KERNEL, .function = function, .grid = {(int)x, (int)y, (int)z}};
    char text[256] = "";
    for (int i = 0, at = 0; i < count && i < MOST_VALUES; i++) {
        item.values[i] = *(uint64_t *)values[i];
        at += snprintf(text + at, at < 230 ? sizeof text - at : 0, " %lld", (long long)item.values[i]);
        if (at > 230) break;
    }
    ENTER("hipModuleLaunchKernel", "%s %u %u %u, %u %u %u, %u:%s", function->name, x, y, z, bx, by, bz, shared,
          text);
    if (extra || !x || !y || !z || bx * by * bz != (unsigned)kernel->threads) LEAVE(INVALID_VALUE);
    if (function->device != stub_current) LEAVE(INVALID_HANDLE);
    for (int i = 0; i < count && i < MOST_VALUES; i++) item.values[i] = *(uint64_t *)values[i];
    item.dynamic_bytes = shared;
    LEAVE(stub_queue(stream, item));
}

/* Run a launch; whether it touched what it must not. Whoever waits for it holds the lock. */
int stub_run(const struct item *item)
{
    static unsigned char *stacks;
    static int stack_count;
    const struct kernel *kernel = item->function->kernel;
    struct buffer buffers[MOST_VALUES] = {0};
    struct fault fault = {0};
    for (int i = 0; i < kernel->buffers; i++) {
        uint64_t base, bytes;
        int device;
        if (!stub_find(item->values[i], &base, &bytes, &device)) continue; /* no byte of it may be touched */
        buffers[i] = (struct buffer){(void *)item->values[i], (int64_t)(base + bytes - item->values[i]), NULL, "array"};
    }
    for (int i = 0; i < kernel->buffers; i++)
        if (!buffers[i].name) buffers[i] = (struct buffer){(void *)item->values[i], 0, NULL, "array"};
    if (kernel->threads > stack_count) {
        stack_count = kernel->threads;
        stacks = mmap(NULL, (size_t)stack_count * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        for (int i = 0; i < stack_count; i++) mprotect(stacks + (size_t)i * STACK, STACK / 2, PROT_NONE);
    }
    const int64_t shared = kernel->static_shared_bytes() + item->dynamic_bytes + 16;
    unsigned char *room = aligned_alloc(64, (size_t)(shared + 63) / 64 * 64);
    void *cells = calloc((size_t)shared, 12), *flights = calloc((size_t)shared / 4 + 1, 12);
    unsigned char *threads = calloc((size_t)kernel->threads, (size_t)kernel->thread_bytes + 1);
    const struct launch launch = {buffers, (const int64_t *)(item->values + kernel->buffers),
                                  {item->grid[0], item->grid[1], item->grid[2]}, kernel->threads, stacks, STACK,
                                  item->dynamic_bytes, room, cells, flights, threads, &fault};
    kernel->run(kernel, &launch);
    free(room), free(cells), free(flights), free(threads);
    if (fault.check) fprintf(stderr, "stub: %s: %s\n", item->function->name, fault.text);
    return fault.check != 0;
}
