"""Colours as people see them: contrast (WCAG 2), colour vision that lacks a cone (Machado, Oliveira and Fernandes 2009,
severity 1), and the difference of two colours (CIEDE2000)."""

import math

# In linear RGB. Each row gives one channel of what is seen.
VISIONS = {
    "full": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}


def channels(hexadecimal):
    """Red, green and blue of `#rrggbb`, from 0 to 1."""
    return tuple(int(hexadecimal[i:i + 2], 16) / 255 for i in (1, 3, 5))


def linear(rgb):
    return tuple(v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in rgb)


def contrast(a, b):
    """The contrast ratio of two colours, from 1 to 21."""
    light, dark = sorted((sum(w * v for w, v in zip((0.2126, 0.7152, 0.0722), linear(c))) for c in (a, b)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def lab(rgb, vision):
    """CIELAB (D65) of a colour as a vision sees it."""
    seen = [min(1, max(0, sum(m * v for m, v in zip(row, linear(rgb))))) for row in VISIONS[vision]]
    xyz = [sum(m * v for m, v in zip(row, seen)) for row in (
        (0.4124564 / 0.95047, 0.3575761 / 0.95047, 0.1804375 / 0.95047),
        (0.2126729, 0.7151522, 0.0721750),
        (0.0193339 / 1.08883, 0.1191920 / 1.08883, 0.9503041 / 1.08883))]
    x, y, z = (v ** (1 / 3) if v > 216 / 24389 else (24389 / 27 * v + 16) / 116 for v in xyz)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def difference(one, two):
    """CIEDE2000 of two colours in CIELAB; people begin to see 1."""
    (l1, a1, b1), (l2, a2, b2) = one, two
    mean_chroma = (math.hypot(a1, b1) + math.hypot(a2, b2)) / 2
    g = 0.5 * (1 - math.sqrt(mean_chroma ** 7 / (mean_chroma ** 7 + 25 ** 7)))
    a1, a2 = (1 + g) * a1, (1 + g) * a2
    c1, c2 = math.hypot(a1, b1), math.hypot(a2, b2)
    h1, h2 = (math.degrees(math.atan2(b, a)) % 360 if a or b else 0 for a, b in ((a1, b1), (a2, b2)))
    dl, dc, dh = l2 - l1, c2 - c1, h2 - h1
    if c1 * c2 == 0:
        dh, h = 0, h1 + h2
    else:
        dh = dh - 360 if dh > 180 else dh + 360 if dh < -180 else dh
        h = (h1 + h2) / 2 if abs(h1 - h2) <= 180 else (h1 + h2 + (360 if h1 + h2 < 360 else -360)) / 2
    big_dh = 2 * math.sqrt(c1 * c2) * math.sin(math.radians(dh) / 2)
    l, c = (l1 + l2) / 2, (c1 + c2) / 2
    t = (1 - 0.17 * math.cos(math.radians(h - 30)) + 0.24 * math.cos(math.radians(2 * h))
         + 0.32 * math.cos(math.radians(3 * h + 6)) - 0.20 * math.cos(math.radians(4 * h - 63)))
    s_l = 1 + 0.015 * (l - 50) ** 2 / math.sqrt(20 + (l - 50) ** 2)
    s_c, s_h = 1 + 0.045 * c, 1 + 0.015 * c * t
    turn = -2 * math.sqrt(c ** 7 / (c ** 7 + 25 ** 7)) * math.sin(math.radians(60 * math.exp(-((h - 275) / 25) ** 2)))
    return math.sqrt((dl / s_l) ** 2 + (dc / s_c) ** 2 + (big_dh / s_h) ** 2 + turn * (dc / s_c) * (big_dh / s_h))


def least_difference(a, b):
    """The smallest difference of two colours over all visions, and the vision that has it."""
    return min((difference(lab(a, vision), lab(b, vision)), vision) for vision in VISIONS)


# Pairs with their CIEDE2000 from Sharma, Wu and Dalal, "The CIEDE2000 color-difference formula" (2005), table 1.
PUBLISHED = [
    ((50, 2.6772, -79.7751), (50, 0, -82.7485), 2.0425),
    ((50, 2.5, 0), (73, 25, -18), 27.1492),
    ((50, 2.5, 0), (56, -27, -3), 31.9030),
    ((60.2574, -34.0099, 36.2677), (60.4626, -34.1751, 39.4387), 1.2644),
    ((63.0109, -31.0961, -5.8663), (62.8187, -29.7946, -4.0864), 1.2630),
    ((2.0776, 0.0795, -1.1350), (0.9033, -0.0636, -0.5514), 0.9082),
]


def agrees_with_published():
    """Whether differences are those of the literature, and black on white has the largest contrast."""
    return all(abs(difference(a, b) - d) < 1e-4 for a, b, d in PUBLISHED) and abs(contrast((0, 0, 0), (1, 1, 1)) - 21) < 1e-9
