"""Both ends of a step as kernels of npdl's own for a GPU: the look-up of tokens and positions; the
loss with its gradient, and the clipping of all gradients by their common norm.

A sum over everything is made in two stages, of which the second adds the first's in a fixed order.
"""

from npdl.backend import xp
from npdl_train.fast.cuda import NUMBERS, WARP, launch, warps

THREADS = 256           # of a block; of which eight warps
BLOCKS = 128            # that add up a gradient's squares

LOOK_UP = r"""
// x[n] = W[token[n]] + P[position[n]]: a thread for each entry. P, of another type U, is read as it
// is now: a table that is changed in place is obeyed.
extern "C" __global__ void look_up(const T* W, const long long* token, const U* P,
                                   const long long* position, T* x, int N, int D) {
    long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x, n = at / D, i = at % D;
    if (n < N) x[at] = W[token[n] * D + i] + (T)P[position[n] * D + i];
}
"""

SUMS = WARP + r"""
// The sum of what the 256 threads of a block bring, for all of them
__device__ T sum_of_block(T x) {
    __shared__ T parts[8];
    x = sum_of(x);
    __syncthreads();
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
    __syncthreads();
    T sum = 0;
    for (int i = 0; i < 8; i++) sum += parts[i];
    return sum;
}
"""

LOSS = SUMS + r"""
// A warp for each row: p = softmax(x), loss = -weight log p[target], x <- (p - q) weight, where q
// is 1 at the target; weight[row] share stands for weight
extern "C" __global__ void loss_rows(T* x, const long long* target, const T* weight, T share,
                                     T* loss, int E, int V) {
    int row = blockIdx.x * blockDim.y + threadIdx.y, lane = threadIdx.x;
    if (row >= E) return;
    T *p = x + (long long)row * V, top = -INFINITY, sum = 0;
    for (int j = lane; j < V; j += 32) top = p[j] > top || p[j] != p[j] ? p[j] : top;
    top = top_of(top);
    for (int j = lane; j < V; j += 32) sum += exp(p[j] - top);
    T rest = log(sum_of(sum)), own = weight[row] * share;
    for (int j = lane; j < V; j += 32) {
        T log_p = p[j] - top - rest, hit = j == target[row];
        if (hit) loss[row] = -log_p * own;
        p[j] = (exp(log_p) - hit) * own;
    }
}
// total = the sum of loss (E,), by one block
extern "C" __global__ void loss_sum(const T* loss, T* total, int E) {
    T sum = 0;
    for (int i = threadIdx.x; i < E; i += blockDim.x) sum += loss[i];
    sum = sum_of_block(sum);
    if (threadIdx.x == 0) *total = sum;
}
"""

CLIP = SUMS + r"""
// partial[block] = a sum of squares of g (n,)
extern "C" __global__ void squares(const T* g, T* partial, int n) {
    T sum = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        sum += g[i] * g[i];
    sum = sum_of_block(sum);
    if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}
// norm = sqrt(the sum of `partial`, as many as blocks); g <- g min(1, max_norm / (norm + 1e-6)).
// Each block makes that sum for itself. An infinite norm: NaN, not 0.
extern "C" __global__ void scale(T* g, const T* partial, const T* max_norm, T* norm, int n) {
    T sum = sum_of_block(threadIdx.x < gridDim.x ? partial[threadIdx.x] : 0);
    T whole = sqrt(sum), share = *max_norm / (whole + (whole - whole) + (T)1e-6);
    if (share > 1) share = 1;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        g[i] *= share;
    if (blockIdx.x == 0 && threadIdx.x == 0) *norm = whole;
}
"""


def look_up(W, tokens, P, positions, x):
    """x (N, D) = W[tokens] + P[positions], kernel `look_up`."""
    N, D = x.shape
    tables = [xp.ascontiguousarray(table) for table in (W, P)]
    index = [each.astype("i8", copy=False) for each in (tokens, positions)]
    source = f"#define U {NUMBERS[P.dtype.name][0]}\n{LOOK_UP}"
    launch(source, "look_up", x, (-(-x.size // THREADS),), (THREADS,),
           (tables[0], index[0], tables[1], index[1], x, N, D))


def loss(x, targets, weight, share, each, total):
    """SequenceLoss.forward and backward of logits (E, V), over x; kernels `loss_rows`, `loss_sum`.
    Fills `each` (E,) and `total` (1,)."""
    (E, V), targets = x.shape, targets.astype("i8", copy=False)
    launch(LOSS, "loss_rows", x, *warps(E), (x, targets, weight, float(share), each, E, V))
    launch(LOSS, "loss_sum", x, (1,), (THREADS,), (each, total, E))


def clip(g, max_norm):
    """npdl.optim.clip_by_global_norm of g (n,); kernels `squares`, `scale`. `max_norm` (1,) is on
    the device. Returns the norm, an array of no axes."""
    blocks = min(BLOCKS, -(-g.size // THREADS))
    partial, norm = xp.empty(blocks, g.dtype), xp.empty((), g.dtype)
    launch(CLIP, "squares", g, (blocks,), (THREADS,), (g, partial, g.size))
    launch(CLIP, "scale", g, (blocks,), (THREADS,), (g, partial, max_norm, norm, g.size))
    return norm
