/* The prelude of the dialect `simt` on CUDA. It includes no header of CUDA's: NVRTC's own builtins do.
 *
 * XPU_ENTRY names the kernel, XPU_THREADS the most threads of its blocks, XPU_LEAST_BLOCKS the blocks of it
 * that a multiprocessor should hold at least, where a member asks for that.
 */
#ifndef XPU_SIMT_H
#define XPU_SIMT_H

typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;

#ifndef XPU_THREADS /* nobody knows a block before it is launched */
#define XPU_THREADS 1024
#endif

static_assert(XPU_THREADS >= 1 && XPU_THREADS <= 1024, "a block has 1 to 1024 threads");

#define XPU_DEVICE __device__ __forceinline__
#define XPU_KEPT __device__
#define XPU_SITE_PARAMETER
#define XPU_SITE(verb)
#define XPU_SITE_TYPE
#define XPU_SITE_PASSED

namespace xpu {

constexpr int wave_width = 32;

/* The masks tell the compiler how large these can be, so that divisions by powers of two vanish. */
XPU_DEVICE int thread() { return threadIdx.x & 1023; }
XPU_DEVICE int threads() { return blockDim.x; }
XPU_DEVICE int block_x() { return blockIdx.x; }
XPU_DEVICE int block_y() { return blockIdx.y; }
XPU_DEVICE int block_z() { return blockIdx.z; }
XPU_DEVICE int grid_x() { return gridDim.x; }
XPU_DEVICE int grid_y() { return gridDim.y; }
XPU_DEVICE int grid_z() { return gridDim.z; }
XPU_DEVICE int lane() { return threadIdx.x & 31; }
XPU_DEVICE int wave() { return thread() / 32; }

XPU_DEVICE void barrier() { __syncthreads(); }
XPU_DEVICE void wave_barrier() { __syncwarp(); }

XPU_DEVICE float fma(float a, float b, float c) { return __fmaf_rn(a, b, c); }
/* To the nearest, ties to even; the value must fit an int. */
XPU_DEVICE int round_to_int(float v) { return __float2int_rn(v); }

namespace simt {
XPU_DEVICE uint32_t exchange(uint32_t word, int from) { return __shfl_sync(0xffffffffu, word, from); }
XPU_DEVICE void converge(int) {}

template <class T, class U> struct like { using type = U; };
template <class T, class U> struct like<const T, U> { using type = const U; };
template <class T> struct plain { using type = T; };
template <class T> struct plain<const T> { using type = T; };

/* What is only read is loaded past the cache that writes would have to keep coherent. */
template <int bytes> struct reading {
    template <class V> static XPU_DEVICE V from(const V *p) { return *p; }
};
template <> struct reading<16> {
    template <class V> static XPU_DEVICE V from(const V *p)
    {
        union { uint4 word; V value; } both;
        both.word = __ldg((const uint4 *)p);
        return both.value;
    }
};
template <> struct reading<8> {
    template <class V> static XPU_DEVICE V from(const V *p)
    {
        union { uint2 word; V value; } both;
        both.word = __ldg((const uint2 *)p);
        return both.value;
    }
};
template <> struct reading<4> {
    template <class V> static XPU_DEVICE V from(const V *p)
    {
        union { unsigned word; V value; } both;
        both.word = __ldg((const unsigned *)p);
        return both.value;
    }
};
} // namespace simt

/* An array in the memory of the device. */
template <class T> struct global {
    T *pointer;

    template <class U> XPU_DEVICE global<typename simt::like<T, U>::type> as() const
    {
        return {(typename simt::like<T, U>::type *)pointer};
    }
    XPU_DEVICE global operator+(int64_t by) const { return {pointer + by}; }
    XPU_DEVICE operator global<const T>() const { return {pointer}; }
    XPU_DEVICE T &operator[](int64_t i) const { return pointer[i]; }
    template <class V> XPU_DEVICE V load(int64_t i) const { return *(const V *)(pointer + i); }
    template <class V> XPU_DEVICE void store(int64_t i, const V &v) const { *(V *)(pointer + i) = v; }
};
template <class T> struct global<const T> {
    const T *pointer;

    template <class U> XPU_DEVICE global<const U> as() const { return {(const U *)pointer}; }
    XPU_DEVICE global operator+(int64_t by) const { return {pointer + by}; }
    XPU_DEVICE T operator[](int64_t i) const { return load<T>(i); }
    template <class V> XPU_DEVICE typename simt::plain<V>::type load(int64_t i) const
    {
        using value = typename simt::plain<V>::type;
        constexpr int bytes = alignof(value) >= sizeof(value) ? (int)sizeof(value) : 0;
        return simt::reading<bytes>::from((const value *)(const void *)(pointer + i));
    }
};

/* An array in the memory that the threads of a block share. */
template <class T> struct shared {
    T *pointer;

    template <class U> XPU_DEVICE shared<typename simt::like<T, U>::type> as() const
    {
        return {(typename simt::like<T, U>::type *)pointer};
    }
    XPU_DEVICE shared operator+(int64_t by) const { return {pointer + by}; }
    XPU_DEVICE operator shared<const T>() const { return {pointer}; }
    XPU_DEVICE T &operator[](int64_t i) const { return pointer[(int)i]; }
    template <class V> XPU_DEVICE typename simt::plain<V>::type load(int64_t i) const
    {
        return *(const V *)(pointer + (int)i);
    }
    template <class V> XPU_DEVICE void store(int64_t i, const V &v) const { *(V *)(pointer + (int)i) = v; }
    /* As the instructions take it. */
    XPU_DEVICE uint32_t address(int64_t i) const { return (uint32_t)__cvta_generic_to_shared(pointer + (int)i); }
};
template <class T> struct shared<const T> {
    const T *pointer;

    template <class U> XPU_DEVICE shared<const U> as() const { return {(const U *)pointer}; }
    XPU_DEVICE shared operator+(int64_t by) const { return {pointer + by}; }
    XPU_DEVICE const T &operator[](int64_t i) const { return pointer[(int)i]; }
    template <class V> XPU_DEVICE typename simt::plain<V>::type load(int64_t i) const
    {
        return *(const V *)(pointer + (int)i);
    }
    XPU_DEVICE uint32_t address(int64_t i) const { return (uint32_t)__cvta_generic_to_shared(pointer + (int)i); }
};

/* Adds and returns what was there before. */
template <class T> XPU_DEVICE T atomic_add(const global<T> &g, int64_t i, typename simt::plain<T>::type v)
{
    return atomicAdd(g.pointer + i, v);
}

#define XPU_NATIVE_MAX 1
XPU_DEVICE float max(float a, float b)
{
    float most;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(most) : "f"(a), "f"(b));
    return most;
}
XPU_DEVICE float min(float a, float b)
{
    float least;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(least) : "f"(a), "f"(b));
    return least;
}

#define XPU_NATIVE_BYTES 1
XPU_DEVICE uint32_t byte_of(uint32_t word, int i) { return __byte_perm(word, 0, 0x4440 | i); }
XPU_DEVICE uint32_t twice_of(uint32_t word, int i) { return __byte_perm(word, 0, i ? 0x3232 : 0x1010); }

#define XPU_NATIVE_DOT4 1
XPU_DEVICE int32_t dot4(uint32_t a, uint32_t b, int32_t c) { return __dp4a((int)a, (int)b, c); }
XPU_DEVICE int32_t dot4_us(uint32_t a, uint32_t b, int32_t c)
{
    int32_t sum;
    asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(b), "r"(c));
    return sum;
}

/* ---- asynchronous copy ---- */

#define XPU_NATIVE_COPY 1
template <class S, class G>
XPU_DEVICE void copy_async(const shared<S> &to, int64_t si, const global<G> &from, int64_t gi, int bytes)
{
    const uint32_t place = to.address(si);
    const void *source = from.pointer + gi;
    if (bytes == 16) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(place), "l"(source) : "memory");
    else if (bytes == 8) asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(place), "l"(source) : "memory");
    else asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(place), "l"(source) : "memory");
}
XPU_DEVICE void copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> XPU_DEVICE void copy_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }

} // namespace xpu

#define XPU_SHARED(T, name, count) \
    __shared__ __align__(XPU_SHARED_ALIGNMENT) unsigned char xpu_shared_##name[(count) * sizeof(T)]; \
    const ::xpu::shared<T> name = {(T *)(void *)xpu_shared_##name}
#define XPU_DYNAMIC_SHARED(T, name) \
    extern __shared__ __align__(XPU_SHARED_ALIGNMENT) unsigned char xpu_dynamic_shared[]; \
    const ::xpu::shared<T> name = {(T *)(void *)xpu_dynamic_shared}

/* The part has instructions for these; they are written where the types are known. */
#define XPU_NATIVE_HALF 1
#define XPU_NATIVE_BFLOAT16 1
namespace xpu {
struct half;
struct half2;
struct bfloat16;
XPU_DEVICE float to_float(half v);
XPU_DEVICE half half_from(float f);
XPU_DEVICE half2 fma(half2 a, half2 b, half2 c);
XPU_DEVICE float to_float(bfloat16 v);
XPU_DEVICE bfloat16 bfloat16_from(float f);
} // namespace xpu

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define XPU_NATIVE_LINES 1
#endif

#include "xpu_simt_common.h"

#include "xpu_cuda_numbers.h"

#include "xpu_cuda_matrix.h"

#include "xpu_cuda_lines.h"

#ifndef XPU_LEAST_BLOCKS
#define XPU_LEAST_BLOCKS 1
#endif

#define XPU_KERNEL(...) \
    extern "C" __global__ void __launch_bounds__(XPU_THREADS, XPU_LEAST_BLOCKS) XPU_ENTRY(__VA_ARGS__)

#endif
