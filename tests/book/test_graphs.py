"""The drawn graphs: no line is lost behind a box."""

import itertools

import numpy as np
import pytest

import npdl
from npdl.study.check import samples

pytest.importorskip("pygments")

from docs.book import graphs


@pytest.mark.slow
@pytest.mark.parametrize("name", ("LSTMCell", "GRUCell", "Block", "LayerNorm"))
def test_no_line_passes_behind_a_box(name):
    layer, inputs, options = samples.sample(getattr(npdl, name))
    recording = npdl.step(layer, *inputs, **options).recording
    for phase in ("forward", "backward"):
        nodes = graphs.nodes_of(recording, phase)
        graphs.placed(nodes)
        boxes = np.array([node.at for node in nodes])[:, None]
        for one, node in [(read, made) for made in nodes for read in made.made_of]:
            line = np.array(graphs.route(one, node, nodes))
            assert (line[1:, 1] > line[:-1, 1]).all() and len(line) >= 2
            for start, end in itertools.pairwise(line):
                at = start + np.linspace(0, 1, 50)[:, None] * (end - start)
                inside = np.abs(at - boxes) < [graphs.BOX / 2, graphs.HIGH / 2 - 1e-6]
                assert not inside.all(-1).any(), (phase, one.name, node.name)
