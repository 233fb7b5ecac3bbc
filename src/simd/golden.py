#!/usr/bin/env python3
"""Writes golden_sincos.inc: cos and sin of m * f for positions m and frequencies f, from mpmath at 120 digits.

    python3 golden.py > golden_sincos.inc          (made with mpmath 1.3.0, Python 3.11)

Rows: {m, f, cos, sin}, m an integer, f the double exactly as printed (hexadecimal), cos and sin rounded to double.
  1. positions at the ends of the range and around powers of two, for frequencies of real models
  2. random ones
  3. beside zeros: m from the continued fraction of f / (pi/2), the best approximations with m <= 2^31
  4. beside zeros, f chosen for m: f = the double nearest to k pi/2 / m, the closest of many random (m, k)
"""
import random

from mpmath import cos, floor, mp, mpf, nint, pi, sin

mp.dps = 120
LIMIT = 2**31
random.seed(1)


def model_frequency(theta, width, plane):
    return 1 / theta ** (2.0 * plane / width)


def row(m, f):
    angle = mpf(m) * mpf(f)
    return "{%d, %s, %s, %s}," % (m, float(f).hex(), float(cos(angle)).hex(), float(sin(angle)).hex())


def convergents(f):
    """Denominators m <= LIMIT of the continued fraction of f / (pi/2), and their distances to a multiple of pi/2."""
    x, h0, h1, k0, k1 = mpf(f) / (pi / 2), 0, 1, 1, 0
    for _ in range(60):
        a = int(floor(x))
        h0, h1, k0, k1 = h1, a * h1 + h0, k1, a * k1 + k0
        if k1 > LIMIT:
            return
        yield k1
        x -= a
        if x == 0:
            return
        x = 1 / x


def main():
    models = [(10000.0, 64), (10000.0, 128), (100000.0, 64), (500000.0, 128), (1000000.0, 256)]
    print("// Made by golden.py with mpmath 1.3.0; {m, f, cos(m f), sin(m f)}.")
    for theta, width in models:
        for plane in (0, 1, width // 6, width // 4, width // 2 - 1):
            f = model_frequency(theta, width, plane)
            for m in (1, -1, 4095, 2**20 - 1, 2**20, 2**24 + 1, 2**31 - 1, 2**31, -(2**31)):
                print(row(m, f))
    for _ in range(150):
        theta, width = random.choice(models)
        print(row(random.randint(-LIMIT, LIMIT), model_frequency(theta, width, random.randrange(width // 2))))
    for theta, width in models:
        for plane in (0, 1, 3, 7, 12, width // 4, width // 2 - 1):
            f = model_frequency(theta, width, plane)
            for m in list(convergents(f))[-3:]:
                print(row(random.choice((1, -1)) * m, f))
    found = []
    for _ in range(60000):
        m = random.randrange(2**30, LIMIT + 1)
        k = random.randrange(1, int(m * 2 / 3.15) + 1)
        f = float(k * pi / 2 / m)
        angle = mpf(m) * mpf(f)
        found.append((abs(angle - nint(angle / (pi / 2)) * pi / 2), m, f))
    for _, m, f in sorted(found)[:40]:
        print(row(m, f))


main()
