// The functions behind cupy.cuda.cub (CuPy's default accelerator), in an order of our own.
// One event a call, where CUB itself may launch two kernels. Histograms, float16 and complex
// numbers are refused at the next call of the card: these functions cannot return an error.
#include <cuda_runtime_api.h>
#include <cstddef>
#include <cstdint>
#include "card.h"
enum { SUM, MIN, MAX, ARGMIN, ARGMAX, CUMSUM, CUMPROD, PROD };

template <class T> static bool better(T a, T b, bool least) {     // NaN is better than any number
    return a != a ? b == b : least ? a < b : a > b;
}
template <class T> static T joined(T a, T b, int op) { return op == PROD ? a * b : a + b; }
template <class T> static void reduce(const T* x, void* out, size_t row, size_t n, int op) {
    x += row * n;
    if (op == SUM || op == PROD) {
        T parts[32];                                            // not CUB's order, but as exact
        for (T& part : parts) part = op == PROD;
        for (size_t i = 0; i < n; i++) parts[i % 32] = joined(parts[i % 32], x[i], op);
        for (int half = 16; half; half /= 2)
            for (int i = 0; i < half; i++) parts[i] = joined(parts[i], parts[i + half], op);
        ((T*)out)[row] = parts[0];
        return;
    }
    size_t best = 0;
    for (size_t i = 1; i < n; i++)
        if (better(x[i], x[best], op == MIN || op == ARGMIN)) best = i;
    struct Pair { int key; T value; };
    if (op == MIN || op == MAX) ((T*)out)[row] = x[best];
    else ((Pair*)out)[row] = {(int)best, x[best]};
}
template <class T> static void scan(const T* x, T* out, size_t n, int op) {
    T total = op == CUMPROD;
    for (size_t i = 0; i < n; i++) out[i] = total = op == CUMPROD ? total * x[i] : total + x[i];
}
template <class T> static void either(void* x, void* out, size_t rows, size_t n, int op) {
    if (op == CUMSUM || op == CUMPROD) return scan((T*)x, (T*)out, n, op);
    for (size_t row = 0; row < rows; row++) reduce((T*)x, out, row, n, op);
}
#define TYPE(id, T) case id: return either<T>(x, out, rows, n, op);
static void now(void* x, void* out, size_t rows, size_t n, int op, int type) {
    switch (type) {                                               // cupy/cuda/common.pyx
        TYPE(0, int8_t) TYPE(1, uint8_t) TYPE(2, int16_t) TYPE(3, uint16_t) TYPE(4, int32_t)
        TYPE(5, uint32_t) TYPE(6, int64_t) TYPE(7, uint64_t) TYPE(9, float)
        TYPE(10, double) TYPE(13, bool)
        default: fake_refuse_later("CUB with float16 or complex numbers");
    }
}
typedef cudaStream_t Stream;
typedef void* P;
static void typed(Stream s, const char* name, P x, P out, size_t rows, size_t n, int op,
                  int type) {
    if (fake_work(s, "launch", name, 0, [=] { now(x, out, rows, n, op, type); }))
        fake_refuse_later("CUB in a capture that has failed");
}
void cub_device_reduce(P, size_t&, P x, P out, int n, Stream s, int op, int type) {
    typed(s, "cub_device_reduce", x, out, 1, n, op, type);
}
void cub_device_segmented_reduce(P, size_t&, P x, P out, int rows, int n, Stream s,
                                 int op, int type) {
    typed(s, "cub_device_segmented_reduce", x, out, rows, n, op, type);
}
void cub_device_scan(P, size_t&, P x, P out, int n, Stream s, int op, int type) {
    typed(s, "cub_device_scan", x, out, 1, n, op, type);
}
void cub_device_histogram_range(P, size_t&, P, P, int, P, size_t, Stream, int) {
    fake_refuse_later("CUB's histograms");
}
void cub_device_histogram_even(P, size_t&, P, P, int, int, int, size_t, Stream, int) {
    fake_refuse_later("CUB's histograms");
}
size_t cub_device_reduce_get_workspace_size(P, P, int, Stream, int, int) { return 1; }
size_t cub_device_segmented_reduce_get_workspace_size(P, P, int, int, Stream, int, int) {
    return 1;
}
size_t cub_device_scan_get_workspace_size(P, P, int, Stream, int, int) { return 1; }
size_t cub_device_histogram_range_get_workspace_size(P, P, int, P, size_t, Stream, int) {
    return 1;
}
size_t cub_device_histogram_even_get_workspace_size(P, P, int, int, int, size_t, Stream, int) {
    return 1;
}
