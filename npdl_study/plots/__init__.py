"""Pictures of learning: `python -m npdl plot WHAT [RUN]`.

A call passes plotting (options; loads the run), then the module of the picture, then style (how
all look; save writes the PNG):

    through_time         gradients: how far back they reach, RNN, GRU, LSTM
    flow                 activations and gradients of each layer
    attention_maps       where each head looks
    embedding_spectrum   principal components and Fourier spectrum; experiments ask it too
"""
