// libcublas.so.12 on NumPy's OpenBLAS: products of float32 and float64. Every other type, precision
// (TF32) and call is refused, the calls by build.py's stubs.
#include <cstddef>
#include <cstdint>
extern "C" void fake_note(const char*, const char*, size_t);
extern "C" int fake_refuse(const char*, int);
extern "C" int fake_is_idle();
typedef int Status;
typedef void* Handle;
enum { OK = 0, INVALID = 7, REFUSED = 15 };
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

template <class T>
static Status product(int ta, int tb, int m, int n, int k, const T* alpha, const T* a, int lda,
                      const T* b, int ldb, const T* beta, T* c, int ldc) {
    if (lda < (ta ? k : m) || ldb < (tb ? n : k) || ldc < m) return INVALID;
    if (!fake_is_idle())
        gemm_of(T())(102, ta ? 112 : 111, tb ? 112 : 111, m, n, k, *alpha, a, lda, b, ldb, *beta,
                     c, ldc);
    return OK;
}
static Status typed(int ta, int tb, int m, int n, int k, const void* alpha, const void* a, int at,
                    int64_t a0, int lda, const void* b, int bt, int64_t b0, int ldb,
                    const void* beta, void* c, int ct, int64_t c0, int ldc, int compute) {
    if (at != bt || at != ct) return fake_refuse("products of mixed types", REFUSED);
    if (at == FLOAT32 && compute == COMPUTE_32F)
        return product(ta, tb, m, n, k, (const float*)alpha, (const float*)a + a0, lda,
                       (const float*)b + b0, ldb, (const float*)beta, (float*)c + c0, ldc);
    if (at == FLOAT64 && compute == COMPUTE_64F)
        return product(ta, tb, m, n, k, (const double*)alpha, (const double*)a + a0, lda,
                       (const double*)b + b0, ldb, (const double*)beta, (double*)c + c0, ldc);
    return fake_refuse("products of this type or precision", REFUSED);
}

extern "C" {
Status cublasCreate_v2(Handle* h) { *h = (Handle)1; return OK; }
Status cublasGetVersion_v2(Handle, int* v) { *v = 120902; return OK; }
Status cublasGetPointerMode_v2(Handle, int* mode) { *mode = 0; return OK; }    // one memory
Status cublasGetMathMode(Handle, int* mode) { *mode = 0; return OK; }
Status cublasSetMathMode(Handle, int mode) {
    return mode ? fake_refuse("cuBLAS's math modes", REFUSED) : OK;
}

#define GEMM(letter, T) \
    Status cublas##letter##gemm_v2(Handle, int ta, int tb, int m, int n, int k, const T* alpha, \
                                   const T* a, int lda, const T* b, int ldb, const T* beta, \
                                   T* c, int ldc) { \
        fake_note("product", "cublas" #letter "gemm", 0); \
        return product(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc); \
    } \
    Status cublas##letter##gemmBatched(Handle, int ta, int tb, int m, int n, int k, \
                                       const T* alpha, const T* const* a, int lda, \
                                       const T* const* b, int ldb, const T* beta, T* const* c, \
                                       int ldc, int batch) { \
        fake_note("product", "cublas" #letter "gemmBatched", 0); \
        Status status = OK; \
        for (int i = 0; i < batch && status == OK && !fake_is_idle(); i++) \
            status = product(ta, tb, m, n, k, alpha, a[i], lda, b[i], ldb, beta, c[i], ldc); \
        return status; \
    }
GEMM(S, float)
GEMM(D, double)
Status cublasGemmEx(Handle, int ta, int tb, int m, int n, int k, const void* alpha, const void* a,
                    int at, int lda, const void* b, int bt, int ldb, const void* beta, void* c,
                    int ct, int ldc, int compute, int) {
    fake_note("product", "cublasGemmEx", 0);
    return typed(ta, tb, m, n, k, alpha, a, at, 0, lda, b, bt, 0, ldb, beta, c, ct, 0, ldc,
                 compute);
}
Status cublasGemmStridedBatchedEx(Handle, int ta, int tb, int m, int n, int k, const void* alpha,
                                  const void* a, int at, int lda, long long as, const void* b,
                                  int bt, int ldb, long long bs, const void* beta, void* c, int ct,
                                  int ldc, long long cs, int batch, int compute, int) {
    fake_note("product", "cublasGemmStridedBatchedEx", 0);
    Status status = OK;
    for (int i = 0; i < batch && status == OK && !fake_is_idle(); i++)
        status = typed(ta, tb, m, n, k, alpha, a, at, i * as, lda, b, bt, i * bs, ldb, beta, c, ct,
                       i * cs, ldc, compute);
    return status;
}
}
