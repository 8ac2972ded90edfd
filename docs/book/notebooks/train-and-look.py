# %% [markdown]
# # Train a small GPT and look inside
#
# Addition modulo 5, two heads, a few seconds: a training loop in full, its curve, and where each
# head looks. Where there is a GPU with CuPy, the same lines run on it.

# %%
import matplotlib.pyplot as plt
import numpy as np

from npdl import GPT, AdamW, SequenceLoss, backend, clip_by_global_norm
from npdl.data import ModularArithmetic, batch_indices
from npdl.errors import BackendError
from npdl.losses import exact_match

try:
    backend.use("cupy")
except BackendError as error:
    print(error)                                        # no GPU: NumPy it is

# %%
data = ModularArithmetic(p=5)
model = GPT(data.vocabulary.size, d_model=16, num_heads=2, max_len=data.sequence_length)
model.to_backend()
model.summary()

# %%
optimizer = AdamW(model, lr=3e-3, weight_decay=1.0)
loss_of, losses, right = SequenceLoss(), [], []

for step in range(200):
    batch = data.train.take(batch_indices(len(data.train), 512, step, seed=0))
    ids, targets, asked = map(backend.to_device, (batch.inputs, batch.targets, batch.answer_mask))
    logits, cache = model.forward(ids)
    loss, c_loss = loss_of.forward(logits, targets, asked)
    optimizer.zero_grad()
    model.backward(loss_of.backward(1.0, c_loss), cache)
    clip_by_global_norm(optimizer.params.values(), 1.0)
    optimizer.step()
    losses.append(float(loss))
    right.append(float(exact_match(logits, targets, asked)))

assert losses[-1] < losses[0]
print(f"loss {losses[0]:.3f} -> {losses[-1]:.3f}, answers right {right[-1]:.0%}")

# %%
figure, axes = plt.subplots(1, 2, figsize=(8, 2.6), layout="constrained")
axes[0].plot(losses)
axes[0].set(title="loss", xlabel="step")
axes[1].plot(right)
axes[1].set(title="answers right", xlabel="step", ylim=(0, 1.05))
plt.show()

# %% [markdown]
# Where each head of the first layer looks, on one sequence: rows are readers, columns what is read.

# %%
from npdl.models.gpt import attentions

logits, cache = model.forward(data.train.take(np.arange(1)).inputs)
maps = backend.to_host(attentions(cache))[0, 0]
figure, axes = plt.subplots(1, len(maps), figsize=(6, 2.8), layout="constrained")
for head, (axis, weights) in enumerate(zip(axes, maps, strict=True)):
    axis.imshow(weights, cmap="Blues", vmin=0, vmax=1)
    axis.set(title=f"head {head}", xlabel="read", ylabel="reader")
plt.show()

# %% [markdown]
# How long training takes until it generalises, and what it has learned by then, is chapter 17
# of the book. The full run: `python experiments/train_gpt.py`, with `--backend cupy` on a GPU.
