"""Search for the class colours of ``jplay.palette``.

Two colours are as far apart as they look to the eye that tells them apart worst: the smallest
CIEDE2000 difference under normal vision, deuteranopia and protanopia (Machado, Oliveira and
Fernandes 2009, severity 1). Normal vision has one dimension more, so its differences are divided
by 1.5: without this, hues that only normal vision tells apart would hardly be used.

The order counts: the first k colours should be about as far apart as any k colours can be. For
each k the best distance is found first, by exchanging one colour of the closest pair; then one
ordered list is annealed towards all of them at once.

    python benchmarks/palette.py --seconds 300
"""

import argparse
from time import perf_counter

import numpy as np
from skimage.color import deltaE_ciede2000, rgb2lab

DEFICIENCIES = {
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
}
BACKGROUNDS = np.array([[16, 18, 22], [255, 255, 255]])
FROM_BACKGROUND = 17.0, 12.0
NORMAL_SHARE = 1.5
ENOUGH = 27.0  # Nobody confuses colours that are farther apart.
GRID = np.arange(0, 256, 15)


def seen(rgb):
    """CIELAB coordinates of colours under each kind of vision, normal vision first."""
    rgb = np.asarray(rgb) / 255
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    views = [rgb]
    for matrix in DEFICIENCIES.values():
        light = np.clip(linear @ np.transpose(matrix), 0, 1)
        views.append(
            np.where(light <= 0.0031308, 12.92 * light, 1.055 * light ** (1 / 2.4) - 0.055)
        )
    return [rgb2lab(view) for view in views]


def distances(first, second):
    """Smallest difference over the kinds of vision of each colour from each other one."""
    return np.min(
        [
            deltaE_ciede2000(a[:, None], b[None]) / (NORMAL_SHARE if number == 0 else 1.0)
            for number, (a, b) in enumerate(zip(seen(first), seen(second), strict=True))
        ],
        axis=0,
    )


def candidates():
    """Colours of a grid that stand out from the backgrounds, and their distances."""
    colors = np.stack(np.meshgrid(GRID, GRID, GRID, indexing="ij"), axis=-1).reshape(-1, 3)
    colors = colors[(distances(colors, BACKGROUNDS) >= FROM_BACKGROUND).all(axis=1)]
    parts = np.array_split(colors, len(colors) // 100)
    return colors, np.concatenate([distances(part, colors) for part in parts]).astype(np.float32)


def smallest(D, chosen):
    """Closest pair among the chosen colours, and its distance."""
    part = D[np.ix_(chosen, chosen)] + 1e9 * np.eye(len(chosen), dtype=D.dtype)
    pair = np.unravel_index(part.argmin(), part.shape)
    return pair, float(part[pair])


def spread_out(D, n_colors, rng):
    """Choose colours far apart: one of the closest pair moves while it finds a better place."""
    chosen = [int(rng.integers(len(D)))]
    while len(chosen) < n_colors:
        chosen.append(int(rng.choice(np.argsort(-D[chosen].min(axis=0))[:20])))
    moved = True
    while moved:
        moved = False
        pair, distance = smallest(D, chosen)
        for place in pair:
            rest = chosen[:place] + chosen[place + 1 :]
            gap = D[rest].min(axis=0)
            if gap.max() > distance + 1e-6:
                chosen, moved = [*rest, int(gap.argmax())], True
                break
    return chosen


def ordered(D, chosen):
    """Order colours by taking away, from the last place on, one of the closest pair."""
    chosen, taken = list(chosen), []
    while len(chosen) > 2:
        pair, _ = smallest(D, chosen)
        place = max(pair, key=lambda p: smallest(D, chosen[:p] + chosen[p + 1 :])[1])
        taken.append(chosen.pop(place))
    return chosen + taken[::-1]


def prefix_distances(D):
    """Smallest distance among the first 2, 3, ... colours of a matrix of distances."""
    return np.minimum.accumulate([D[k, :k].min() for k in range(1, len(D))])


def rate(D, best):
    """How near the first k colours come to the best k colours: on average and at the worst."""
    share = np.minimum(prefix_distances(D), ENOUGH) / np.minimum(best, ENOUGH)
    return share.mean() + share.min()


def anneal(D, start, best, rng, n_fixed=0, n_steps=12000):
    """Improve an ordered list by exchanges, moves to a neighbour, and moves to a gap."""
    state, rating = list(start), rate(D[np.ix_(start, start)], best)
    top = list(state), rating
    for step in range(n_steps):
        place, tried = int(rng.integers(n_fixed, len(state))), list(state)
        kind = rng.random()
        if kind < 0.25:
            other = int(rng.integers(n_fixed, len(state)))
            tried[place], tried[other] = tried[other], tried[place]
        elif kind < 0.6:
            gap = D[state[:place] + state[place + 1 :]].min(axis=0)
            tried[place] = int(rng.choice(np.argpartition(-gap, 30)[:30]))
        else:
            tried[place] = int(rng.choice(np.argpartition(D[state[place]], 25)[:25]))
        if len(set(tried)) < len(tried):
            continue
        new = rate(D[np.ix_(tried, tried)], best)
        heat = 0.02 * (1 - step / n_steps) + 1e-9
        if new > rating or rng.random() < np.exp((new - rating) / heat):
            state, rating = tried, new
        if rating > top[1]:
            top = list(state), rating
    return top


def refine(colors, best, rng, n_steps=6000):
    """Leave the grid: small steps of single colours that raise the rating."""
    D = distances(colors, colors)
    rating = rate(D, best)
    for _ in range(n_steps):
        place = int(rng.integers(len(colors)))
        moved = np.clip(colors[place] + rng.integers(-7, 8, 3), 0, 255)[None]
        if (distances(moved, BACKGROUNDS) < FROM_BACKGROUND).any():
            continue
        row = distances(moved, colors)[0]
        tried = D.copy()
        tried[place], tried[:, place] = row, row
        new = rate(tried, best)
        if new > rating:
            colors, D, rating = np.array(colors), tried, new
            colors[place] = moved[0]
    return colors, D


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    rng = np.random.default_rng(arguments.seed)
    colors, D = candidates()
    print(f"{len(colors)} candidates")
    best, top = {}, ([], 0.0)
    for n_colors in range(2, 33):
        tries = (smallest(D, spread_out(D, n_colors, rng))[1] for _ in range(8))
        best[n_colors] = max(tries)
    ceiling = np.array(list(best.values()))
    until = perf_counter() + arguments.seconds
    while perf_counter() < until:
        start = ordered(D, spread_out(D, 16, rng))
        found = anneal(D, start, ceiling[:15], rng)
        if found[1] > top[1]:
            top = found
            print(f"rating {top[1]:.4f} of 2", flush=True)
    first = top[0]
    rest = list(first)
    while len(rest) < 32:
        rest.append(int(D[rest].min(axis=0).argmax()))
    full = anneal(D, rest, ceiling, rng, n_fixed=16)[0]
    final, D = refine(colors[full], ceiling, rng)
    print("best", np.round(ceiling, 1).tolist())
    print("found", np.round(prefix_distances(D), 1).tolist())
    print(" ".join("#{:02x}{:02x}{:02x}".format(*color) for color in final))


if __name__ == "__main__":
    main()
