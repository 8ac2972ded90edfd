// CUDA C++ as host C++: what the kernels that CuPy writes need of the device's language.
// One thread at a time. What is missing here (shuffles, votes, clocks, erfinv, ...) does not
// compile, and kernels.py refuses such a kernel; it lets __syncthreads through only in CuPy's own
// reductions, which it has rewritten.
#pragma once
#include <algorithm>
#include <cassert>
#include <cfloat>
#include <climits>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __noinline__
#define __launch_bounds__(...)
#define __shared__ static
struct Three { unsigned x, y, z; };
static Three threadIdx, blockIdx, blockDim, gridDim;
static inline void __syncthreads() {}

static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static inline int __clz(int x) { return x ? __builtin_clz(x) : 32; }
static inline int __clzll(long long x) { return x ? __builtin_clzll(x) : 64; }
static inline int __ffs(int x) { return __builtin_ffs(x); }

// the same bits as another type
template <class To, class From> static inline To bits(From x) {
    static_assert(sizeof(To) == sizeof(From));
    To y;
    memcpy((void*)&y, &x, sizeof y);
    return y;
}
static inline float __uint_as_float(unsigned x) { return bits<float>(x); }
static inline unsigned __float_as_uint(float x) { return bits<unsigned>(x); }
static inline float __int_as_float(int x) { return bits<float>(x); }
static inline int __float_as_int(float x) { return bits<int>(x); }
static inline double __longlong_as_double(long long x) { return bits<double>(x); }
static inline long long __double_as_longlong(double x) { return bits<long long>(x); }
static inline int __double2hiint(double x) { return (int)(bits<long long>(x) >> 32); }
static inline int __double2loint(double x) { return (int)bits<long long>(x); }
static inline double __hiloint2double(int high, int low) {
    return bits<double>((long long)high << 32 | (unsigned)low);
}
static inline unsigned short __float2half_rn(float x) { return bits<unsigned short>((_Float16)x); }
static inline float __half2float(unsigned short x) { return bits<_Float16>(x); }
struct half;
template <class Half>
static inline unsigned short __half_as_ushort(const Half& x) {
    return bits<unsigned short>(x);
}
static inline half __ushort_as_half(unsigned short x);

// atomics: nobody else writes
template <class T> static inline T __ldg(const T* p) { return *p; }
template <class T, class U>
static inline T atomicAdd(T* p, U x) {
    T old = *p;
    *p = old + (T)x;
    return old;
}
template <class T, class U>
static inline T atomicMax(T* p, U x) {
    T old = *p;
    *p = old > (T)x ? old : (T)x;
    return old;
}
template <class T, class U>
static inline T atomicMin(T* p, U x) {
    T old = *p;
    *p = old < (T)x ? old : (T)x;
    return old;
}
template <class T, class U>
static inline T atomicExch(T* p, U x) {
    T old = *p;
    *p = (T)x;
    return old;
}
template <class T, class U, class V> static inline T atomicCAS(T* p, U expected, V x) {
    T old = *p;
    if (old == (T)expected) *p = (T)x;
    return old;
}

// mathematics that CUDA has and C++ has not
static inline float rsqrtf(float x) { return 1 / sqrtf(x); }
static inline double rsqrt(double x) { return 1 / sqrt(x); }
static inline float rsqrt(float x) { return 1 / sqrtf(x); }
static inline float __fdividef(float a, float b) { return a / b; }
static inline double normcdf(double x) { return 0.5 * erfc(-x * M_SQRT1_2); }
using std::abs; using std::isfinite; using std::isinf; using std::isnan; using std::signbit;
template <class T, class U>
static inline auto min(T a, U b) {
    using C = std::common_type_t<T, U>;
    return (C)b < (C)a ? (C)b : (C)a;
}
template <class T, class U>
static inline auto max(T a, U b) {
    using C = std::common_type_t<T, U>;
    return (C)a < (C)b ? (C)b : (C)a;
}

#include <cupy/complex.cuh>
#include <cupy/carray.cuh>
#include <cupy/float16.cuh>
#include <cupy/atomics.cuh>
#include <cupy/math_constants.h>
static inline half __ushort_as_half(unsigned short x) { return bits<half>(x); }

// A launch: the kernel's parameters lie behind `arguments`. ALONE is one thread that does all
// the work (grid-stride loops); EVERY runs each thread of each block in turn.
enum Mode { EVERY, ALONE };
template <class... A, size_t... I>
static void call(void (*kernel)(A...), void** arguments, std::index_sequence<I...>) {
    kernel(*(std::remove_reference_t<A>*)arguments[I]...);
}
template <class... A>
static void launch(void (*kernel)(A...), void** arguments, const unsigned* grid,
                   const unsigned* block, Mode mode) {
    gridDim = blockDim = {1, 1, 1};
    if (mode == EVERY) {
        gridDim = {grid[0], grid[1], grid[2]};
        blockDim = {block[0], block[1], block[2]};
    }
    for (blockIdx.z = 0; blockIdx.z < gridDim.z; blockIdx.z++)
    for (blockIdx.y = 0; blockIdx.y < gridDim.y; blockIdx.y++)
    for (blockIdx.x = 0; blockIdx.x < gridDim.x; blockIdx.x++)
    for (threadIdx.z = 0; threadIdx.z < blockDim.z; threadIdx.z++)
    for (threadIdx.y = 0; threadIdx.y < blockDim.y; threadIdx.y++)
    for (threadIdx.x = 0; threadIdx.x < blockDim.x; threadIdx.x++)
        call(kernel, arguments, std::index_sequence_for<A...>{});
    blockIdx = threadIdx = {0, 0, 0};
}
