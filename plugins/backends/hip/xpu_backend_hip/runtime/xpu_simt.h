/* The prelude of the dialect `simt` on AMDGPU, for clang's HIP without any header of HIP's.
 *
 * XPU_ENTRY names the kernel, XPU_WAVE the lanes of a wave, XPU_THREADS the most threads of its blocks,
 * XPU_LEAST_BLOCKS the blocks of it that a multiprocessor should hold at least, where a member asks for that.
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

/* Functions need no qualifier in the dialect: from here on they are of the device, too. */
#pragma clang force_cuda_host_device begin

#define XPU_DEVICE __attribute__((always_inline)) inline
#define XPU_KEPT __attribute__((device, used))
#define XPU_SITE_PARAMETER
#define XPU_SITE(verb)
#define XPU_SITE_TYPE
#define XPU_SITE_PASSED

namespace xpu {

constexpr int wave_width = XPU_WAVE;

namespace simt {
/* How many blocks the grid has. Source: LLVM, User Guide for AMDGPU Backend, code object V5 kernel argument
 * metadata: hidden_block_count_x, _y and _z are the first three words behind a kernel's own arguments. */
XPU_DEVICE int grid(int axis)
{
    return (int)((const __attribute__((address_space(4))) uint32_t *)__builtin_amdgcn_implicitarg_ptr())[axis];
}
/* How many threads a block has: hidden_group_size_x, 16 bits behind those three words. */
XPU_DEVICE int group()
{
    return (int)((const __attribute__((address_space(4))) uint16_t *)__builtin_amdgcn_implicitarg_ptr())[6];
}
} // namespace simt

/* The masks tell the compiler how large these can be, so that divisions by powers of two vanish. */
XPU_DEVICE int thread() { return __builtin_amdgcn_workitem_id_x() & 1023; }
XPU_DEVICE int threads() { return simt::group(); }
XPU_DEVICE int block_x() { return __builtin_amdgcn_workgroup_id_x(); }
XPU_DEVICE int block_y() { return __builtin_amdgcn_workgroup_id_y(); }
XPU_DEVICE int block_z() { return __builtin_amdgcn_workgroup_id_z(); }
XPU_DEVICE int grid_x() { return simt::grid(0); }
XPU_DEVICE int grid_y() { return simt::grid(1); }
XPU_DEVICE int grid_z() { return simt::grid(2); }
XPU_DEVICE int lane() { return thread() & (wave_width - 1); }
XPU_DEVICE int wave() { return thread() / wave_width; }

XPU_DEVICE void barrier()
{
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
/* The lanes of a wave go in step: only the order of what they do to memory is to be kept. */
XPU_DEVICE void wave_barrier()
{
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");
    __builtin_amdgcn_wave_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");
}

XPU_DEVICE float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
/* To the nearest, ties to even; the value must fit an int. */
XPU_DEVICE int round_to_int(float v) { return (int)__builtin_rintf(v); }

namespace simt {
XPU_DEVICE uint32_t exchange(uint32_t word, int from)
{
    return (uint32_t)__builtin_amdgcn_ds_bpermute(from * 4, (int)word);
}
XPU_DEVICE void converge(int) {}

template <class T, class U> struct like { using type = U; };
template <class T, class U> struct like<const T, U> { using type = const U; };
template <class T> struct plain { using type = T; };
template <class T> struct plain<const T> { using type = T; };

/* An array in one of the memories. */
template <class T> struct memory {
    T *pointer;

    XPU_DEVICE T &operator[](int64_t i) const { return pointer[i]; }
    template <class V> XPU_DEVICE typename plain<V>::type load(int64_t i) const
    {
        return *(const V *)(const void *)(pointer + i);
    }
    template <class V> XPU_DEVICE void store(int64_t i, const V &v) const { *(V *)(void *)(pointer + i) = v; }
};
} // namespace simt

/* An array in the memory of the device. */
template <class T> struct global : simt::memory<T> {
    template <class U> XPU_DEVICE global<typename simt::like<T, U>::type> as() const
    {
        return {{(typename simt::like<T, U>::type *)(this->pointer)}};
    }
    XPU_DEVICE global operator+(int64_t by) const { return {{this->pointer + by}}; }
    XPU_DEVICE operator global<const T>() const { return {{this->pointer}}; }
};

/* An array in the memory that the threads of a block share. */
template <class T> struct shared : simt::memory<T> {
    template <class U> XPU_DEVICE shared<typename simt::like<T, U>::type> as() const
    {
        return {{(typename simt::like<T, U>::type *)(this->pointer)}};
    }
    XPU_DEVICE shared operator+(int64_t by) const { return {{this->pointer + by}}; }
    XPU_DEVICE operator shared<const T>() const { return {{this->pointer}}; }
};

/* Adds and returns what was there before. */
template <class T> XPU_DEVICE T atomic_add(const global<T> &g, int64_t i, typename simt::plain<T>::type v)
{
    static_assert(sizeof(T) == 4, "atomic_add takes float or whole numbers of 32 bits");
    return __hip_atomic_fetch_add(g.pointer + i, v, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}

} // namespace xpu

#define XPU_SHARED(T, name, count) \
    static __attribute__((shared, aligned(16))) unsigned char xpu_shared_##name[(count) * sizeof(T)]; \
    const ::xpu::shared<T> name = {{(T *)(void *)xpu_shared_##name}}
#define XPU_DYNAMIC_SHARED(T, name) \
    extern __attribute__((shared, aligned(16))) unsigned char xpu_dynamic_shared[]; \
    const ::xpu::shared<T> name = {{(T *)(void *)xpu_dynamic_shared}}

/* What the part has instructions for; some are written where the types are known. */
#define XPU_NATIVE_HALF 1
namespace xpu {
struct half;
struct half2;
XPU_DEVICE float to_float(half v);
XPU_DEVICE half half_from(float f);
XPU_DEVICE half2 fma(half2 a, half2 b, half2 c);
} // namespace xpu

#include "xpu_hip_dot.h"

#include "xpu_simt_common.h"

#include "xpu_hip_half.h"

#include "xpu_hip_matrix.h"

/* Blocks of a multiprocessor become waves of each of its four SIMDs, which is what the compiler takes. */
#ifdef XPU_LEAST_BLOCKS
#define XPU_HIP_WAVES \
    __attribute__((amdgpu_waves_per_eu((XPU_LEAST_BLOCKS * ((XPU_THREADS + XPU_WAVE - 1) / XPU_WAVE) + 3) / 4)))
#else
#define XPU_HIP_WAVES
#endif

#define XPU_KERNEL(...) \
    extern "C" __attribute__((global, amdgpu_flat_work_group_size(1, XPU_THREADS))) XPU_HIP_WAVES void XPU_ENTRY( \
        __VA_ARGS__)

#endif
