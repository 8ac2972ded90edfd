// CUDA C++ as host C++: what the kernels need of the device's language. One thread at a time; the
// threads of a block that work together take turns, each until it waits for the others. What is
// missing here (votes, clocks, erfinv, ...) does not compile, and kernels.py refuses such a kernel.
#pragma once
#include <algorithm>
#include <cassert>
#include <cfloat>
#include <cstdio>
#include <cstdlib>
#include <climits>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __noinline__
#define __launch_bounds__(...)
#define __shared__ static __attribute__((section("block_memory")))
struct Three { unsigned x, y, z; };
static Three threadIdx, blockIdx, blockDim, gridDim;

// A thread of a block whose threads work together: with a stack of its own, running until it waits
// for its warp (a shuffle) or for the block (__syncthreads).
enum Waits { RUNS, FOR_WARP, FOR_BLOCK, ENDED };
struct Fiber {
    void* at; std::vector<char> stack; Three index; Waits waits; unsigned number; bool turn;
};
static void* scheduler;
static Fiber* current;
// Go on at the stack `to`, once what a call keeps (x86-64) and the own place are saved
__attribute__((naked, noinline)) static void go(void** from, void* to) {
    asm("pushq %rbp; pushq %rbx; pushq %r12; pushq %r13; pushq %r14; pushq %r15;"
        "movq %rsp, (%rdi); movq %rsi, %rsp;"
        "popq %r15; popq %r14; popq %r13; popq %r12; popq %rbx; popq %rbp; ret");
}
static char dynamic_shared[49152] __attribute__((section("block_memory"), aligned(16), used));
extern "C" char __start_block_memory[], __stop_block_memory[];
static double exchanged[2][1024];                   // what each thread gives to a shuffle, in turns
static inline void wait(Waits what) {
    current->waits = what;
    go(&current->at, scheduler);
}
static inline void __syncthreads() { if (current) wait(FOR_BLOCK); }
static inline void __threadfence() {}
template <class T> static inline T shuffled(T x, unsigned from) {
    double* here = exchanged[current->turn ^= 1];
    memcpy(&here[current->number], &x, sizeof x);
    wait(FOR_WARP);
    memcpy(&x, &here[from], sizeof x);
    return x;
}
template <class T> static inline T __shfl_xor_sync(unsigned, T x, int lanes) {
    return shuffled(x, current->number ^ lanes);
}
template <class T> static inline T __shfl_sync(unsigned, T x, int lane) {
    return shuffled(x, current->number / 32 * 32 + lane);
}

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

// mathematics that CUDA has and C++ has not
static inline float rsqrtf(float x) { return 1 / sqrtf(x); }
static inline double rsqrt(double x) { return 1 / sqrt(x); }
static inline float rsqrt(float x) { return 1 / sqrtf(x); }
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
#include <cupy/math_constants.h>
static inline half __ushort_as_half(unsigned short x) { return bits<half>(x); }

// A launch: the kernel's parameters lie behind `arguments`. ALONE is one thread that does all
// the work (grid-stride loops); EVERY runs each thread of each block in turn; TOGETHER the threads
// of a block as Fibers, the last one first, the block's memory full of NaN before it: so that what
// is read before a __syncthreads that is missing is seen.
enum Mode { EVERY, ALONE, TOGETHER };
template <class... A, size_t... I>
static void call(void (*kernel)(A...), void** arguments, std::index_sequence<I...>) {
    kernel(*(std::remove_reference_t<A>*)arguments[I]...);
}
template <class... A> static size_t sizes(void (*)(A...), size_t* of) {     // of the parameters
    size_t each[] = {sizeof(std::remove_reference_t<A>)..., 0};
    memcpy(of, each, sizeof...(A) * sizeof *of);
    return sizeof...(A);
}
static void (*body)(void*);                         // what a Fiber runs
static void* body_of;
static void fiber() {
    body(body_of);
    wait(ENDED);
}
static void resume(Fiber& each) {
    current = &each;
    threadIdx = each.index;
    each.waits = RUNS;
    go(&scheduler, each.at);
    current = nullptr;
}
static void together(unsigned count, const unsigned* block) {
    static std::vector<Fiber> fibers;
    fibers.resize(count);
    memset(__start_block_memory, 0xFF, __stop_block_memory - __start_block_memory);
    for (unsigned i = 0; i < count; i++) {
        Fiber& each = fibers[i];
        each.stack.resize(1 << 16);
        void** top = (void**)((uintptr_t)(each.stack.data() + each.stack.size()) & ~(uintptr_t)15);
        top[-1] = nullptr;                          // where a call would return to
        top[-2] = (void*)fiber;
        each.at = top - 8;                          // and six registers
        each.turn = false;
        each.index = {i % block[0], i / block[0] % block[1], i / block[0] / block[1]};
        each.waits = FOR_BLOCK;
        each.number = i;
    }
    for (bool left = true; left;) {
        left = false;
        for (unsigned end = count; end; end = (end - 1) / 32 * 32) {
            unsigned start = (end - 1) / 32 * 32;
            unsigned asked = 1;                     // lanes that wait for their warp
            for (bool first = true; first || asked; first = false) {
                if (!first && asked != end - start) {
                    fprintf(stderr, "cupy_on_cpu: a shuffle that some threads of a warp miss\n");
                    abort();
                }
                asked = 0;
                for (unsigned i = end; i-- > start;)
                    if (fibers[i].waits != ENDED) {
                        resume(fibers[i]);
                        asked += fibers[i].waits == FOR_WARP;
                    }
            }
            for (unsigned i = start; i < end; i++) left |= fibers[i].waits != ENDED;
        }
    }
}
template <class... A>
static void launch(void (*kernel)(A...), void** arguments, const unsigned* grid,
                   const unsigned* block, unsigned shared, Mode mode) {
    struct Given { void (*kernel)(A...); void** arguments; } given{kernel, arguments};
    auto run = [](void* p) {
        call(((Given*)p)->kernel, ((Given*)p)->arguments, std::index_sequence_for<A...>{});
    };
    gridDim = blockDim = {1, 1, 1};
    if (mode != ALONE) {
        gridDim = {grid[0], grid[1], grid[2]};
        blockDim = {block[0], block[1], block[2]};
    }
    body = run;
    body_of = &given;
    for (blockIdx.z = 0; blockIdx.z < gridDim.z; blockIdx.z++)
    for (blockIdx.y = 0; blockIdx.y < gridDim.y; blockIdx.y++)
    for (blockIdx.x = 0; blockIdx.x < gridDim.x; blockIdx.x++) {
        if (mode == TOGETHER) { together(block[0] * block[1] * block[2], block); continue; }
        for (threadIdx.z = 0; threadIdx.z < blockDim.z; threadIdx.z++)
        for (threadIdx.y = 0; threadIdx.y < blockDim.y; threadIdx.y++)
        for (threadIdx.x = 0; threadIdx.x < blockDim.x; threadIdx.x++) run(&given);
    }
    blockIdx = threadIdx = {0, 0, 0};
}
