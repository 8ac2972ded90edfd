# negsamp: sign|1 - |- 1|term|1
import numpy as np


def logistic(u):
    return 1.0 / (1.0 + np.exp(-u))


def negsamp_sample():
    rng = np.random.default_rng(11)
    return rng.normal(size=4), rng.normal(size=4), rng.normal(size=(3, 4))


def negsamp_forward(center, positive, negatives):
    good = logistic(positive @ center)
    bad = logistic(-(negatives @ center))
    loss = -np.log(good) - np.log(bad).sum()
    return loss, (center, positive, negatives, good, bad)


def negsamp_backward(dloss, cache):
    center, positive, negatives, good, bad = cache
    dgood = dloss * (good - 1)
    dbad = dloss * (bad - 1)  #~
    dcenter = dgood * positive + dbad @ negatives
    dpositive = dgood * center
    dnegatives = np.outer(dbad, center)
    return dcenter, dpositive, dnegatives
