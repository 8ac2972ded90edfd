"""Kernels of npdl's own for a GPU, each a page of CUDA C: LayerNorm, softmax and attention over few
positions, where CuPy's kernels would be many.

Sums are made in a fixed order, so the same numbers come again. A sum over a row is made by one
warp, whose lanes exchange by shuffles; one down a column by a thread, in two stages.
"""

import functools
import math

import numpy as np

from npdl.backend import is_host, xp

SHORT = 16              # positions up to which a block's own memory holds all that attention reads
ROWS = 8                # rows of a block, each a warp's
CHUNK = 64              # rows that one thread adds down a column

WARP = r"""
#define ALL 0xffffffffu
__device__ T sum_of(T x) { for (int o = 16; o; o >>= 1) x += __shfl_xor_sync(ALL, x, o); return x; }
__device__ T top_of(T x) {
    for (int o = 16; o; o >>= 1) { T y = __shfl_xor_sync(ALL, x, o); x = y > x || y != y ? y : x; }
    return x;
}
"""

NORM = WARP + r"""
// y = gain x_hat + bias, x_hat = (x - mean) / sqrt(var + eps), after x += late + plus: a warp a
// row.
// The mean is that of the differences to the first entry: equal entries become 0.
extern "C" __global__ void norm_rows(T* x, const T* plus, const T* late, const T* gain,
                                     const T* bias, T* x_hat, T* y, T* squares, int N, int D,
                                     T eps) {
    int row = blockIdx.x * blockDim.y + threadIdx.y, lane = threadIdx.x;
    if (row >= N) return;
    long long at = (long long)row * D;
    T sum = 0, square = 0;
    for (int i = lane; i < D; i += 32) {
        if (late) x[at + i] += late[i];
        if (plus) x[at + i] += plus[at + i];
    }
    T first = __shfl_sync(ALL, lane < D ? x[at + lane] : 0, 0);
    for (int i = lane; i < D; i += 32) sum += x[at + i] - first;
    T mean = sum_of(sum) * ((T)1 / D);
    for (int i = lane; i < D; i += 32) {
        T centred = x[at + i] - first - mean;
        x_hat[at + i] = centred;
        square += centred * centred;
    }
    square = sum_of(square);
    T var = square * ((T)1 / D);
    T scale = 1 / sqrt(var + (var - var) + eps);            // infinite squares: NaN, not 0
    for (int i = lane; i < D; i += 32) {
        T h = x_hat[at + i] * scale;
        x_hat[at + i] = h;
        y[at + i] = bias ? h * gain[i] + bias[i] : h * gain[i];
    }
    if (lane == 0) squares[row] = square;
}
// partial[chunk] = the sums of dy x_hat and of dy down the columns of a chunk of rows
extern "C" __global__ void norm_sums(const T* dy, const T* x_hat, T* partial, int N, int D,
                                     int chunk) {
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= D) return;
    T a = 0, b = 0;
    int begin = blockIdx.y * chunk, end = min(begin + chunk, N);
    for (int row = begin; row < end; row++) {
        T d = dy[(long long)row * D + column];
        a += d * x_hat[(long long)row * D + column];
        b += d;
    }
    partial[(2 * blockIdx.y) * D + column] = a;
    partial[(2 * blockIdx.y + 1) * D + column] = b;
}
// dx = (dx_hat - mean(dx_hat) - x_hat mean(dx_hat x_hat)) / std, dx_hat = gain dy: a warp for each
// row, over dy; after the rows' blocks, others finish the sums: gain.grad and bias.grad
extern "C" __global__ void norm_back(T* dy, const T* x_hat, const T* squares, const T* gain,
                                     const T* partial, T* dgain, T* dbias, int N, int D, T eps,
                                     int blocks, int chunks, int first_gain, int first_bias) {
    int lane = threadIdx.x, row = blockIdx.x * blockDim.y + threadIdx.y;
    if (blockIdx.x >= blocks) {
        int column = ((blockIdx.x - blocks) * blockDim.y + threadIdx.y) * 32 + lane;
        if (column >= D) return;
        T a = 0, b = 0;
        for (int i = 0; i < chunks; i++) {
            a += partial[(2 * i) * D + column];
            b += partial[(2 * i + 1) * D + column];
        }
        if (dgain) dgain[column] = first_gain ? a : dgain[column] + a;
        if (dbias) dbias[column] = first_bias ? b : dbias[column] + b;
        return;
    }
    if (row >= N) return;
    long long at = (long long)row * D;
    T shift = 0, stretch = 0;
    for (int i = lane; i < D; i += 32) {
        T d = dy[at + i] * gain[i];
        shift += d;
        stretch += d * x_hat[at + i];
    }
    shift = sum_of(shift) * ((T)1 / D);
    stretch = sum_of(stretch) * ((T)1 / D);
    T scale = 1 / sqrt(squares[row] * ((T)1 / D) + eps);
    for (int i = lane; i < D; i += 32)
        dy[at + i] = (dy[at + i] * gain[i] - shift - x_hat[at + i] * stretch) * scale;
}
"""

ATTENTION = r"""
// softmax(scale q k^T + hidden) v: a block for each sequence and head, in the block's own memory.
// The row of position s and sequence n is s n_all + n; rows of q, k, v have strides of their own.
extern "C" __global__ void attend(const T* q, const T* kv, const T* hidden, T* h, T* A, T scale,
                                  int n_all, int heads, int R, int S, int d, long long q_row,
                                  long long k_row, long long to_v) {
    extern __shared__ T m[];
    const int E = d + 1;                                    // so that a column is in many banks
    T *Q = m, *K = Q + R * E, *V = K + S * E, *P = V + S * E;
    int n = blockIdx.x / heads, head = blockIdx.x % heads * d, t = threadIdx.x, all = blockDim.x;
    for (int i = t; i < R * d; i += all)
        Q[i / d * E + i % d] = q[((long long)(i / d) * n_all + n) * q_row + head + i % d];
    for (int i = t; i < S * d; i += all) {
        long long at = ((long long)(i / d) * n_all + n) * k_row + head + i % d;
        K[i / d * E + i % d] = kv[at];
        V[i / d * E + i % d] = kv[at + to_v];
    }
    __syncthreads();
    for (int i = t; i < R * S; i += all) {                  // the scores
        T sum = 0;
        for (int e = 0; e < d; e++) sum += Q[i / S * E + e] * K[i % S * E + e];
        P[i] = hidden ? sum * scale + hidden[i] : sum * scale;
    }
    __syncthreads();
    for (int r = t; r < R; r += all) {                      // their softmax
        T top = P[r * S], sum = 0;
        for (int s = 1; s < S; s++) top = P[r * S + s] > top ? P[r * S + s] : top;
        for (int s = 0; s < S; s++) sum += P[r * S + s] = exp(P[r * S + s] - top);
        for (int s = 0; s < S; s++)
            A[((long long)blockIdx.x * R + r) * S + s] = P[r * S + s] /= sum;
    }
    __syncthreads();
    for (int i = t; i < R * d; i += all) {                  // y = A v
        T sum = 0;
        for (int s = 0; s < S; s++) sum += P[i / d * S + s] * V[s * E + i % d];
        h[((long long)(i / d) * n_all + n) * heads * d + head + i % d] = sum;
    }
}
// dA = dy v^T, dscores = scale A (dA - sum(A dA)), dq = dscores k, dk = dscores^T q, dv = A^T dy
extern "C" __global__ void attend_back(const T* q, const T* kv, const T* A, const T* dh, T* dq,
                                       T* dkv, T scale, int n_all, int heads, int R, int S, int d,
                                       long long q_row, long long k_row, long long to_v,
                                       long long dq_row, long long dk_row, long long to_dv) {
    extern __shared__ T m[];
    const int E = d + 1;
    T *Q = m, *K = Q + R * E, *V = K + S * E, *G = V + S * E, *P = G + R * E, *B = P + R * S;
    int n = blockIdx.x / heads, head = blockIdx.x % heads * d, t = threadIdx.x, all = blockDim.x;
    for (int i = t; i < R * d; i += all) {
        long long row = (long long)(i / d) * n_all + n;
        Q[i / d * E + i % d] = q[row * q_row + head + i % d];
        G[i / d * E + i % d] = dh[row * heads * d + head + i % d];
    }
    for (int i = t; i < S * d; i += all) {
        long long at = ((long long)(i / d) * n_all + n) * k_row + head + i % d;
        K[i / d * E + i % d] = kv[at];
        V[i / d * E + i % d] = kv[at + to_v];
    }
    for (int i = t; i < R * S; i += all) P[i] = A[(long long)blockIdx.x * R * S + i];
    __syncthreads();
    for (int i = t; i < R * S; i += all) {
        T sum = 0;
        for (int e = 0; e < d; e++) sum += G[i / S * E + e] * V[i % S * E + e];
        B[i] = sum;
    }
    __syncthreads();
    for (int r = t; r < R; r += all) {
        T along = 0;
        for (int s = 0; s < S; s++) along += P[r * S + s] * B[r * S + s];
        for (int s = 0; s < S; s++) B[r * S + s] = scale * (P[r * S + s] * (B[r * S + s] - along));
    }
    __syncthreads();
    for (int i = t; i < R * d; i += all) {
        T sum = 0;
        for (int s = 0; s < S; s++) sum += B[i / d * S + s] * K[s * E + i % d];
        dq[((long long)(i / d) * n_all + n) * dq_row + head + i % d] = sum;
    }
    for (int i = t; i < S * d; i += all) {
        T dk = 0, dv = 0;
        for (int r = 0; r < R; r++) {
            dk += B[r * S + i / d] * Q[r * E + i % d];
            dv += P[r * S + i / d] * G[r * E + i % d];
        }
        long long at = ((long long)(i / d) * n_all + n) * dk_row + head + i % d;
        dkv[at] = dk;
        dkv[at + to_dv] = dv;
    }
}
"""

SOFTMAX = WARP + r"""
// x <- softmax(scale x + hidden) over rows of S: a warp for each row, R rows to each hidden (R, S)
extern "C" __global__ void softmax(T* x, const T* hidden, T scale, long long rows, int R, int S) {
    long long row = (long long)blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= rows) return;
    T *p = x + row * S, top = -INFINITY, sum = 0;
    const T* h = hidden ? hidden + row % R * S : 0;
    for (int j = threadIdx.x; j < S; j += 32) {
        T score = h ? p[j] * scale + h[j] : p[j] * scale;
        top = score > top || score != score ? score : top;
    }
    top = top_of(top);
    for (int j = threadIdx.x; j < S; j += 32) {
        p[j] = exp((h ? p[j] * scale + h[j] : p[j] * scale) - top);
        sum += p[j];
    }
    sum = sum_of(sum);
    for (int j = threadIdx.x; j < S; j += 32) p[j] /= sum;
}
// d <- scale y (d - sum(d y))
extern "C" __global__ void softmax_back(T* d, const T* y, T scale, long long rows, int S) {
    long long row = (long long)blockIdx.x * blockDim.y + threadIdx.y, at = row * S;
    if (row >= rows) return;
    T along = 0;
    for (int j = threadIdx.x; j < S; j += 32) along += d[at + j] * y[at + j];
    along = sum_of(along);
    for (int j = threadIdx.x; j < S; j += 32) d[at + j] = scale * (y[at + j] * (d[at + j] - along));
}
"""

NUMBERS = {"float32": ("float", np.float32), "float64": ("double", np.float64)}
NONE = np.uintp(0)      # a pointer to nothing


def possible():
    """Whether the backend compiles kernels."""
    return not is_host() and hasattr(xp, "RawKernel")


@functools.cache
def compiled(cupy, source, name, dtype):
    text = "#ifndef INFINITY\n#define INFINITY __int_as_float(0x7f800000)\n#endif\n"
    return cupy.RawKernel(f"{text}#define T {NUMBERS[dtype][0]}\n{source}", name)


def launch(source, name, x, grid, block, arguments, shared=0):
    """Start a kernel on arrays, numbers (a float in x's dtype), None for a pointer to nothing."""
    number = NUMBERS[x.dtype.name][1]
    kinds = {int: np.int32, float: number, type(None): lambda _: NONE}
    given = tuple(kinds.get(type(each), lambda same: same)(each) for each in arguments)
    compiled(xp._module, source, name, x.dtype.name)(grid, block, given, shared_mem=shared)


def warps(rows):
    """Grid and block of one warp for each row."""
    return (-(-rows // ROWS),), (32, ROWS)


def norm(x, plus, late, gain, bias, eps, x_hat, y, squares):
    """LayerNorm.forward, kernel `norm_rows`."""
    N, D = x.shape
    launch(NORM, "norm_rows", x, *warps(N),
           (x, plus, late, gain, bias, x_hat, y, squares, N, D, float(eps)))


def norm_backward(dy, x_hat, squares, gain, dgain, dbias, eps, firsts, partial):
    """LayerNorm.backward, over dy; kernels `norm_sums`, `norm_back`. `partial` (chunks, 2, D)."""
    (N, D), chunks = dy.shape, len(partial)
    launch(NORM, "norm_sums", dy, (-(-D // 128), chunks), (128,),
           (dy, x_hat, partial, N, D, CHUNK))
    blocks = -(-N // ROWS)
    launch(NORM, "norm_back", dy, (blocks + -(-D // (32 * ROWS)),), (32, ROWS),
           (dy, x_hat, squares, gain, partial, dgain, dbias, N, D, float(eps), blocks, chunks,
            *map(int, firsts)))


def softmax(x, scale, hidden):
    """softmax(scale x + hidden) over the last axis of (..., R, S), over x."""
    R, S = x.shape[-2:]
    rows = x.size // S
    launch(SOFTMAX, "softmax", x, *warps(rows), (x, hidden, float(scale), np.int64(rows), R, S))


def softmax_backward(d, y, scale):
    """Its gradient, (N, S), over d."""
    rows, S = d.shape
    launch(SOFTMAX, "softmax_back", d, *warps(rows), (d, y, float(scale), np.int64(rows), S))


def is_short(q, heads, R, S):
    """Whether attention over so few positions is one kernel each way."""
    d = q.shape[1] // heads
    return (possible() and 0 < R <= SHORT and S <= SHORT
            and q.itemsize * ((2 * R + 2 * S) * (d + 1) + 2 * R * S) <= 48 << 10)


def strides(*arrays):
    """In numbers: of the rows, and of what is stacked before them."""
    return [np.int64(step // x.itemsize) for x in arrays for step in x.strides[-2::-1]]


def attend(q, kv, hidden, h, A, n, heads):
    """MultiHeadAttention's inside, kernel `attend`: q (R n, D), kv (2, S n, D) -> h, A."""
    R, S = A.shape[-2:]
    d = q.shape[1] // heads
    launch(ATTENTION, "attend", q, (n * heads,), (64 if R * S < 64 else 128,),
           (q, kv, hidden, h, A, 1 / math.sqrt(d), n, heads, R, S, d, *strides(q, kv)),
           q.itemsize * ((R + 2 * S) * (d + 1) + R * S))


def attend_backward(q, kv, A, dh, dq, dkv, n, heads):
    """Its gradient, kernel `attend_back`: fills dq and dkv of the keys that are looked at."""
    R, S = A.shape[-2:]
    d = q.shape[1] // heads
    launch(ATTENTION, "attend_back", q, (n * heads,), (64 if R * S < 64 else 128,),
           (q, kv, A, dh, dq, dkv, 1 / math.sqrt(d), n, heads, R, S, d,
            *strides(q, kv, dq, dkv)), q.itemsize * ((2 * R + 2 * S) * (d + 1) + 2 * R * S))
