/* What a compiled kernel calls when arithmetic has no meaning: the compiler's own checks of undefined
 * behaviour, with these handlers in place of its library's. The end of runtime.cpp.
 *
 * Source of the layouts: what gcc and clang emit for -fsanitize, which is the same.
 */
#ifndef XPU_EMULATOR_SANITIZER_H
#define XPU_EMULATOR_SANITIZER_H

namespace xpu {
namespace emulator {

namespace {

struct source_place {
    const char *file;
    uint32_t line, column;
};

/* `info` of a whole number: twice the logarithm of its bits, and 1 where it is signed; of a float: its bits. */
struct source_type {
    uint16_t kind, info;
    char name[1];
};

struct undefined_use {
    source_place at;
    const source_type *first, *second;
};

/* A whole number of at most 64 bits, as handlers are given it. */
long long whole(const source_type *type, uintptr_t given)
{
    const int unused = 64 - (1 << (type->info >> 1));
    if (unused <= 0 || !(type->info & 1)) return (long long)given;
    return (long long)((uint64_t)given << unused) >> unused;
}

double real(const source_type *type, uintptr_t given)
{
    float narrow;
    double wide;
    memcpy(&narrow, &given, sizeof narrow);
    memcpy(&wide, &given, sizeof wide);
    return type->info == 32 ? (double)narrow : wide;
}

} // namespace

void bad_element(int index, int count)
{
    record(no_element, now.thread, __builtin_return_address(0), "index %d of %d elements", index, count);
    stop();
}

} // namespace emulator
} // namespace xpu

#define XPU_HANDLER extern "C" [[noreturn]] XPU_HIDDEN void

XPU_HANDLER __ubsan_handle_out_of_bounds_abort(const xpu::emulator::undefined_use *use, uintptr_t index)
{
    using namespace xpu::emulator;
    record(no_element, now.thread, __builtin_return_address(0), "index %lld of %s", whole(use->second, index),
           use->first->name);
    stop();
}

XPU_HANDLER __ubsan_handle_shift_out_of_bounds_abort(const xpu::emulator::undefined_use *use, uintptr_t, uintptr_t by)
{
    using namespace xpu::emulator;
    record(undefined, now.thread, __builtin_return_address(0), "%s is shifted by %lld bits", use->first->name,
           whole(use->second, by));
    stop();
}

XPU_HANDLER __ubsan_handle_divrem_overflow_abort(const xpu::emulator::undefined_use *use, uintptr_t, uintptr_t)
{
    using namespace xpu::emulator;
    record(undefined, now.thread, __builtin_return_address(0), "%s is divided by 0, or by -1 where that does not fit",
           use->first->name);
    stop();
}

#define XPU_OVERFLOW(operation, words) \
    XPU_HANDLER __ubsan_handle_##operation##_overflow_abort(const xpu::emulator::undefined_use *use, uintptr_t, uintptr_t) \
    { \
        using namespace xpu::emulator; \
        record(undefined, now.thread, __builtin_return_address(0), words " does not fit %s", use->first->name); \
        stop(); \
    }
XPU_OVERFLOW(add, "a sum")
XPU_OVERFLOW(sub, "a difference")
XPU_OVERFLOW(mul, "a product")
XPU_OVERFLOW(negate, "a negated number")

XPU_HANDLER __ubsan_handle_float_cast_overflow_abort(const xpu::emulator::undefined_use *use, uintptr_t from)
{
    using namespace xpu::emulator;
    record(undefined, now.thread, __builtin_return_address(0), "%g does not fit %s", real(use->first, from),
           use->second->name);
    stop();
}

#endif
