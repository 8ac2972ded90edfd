"""An LSTM's gates as kernels of npdl's own for a GPU: one for each position each way."""

from npdl_train.fast.cuda import launch

GATES = r"""
// z (n, 4 H) is x W_x + h W_h; b or c_prev may be null: zeros. A thread for each unit of each row.
// i, f, o = sigmoid(z + b), g = tanh(z + b), left in z; c = f c_prev + i g, h = o tanh(c)
__device__ T sigmoid(T x) { return tanh(x * (T)0.5) * (T)0.5 + (T)0.5; }
extern "C" __global__ void gates(T* z, const T* b, const T* c_prev, T* c, T* tanh_c, T* h, int n,
                                 int H) {
    long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= (long long)n * H) return;
    int unit = at % H;
    T* own = z + at / H * 4 * H + unit;
    T each[4];
    for (int k = 0; k < 4; k++) each[k] = b ? own[k * H] + b[k * H + unit] : own[k * H];
    T i = sigmoid(each[0]), f = sigmoid(each[1]), o = sigmoid(each[2]), g = tanh(each[3]);
    T now = c_prev ? i * g + f * c_prev[at] : i * g, turned = tanh(now);
    own[0] = i; own[H] = f; own[2 * H] = o; own[3 * H] = g;
    c[at] = now;
    tanh_c[at] = turned;
    h[at] = o * turned;
}
// dc += dh o (1 - tanh(c)^2), di = dc g, df = dc c_prev, do = dh tanh(c), dg = dc i; with the
// slopes of sigmoid and tanh, s (1 - s) and 1 - g^2, they are dz; then dc <- dc f, for the
// position before. `first`: there was no dc yet.
extern "C" __global__ void gates_back(const T* z, const T* c_prev, const T* tanh_c, const T* dh,
                                      T* dc, T* dz, int n, int H, int first) {
    long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= (long long)n * H) return;
    long long own = at / H * 4 * H + at % H;
    T i = z[own], f = z[own + H], o = z[own + 2 * H], g = z[own + 3 * H];
    T d = dh[at], t = tanh_c[at], now = d * o * (1 - t * t);
    if (!first) now += dc[at];
    dz[own] = now * g * i * (1 - i);
    dz[own + H] = c_prev ? now * c_prev[at] * f * (1 - f) : now * 0;
    dz[own + 2 * H] = d * t * o * (1 - o);
    dz[own + 3 * H] = now * i * (1 - g * g);
    dc[at] = now * f;
}
"""
THREADS = 128


def gates(z, b, c_prev, c, tanh_c, h):
    """LSTMCell.forward from z (n, 4 H), kernel `gates`: the gates over z; fills c, tanh_c, h."""
    n, H = h.shape
    launch(GATES, "gates", h, (-(-h.size // THREADS),), (THREADS,),
           (z, b, c_prev, c, tanh_c, h, n, H))


def gates_backward(z, c_prev, tanh_c, dh, dc, dz, first):
    """LSTMCell.backward to dz (n, 4 H), kernel `gates_back`; dc becomes the position before's."""
    n, H = dh.shape
    launch(GATES, "gates_back", dh, (-(-dh.size // THREADS),), (THREADS,),
           (z, c_prev, tanh_c, dh, dc, dz, n, H, int(first)))
