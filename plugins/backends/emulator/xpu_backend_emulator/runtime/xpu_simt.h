/* The prelude of the dialect `simt` on the emulator: a kernel compiled for the host, every thread a fibre.
 *
 * XPU_EMULATOR_CHECKS=1: memory is reached through classes that look at every access.
 * XPU_EMULATOR_CHECKS=0: they are plain pointers and references.
 */
#ifndef XPU_SIMT_H
#define XPU_SIMT_H

/* There is no standard library: a kernel that includes a header of it would fail on other backends. */
typedef __INT8_TYPE__ int8_t;
typedef __INT16_TYPE__ int16_t;
typedef __INT32_TYPE__ int32_t;
typedef __INT64_TYPE__ int64_t;
typedef __UINT8_TYPE__ uint8_t;
typedef __UINT16_TYPE__ uint16_t;
typedef __UINT32_TYPE__ uint32_t;
typedef __UINT64_TYPE__ uint64_t;
typedef __UINTPTR_TYPE__ uintptr_t;
typedef __SIZE_TYPE__ size_t;

#ifndef XPU_THREADS /* nobody knows a block before it is launched */
#define XPU_THREADS 1024
#endif

static_assert(XPU_THREADS >= 1 && XPU_THREADS <= 1024, "a block has 1 to 1024 threads");

#include "xpu_emulator.h"

#define XPU_DEVICE inline
#define XPU_KEPT __attribute__((used))
#define XPU_SITE_PARAMETER , const char *xpu_file = __builtin_FILE(), int xpu_line = __builtin_LINE()
#define XPU_SITE(verb) , ::xpu::emulator::site{verb, xpu_file, xpu_line}
#define XPU_SITE_TYPE , ::xpu::emulator::site xpu_site
#define XPU_SITE_PASSED , xpu_site

namespace xpu {

constexpr int wave_width = XPU_WAVE;

inline int thread() { return emulator::now.thread; }
inline int threads() { return emulator::now.threads; }
inline int block_x() { return emulator::now.block[0]; }
inline int block_y() { return emulator::now.block[1]; }
inline int block_z() { return emulator::now.block[2]; }
inline int grid_x() { return emulator::now.grid[0]; }
inline int grid_y() { return emulator::now.grid[1]; }
inline int grid_z() { return emulator::now.grid[2]; }
inline int lane() { return emulator::now.lane; }
inline int wave() { return emulator::now.wave; }

inline void barrier(const char *file = __builtin_FILE(), int line = __builtin_LINE())
{
    emulator::barrier({"barrier", file, line});
}
inline void wave_barrier(const char *file = __builtin_FILE(), int line = __builtin_LINE())
{
    emulator::converge(0, {"wave_barrier", file, line}, true);
}

inline float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
/* To the nearest, ties to even; the value must fit an int. */
inline int round_to_int(float v) { return (int)__builtin_rintf(v); }

namespace simt {
inline uint32_t exchange(uint32_t word, int from, emulator::site at) { return emulator::exchange(word, from, at); }
#if XPU_EMULATOR_CHECKS
#define XPU_CHECKED_INDEX(i, count) ::xpu::simt::inside(i, count)
#define XPU_CHECKED_SUM(sums, i, count) ::xpu::simt::inside_sums(sums, i, count)
inline int inside(int i, int count)
{
    if (__builtin_expect((unsigned)i >= (unsigned)count, 0)) emulator::bad_element(i, count);
    return i;
}
inline int inside_sums(const void *sums, int i, int count)
{
    if (__builtin_expect(emulator::now.hidden_sums, 0)) emulator::sums_used(sums);
    return inside(i, count);
}
#endif
inline void converge(int64_t same, emulator::site at) { emulator::converge(same, at, false); }
} // namespace simt
} // namespace xpu

#include "xpu_emulator_memory.h"

namespace xpu {

/* An array in the memory of the device. */
template <class T> struct global : emulator::memory<T, emulator::global_space> {
    using emulator::memory<T, emulator::global_space>::memory;
    template <class U> global<typename simt::like<T, U>::type> as() const
    {
        return this->template moved<global<typename simt::like<T, U>::type>>(0);
    }
    global operator+(int64_t by) const { return this->template moved<global>(by); }
    operator global<const T>() const { return as<const T>(); }
};

/* An array in the memory that the threads of a block share. */
template <class T> struct shared : emulator::memory<T, emulator::shared_space> {
    using emulator::memory<T, emulator::shared_space>::memory;
    template <class U> shared<typename simt::like<T, U>::type> as() const
    {
        return this->template moved<shared<typename simt::like<T, U>::type>>(0);
    }
    shared operator+(int64_t by) const { return this->template moved<shared>(by); }
    operator shared<const T>() const { return as<const T>(); }
};

namespace emulator {
/* A static shared array: `Tag` is a type of its own for each declaration. Its place is taken when the
 * object is loaded, whether the code that declares it runs or not. */
template <class Tag, int64_t bytes> struct static_array {
    static array record;
};
template <class Tag, int64_t bytes> array static_array<Tag, bytes>::record = {place(bytes), bytes, Tag::xpu_text()};

template <class T, class Tag, int64_t count> shared<T> declared()
{
    static_assert(__is_trivially_copyable(T) && alignof(T) <= 16 && count > 0,
                  "shared memory holds plain values aligned to at most 16 bytes, at least one");
    return {shared_space{&static_array<Tag, count * (int64_t)sizeof(T)>::record}, 0};
}

template <class T, class Tag> shared<T> dynamic()
{
    static array record;
    record = {now.static_bytes, now.launched->dynamic_shared_bytes, Tag::xpu_text()};
    return {shared_space{&record}, 0};
}
} // namespace emulator

#define XPU_SHARED(T, name, count) \
    struct xpu_shared_##name { static const char *xpu_text() { return #name; } }; \
    const ::xpu::shared<T> name = ::xpu::emulator::declared<T, xpu_shared_##name, (count)>()
#define XPU_DYNAMIC_SHARED(T, name) \
    struct xpu_shared_##name { static const char *xpu_text() { return #name; } }; \
    const ::xpu::shared<T> name = ::xpu::emulator::dynamic<T, xpu_shared_##name>()

/* Adds and returns what was there before. */
template <class T> __attribute__((always_inline)) T atomic_add(const global<T> &g, int64_t i, typename simt::plain<T>::type v)
{
    static_assert(sizeof(T) == 4, "atomic_add takes float or whole numbers of 32 bits");
    const T before = g[i];
    g[i] = (T)(before + v);
    return before;
}

#if XPU_EMULATOR_CHECKS
#define XPU_NATIVE_COPY 1
#define XPU_WATCHED_LINES 1
namespace emulator {
template <class V, class S, class G>
void copy(const shared<S> &to, int64_t si, const global<G> &from, int64_t gi)
{
    const V value = from.template load<V>(gi);
    to.space.template look<V>(true, to.position(si), sizeof(S), alignof(V));
    copy_later(*to.space.of, to.position(si), (const unsigned char *)&value, sizeof(V));
}
} // namespace emulator
#endif

} // namespace xpu

#include "xpu_simt_common.h"
#include "xpu_emulator_matrix.h"

#if XPU_EMULATOR_CHECKS
#include "xpu_emulator_lines.h"

namespace xpu {
template <class T, class Space> struct simt::value_of<emulator::element<T, Space>> { using type = T; };

/* What is copied arrives in shared memory when the thread waits for it, and not before. */
template <class S, class G>
void copy_async(const shared<S> &to, int64_t si, const global<G> &from, int64_t gi, int bytes)
{
    if (bytes == 16) emulator::copy<vec<uint32_t, 4>>(to, si, from, gi);
    else if (bytes == 8) emulator::copy<vec<uint32_t, 2>>(to, si, from, gi);
    else if (bytes == 4) emulator::copy<uint32_t>(to, si, from, gi);
    else emulator::bad_copy(bytes);
}
inline void copy_commit() { emulator::copy_commit(); }
template <int N> void copy_wait()
{
    static_assert(N >= 0, "copy_wait leaves 0 groups or more on their way");
    emulator::copy_wait(N);
}
} // namespace xpu
#endif

namespace xpu {
namespace emulator {
/* The arguments of a kernel, taken from a launch in the order of its parameters. */
struct cursor {
    const launch &from;
    int buffers = 0, sizes = 0;
};
template <class A> struct argument {
    static_assert(sizeof(A) == 0, "a kernel takes xpu::global<T> and int64_t");
};
template <class T> struct argument<global<T>> {
    static constexpr bool is_buffer = true, is_written = !simt::is_const<T>::value;
    static global<T> take(cursor &c) { return {global_space{&c.from.buffers[c.buffers++]}, 0}; }
};
template <> struct argument<int64_t> {
    static constexpr bool is_buffer = false, is_written = false;
    static int64_t take(cursor &c) { return c.from.sizes[c.sizes++]; }
};
template <class... A> struct call {
    call(void (*f)(A...), A... a) { f(a...); }
};
template <class F> struct signature;
template <class... A> struct signature<void(A...)> {
    static constexpr int buffers = (0 + ... + (int)argument<A>::is_buffer);
    static constexpr int sizes = (int)sizeof...(A) - buffers;
    static constexpr int32_t written()
    {
        const bool is_buffer[] = {argument<A>::is_buffer..., false}, is_written[] = {argument<A>::is_written..., false};
        int32_t bits = 0;
        for (int i = 0; i < buffers; ++i) {
            if (!is_buffer[i]) return -1;
            bits |= (int32_t)is_written[i] << i;
        }
        return bits;
    }
    template <void (*f)(A...)> static void body(const launch *of)
    {
        static_assert(buffers < 32 && written() >= 0, "a kernel takes its arrays first, at most 31, then the sizes");
        cursor at{*of};
        call<A...>{f, argument<A>::take(at)...}; /* braces: in order */
    }
};
} // namespace emulator
} // namespace xpu

#define XPU_EMULATOR_TEXT(...) #__VA_ARGS__
#define XPU_KERNEL(...) \
    static void xpu_kernel(__VA_ARGS__); \
    extern "C" __attribute__((visibility("default"))) const ::xpu::emulator::kernel XPU_ENTRY = { \
        2, XPU_WAVE, XPU_THREADS, XPU_EMULATOR_CHECKS, \
        ::xpu::emulator::signature<void(__VA_ARGS__)>::buffers, \
        ::xpu::emulator::signature<void(__VA_ARGS__)>::sizes, ::xpu::emulator::thread_bytes, \
        ::xpu::emulator::signature<void(__VA_ARGS__)>::written(), XPU_EMULATOR_TEXT(__VA_ARGS__), \
        ::xpu::emulator::signature<void(__VA_ARGS__)>::body<xpu_kernel>, \
        ::xpu::emulator::static_shared_bytes, ::xpu::emulator::run}; \
    static void xpu_kernel(__VA_ARGS__)

#endif
