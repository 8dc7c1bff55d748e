#!/usr/bin/python3
"""The laws of --partition. The samples that each client gets are compared by chi-square with what NumPy draws by the
definitions of the papers, which are written down here a second time: sizes of clients, the part of a client's most frequent
class, and how many samples of one class a client has. Shards are compared exactly. Seeds are fixed, so nothing here is
left to chance."""
import collections
import json
import os
import sys
import unittest

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
import quern  # noqa: E402 (found by the line before)

CLASSES, N = 10, 20_000
SUPER_OF = np.arange(CLASSES) // 2  # five superclasses of two classes


def improbable(a, b, bins=12):
    """Two samples of numbers: the chi-square of their histograms over equally filled bins, as a standard normal by
    Wilson and Hilferty; a law that differs makes it large."""
    edges = np.unique(np.quantile(np.concatenate([a, b]), np.linspace(0, 1, bins + 1)[1:-1]))
    counts = np.array([np.bincount(np.searchsorted(edges, x, side="right"), minlength=len(edges) + 1) for x in (a, b)])
    counts = counts[:, counts.sum(0) > 0]
    expected = counts.sum(1, keepdims=True) * counts.sum(0) / counts.sum()
    chi, free = ((counts - expected) ** 2 / expected).sum(), counts.shape[1] - 1
    if free == 0:
        return 0.0
    return float(((chi / free) ** (1 / 3) - (1 - 2 / (9 * free))) / (2 / (9 * free)) ** 0.5)


def without_replacement(draw, weights_of, left, size):
    """The classes of a client's samples; what is used up is left out."""
    found = np.zeros(CLASSES, int)
    for _ in range(size):
        c = np.searchsorted(np.cumsum(weights_of(left)), draw.random())
        found[c] += 1
        left[c] -= 1
    return found


def sizes(counts, clients):
    return np.diff(np.arange(clients + 1) * counts.sum() // clients)


def hsu(draw, counts, clients, a):
    """Hsu, Qi and Brown 2019, section 3: q ~ Dir(a p) for each client."""
    left, prior = counts.copy(), counts / counts.sum()
    for size in sizes(counts, clients):
        q = draw.dirichlet(a * prior) + 1e-300
        yield without_replacement(draw, lambda left: (q * (left > 0)) / (q * (left > 0)).sum(), left, size)


def pachinko(draw, counts, clients, a, b):
    """Reddi et al. 2021, appendix F: a superclass, then one of its classes."""
    left, n_supers = counts.copy(), SUPER_OF.max() + 1
    for size in sizes(counts, clients):
        root = draw.dirichlet([a] * n_supers) + 1e-300
        leaf = np.concatenate([draw.dirichlet([b] * (SUPER_OF == s).sum()) for s in range(n_supers)]) + 1e-300

        def weights(left):
            inner = leaf * (left > 0)
            sums = np.bincount(SUPER_OF, inner)
            outer = root * (sums > 0)
            return inner / np.maximum(sums, 1e-300)[SUPER_OF] * outer[SUPER_OF] / outer.sum()

        yield without_replacement(draw, weights, left, size)


def lda(draw, counts, clients, a, least):
    """Yurochkin et al. 2019 with the balancing of its code: p ~ Dir(a) for each class."""
    while True:
        found = np.zeros((clients, CLASSES), int)
        for c in range(CLASSES):
            p = draw.dirichlet([a] * clients) * (found.sum(1) <= counts.sum() / clients)
            cuts = (np.cumsum(p / p.sum()) * counts[c]).astype(int)[:-1]
            found[:, c] = np.diff(np.concatenate([[0], cuts, [counts[c]]]))
        if found.sum(1).min() >= least:
            return found


class Partitions(quern.Case):
    def setUp(self):
        super().setUp()
        draw = np.random.default_rng(5)
        # classes of unequal sizes
        self.y = draw.permutation(np.repeat(np.arange(CLASSES), np.arange(1, CLASSES + 1) * N // 55)).astype(np.int32)
        self.x = (np.arange(4 * len(self.y)) % 251).reshape(-1, 2, 2, 1).astype(np.uint8)
        np.save(self.folder / "x.npy", self.x)
        np.save(self.folder / "y.npy", self.y)
        (self.folder / "supers").write_text("".join(f"{c},{s}\n" for c, s in enumerate(SUPER_OF)))

    def divide(self, kind, clients, seed=1):
        """(clients, classes): numbers of samples, and the classes of all samples."""
        out = f"app-{seed}-{kind.split(':')[0]}"
        self.run_quern("federate", "app", "--model", "mlp", "--data", "npy:x.npy,y.npy", "--holdout", 0.01, "--clients", clients,
                       "--per-round", 2, "--partition", kind, "--seed", seed, "--out", out)
        first, order, y = (np.load(self.folder / out / f"data/{name}.npy") for name in ("first", "order", "train-y"))
        self.assertEqual(sorted(order), list(range(len(y))))
        owner = np.repeat(np.arange(clients), np.diff(first))
        return np.bincount(owner * CLASSES + y[order], minlength=clients * CLASSES).reshape(clients, CLASSES), y

    def compare(self, ours, theirs):
        of = {"size": lambda t: t.sum(1), "largest share": lambda t: t.max(1) / t.sum(1), "class 9": lambda t: t[:, 9],
              "class 3": lambda t: t[:, 3]}
        for name, see in of.items():
            self.assertLess(improbable(see(ours), see(theirs)), 3.5, name)

    def differs(self, ours, theirs):
        share = [t.max(1) / t.sum(1) for t in (ours, theirs)]
        self.assertGreater(improbable(*share), 5)

    def test_hsu(self):
        draw = np.random.default_rng(1)
        for a in (0.5, 10):
            ours, y = self.divide(f"hsu:{a}", 1000, seed=int(a + 1))
            theirs = np.array(list(hsu(draw, np.bincount(y), 1000, a)))
            self.compare(ours[:500], theirs[:500])  # before much is used up, which ties clients to each other
            self.compare(ours[500:], theirs[500:])
            self.differs(ours, np.array(list(hsu(draw, np.bincount(y), 1000, 3 * a))))

    def test_pachinko(self):
        draw = np.random.default_rng(2)
        ours, y = self.divide("pachinko:0.1:10:supers", 1000)
        theirs = np.array(list(pachinko(draw, np.bincount(y), 1000, 0.1, 10)))
        self.compare(ours[:500], theirs[:500])
        self.compare(ours[500:], theirs[500:])
        self.differs(ours, np.array(list(pachinko(draw, np.bincount(y), 1000, 1, 10))))

    def test_lda(self):
        draw = np.random.default_rng(3)
        for a, clients in ((0.5, 100), (1, 400)):
            ours, y = zip(*(self.divide(f"lda:{a}:1", clients, seed) for seed in range(int(a * 10), int(a * 10) + 4)))
            theirs = [lda(draw, np.bincount(y[0]), clients, a, 1) for _ in range(8)]
            self.compare(np.concatenate(ours), np.concatenate(theirs))
            self.differs(np.concatenate(ours), np.concatenate([lda(draw, np.bincount(y[0]), clients, 3 * a, 1)
                                                               for _ in range(8)]))

    def test_shards(self):
        ours, y = self.divide("shards:2", 50)
        n = len(y)
        cuts = [n * i // 100 for i in range(101)]
        shards = collections.Counter(tuple(np.bincount(np.sort(y)[a:b], minlength=CLASSES)) for a, b in zip(cuts, cuts[1:]))
        for client in ours:  # two shards: all pairs are tried
            pair = next((s for s in shards if shards[s] and shards[tuple(client - s)] > (tuple(client - s) == s)), None)
            self.assertIsNotNone(pair, client)
            shards.subtract([pair, tuple(client - pair)])
        self.assertEqual(sum(shards.values()), 0)

    def test_division_is_printed(self):
        done = self.run_quern("federate", "simulate", "--model", "mlp", "--data", "npy:x.npy,y.npy", "--holdout", 0.01, "--clients", 50,
                              "--per-round", 1, "--rounds", 1, "--partition", "hsu:0.5", "--seed", 1, "--json")
        ours, _ = self.divide("hsu:0.5", 50)
        told = done.of("division")[0]
        self.assertAlmostEqual(told["largest_share"], float((ours.max(1) / ours.sum(1)).mean()), 9)
        self.assertEqual((told["samples_least"], told["samples_most"]), (ours.sum(1).min(), ours.sum(1).max()))
        json.dumps(told)

    def test_old_names(self):
        for kind, says in (("dirichlet:0.3", "hsu:3"), ("dirichlet:0.3", "lda:0.3"), ("classes:2", "shards:2")):
            done = self.run_quern("federate", "simulate", "--model", "mlp", "--data", "npy:x.npy,y.npy", "--holdout", 0.01,
                                  "--partition", kind, status=2)
            self.assertIn(says, done.errors)


if __name__ == "__main__":
    unittest.main()
