// libcublas.so.12 on NumPy's OpenBLAS: products of float32 and float64. Every other type, precision
// (TF32) and call is refused, the calls by build.py's stubs.
#include <cstddef>
#include <cstdint>
#include "card.h"
typedef int Status;
// Setting its stream gives it the default workspace again, as cuBLAS does
struct Library { void* stream; void* space; };
typedef Library* Handle;
enum { OK = 0, INVALID = 7, FAILED = 13, REFUSED = 15 };
enum { FLOAT32 = 0, FLOAT64 = 1, COMPUTE_32F = 68, COMPUTE_64F = 70 };

template <class T>
using Gemm = void (*)(int, int, int, int64_t, int64_t, int64_t, T, const T*, int64_t, const T*,
                      int64_t, T, T*, int64_t);
static Gemm<float> sgemm;
static Gemm<double> dgemm;
extern "C" void fake_gemm(void* single, void* twice) {         // from Python, at the start
    sgemm = (Gemm<float>)single;
    dgemm = (Gemm<double>)twice;
}
static Gemm<float> gemm_of(float) { return sgemm; }
static Gemm<double> gemm_of(double) { return dgemm; }

template <class T> struct Product {
    int ta, tb, m, n, k;
    T alpha, beta;
    int lda, ldb, ldc;
    bool wrong() const { return lda < (ta ? k : m) || ldb < (tb ? n : k) || ldc < m; }
    void into(T* c, const T* a, const T* b) const {
        gemm_of(T())(102, ta ? 112 : 111, tb ? 112 : 111, m, n, k, alpha, a, lda, b, ldb, beta, c,
                     ldc);
    }
};
static Status queued(Handle h, const char* name, std::function<void()> work) {
    bool bare = fake_is_captured(h->stream) && !h->space;
    std::string said = std::string(name) + (bare ? ", default workspace" : "");
    return fake_work(h->stream, "product", said, 0, work) ? FAILED : OK;
}
template <class T>
static Status strided(Handle h, const char* name, Product<T> p, const T* a, long long as,
                      const T* b, long long bs, T* c, long long cs, int batch) {
    if (p.wrong()) return INVALID;
    return queued(h, name, [=] {
        for (int i = 0; i < batch; i++) p.into(c + i * cs, a + i * as, b + i * bs);
    });
}
static Status typed(Handle h, const char* name, int ta, int tb, int m, int n, int k,
                    const void* alpha, const void* a, int at, int lda, long long as, const void* b,
                    int bt, int ldb, long long bs, const void* beta, void* c, int ct, int ldc,
                    long long cs, int batch, int compute) {
    if (at != bt || at != ct) return fake_refuse("products of mixed types", REFUSED);
#define OF(T) strided<T>(h, name, {ta, tb, m, n, k, *(const T*)alpha, *(const T*)beta, lda, ldb, \
                                   ldc}, (const T*)a, as, (const T*)b, bs, (T*)c, cs, batch)
    if (at == FLOAT32 && compute == COMPUTE_32F) return OF(float);
    if (at == FLOAT64 && compute == COMPUTE_64F) return OF(double);
    return fake_refuse("products of this type or precision", REFUSED);
}

extern "C" {
Status cublasCreate_v2(Handle* h) { *h = new Library{}; return OK; }
Status cublasDestroy_v2(Handle h) { delete h; return OK; }
Status cublasSetStream_v2(Handle h, void* stream) { *h = {stream, nullptr}; return OK; }
Status cublasGetStream_v2(Handle h, void** stream) { *stream = h->stream; return OK; }
Status cublasSetWorkspace_v2(Handle h, void* space, size_t) { h->space = space; return OK; }
Status cublasGetVersion_v2(Handle, int* v) { *v = 120902; return OK; }
Status cublasGetPointerMode_v2(Handle, int* mode) { *mode = 0; return OK; }    // one memory
Status cublasGetMathMode(Handle, int* mode) { *mode = 0; return OK; }
Status cublasSetMathMode(Handle, int mode) {
    return mode ? fake_refuse("cuBLAS's math modes", REFUSED) : OK;
}

#define GEMM(letter, T) \
    Status cublas##letter##gemm_v2(Handle h, int ta, int tb, int m, int n, int k, const T* alpha, \
                                   const T* a, int lda, const T* b, int ldb, const T* beta, \
                                   T* c, int ldc) { \
        return strided<T>(h, "cublas" #letter "gemm", \
                          {ta, tb, m, n, k, *alpha, *beta, lda, ldb, ldc}, a, 0, b, 0, c, 0, 1); \
    } \
    Status cublas##letter##gemmBatched(Handle h, int ta, int tb, int m, int n, int k, \
                                       const T* alpha, const T* const* a, int lda, \
                                       const T* const* b, int ldb, const T* beta, T* const* c, \
                                       int ldc, int batch) { \
        Product<T> p{ta, tb, m, n, k, *alpha, *beta, lda, ldb, ldc}; \
        if (p.wrong()) return INVALID; \
        return queued(h, "cublas" #letter "gemmBatched", [=] { \
            for (int i = 0; i < batch; i++) p.into(c[i], a[i], b[i]); \
        }); \
    }
GEMM(S, float)
GEMM(D, double)
Status cublasGemmEx(Handle h, int ta, int tb, int m, int n, int k, const void* alpha,
                    const void* a, int at, int lda, const void* b, int bt, int ldb,
                    const void* beta, void* c, int ct, int ldc, int compute, int) {
    return typed(h, "cublasGemmEx", ta, tb, m, n, k, alpha, a, at, lda, 0, b, bt, ldb, 0, beta, c,
                 ct, ldc, 0, 1, compute);
}
Status cublasGemmStridedBatchedEx(Handle h, int ta, int tb, int m, int n, int k,
                                  const void* alpha, const void* a, int at, int lda, long long as,
                                  const void* b, int bt, int ldb, long long bs, const void* beta,
                                  void* c, int ct, int ldc, long long cs, int batch, int compute,
                                  int) {
    return typed(h, "cublasGemmStridedBatchedEx", ta, tb, m, n, k, alpha, a, at, lda, as, b, bt,
                 ldb, bs, beta, c, ct, ldc, cs, batch, compute);
}
}
