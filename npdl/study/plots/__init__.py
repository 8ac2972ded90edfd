"""Plot the activations, the weights and the training of a model: `python -m npdl plot WHAT [RUN]`.

    plotting             the command; it loads the run
    through_time         gradients: how far back they reach in an RNN, a GRU and an LSTM
    flow                 activations and gradients of each layer
    attention_maps       attention weights of each head
    embedding_spectrum   principal components and Fourier spectrum of the embeddings
"""
