"""Problems on ordinary and partial differential equations."""

# ruff: noqa: E501 -- a formula is easier to check on one line

from __future__ import annotations

import random
from fractions import Fraction

from beamlib.generate.author.problems_base import Problem, Slip, Step, combine, nonzero, paren, poly, signed, tex


def _exp(rate: Fraction | int, variable: str = "x") -> str:
    return rf"e^{{{combine([(rate, variable)])}}}"


def separable(rng: random.Random) -> Problem:
    a, n, start = nonzero(rng, -6, 6), rng.randrange(1, 4), nonzero(rng, -9, 9)
    rate = Fraction(a, n + 1)
    power, right = ("x" if n == 1 else f"x^{n}"), f"x^{n + 1}"
    solution = rf"{combine([(start, _exp(rate, right))])}"
    return Problem(
        "separable differential equations",
        rf"Solve \( y' = {combine([(a, power)])}\,y \) with \( y(0) = {start} \).",
        (
            Step(
                "Separate",
                rf"\[ \frac{{dy}}{{y}} = {combine([(a, power)])}\,dx \]",
                rf"I separated it to \( \frac{{dy}}{{y}} = {combine([(a, power)])}\,dx \)",
            ),
            Step(
                "Integrate both sides",
                rf"\[ \ln|y| = {combine([(rate, right)])} + C \]",
                rf"I integrated to \( \ln|y| = {combine([(rate, right)])} + C \)",
            ),
            Step(
                "Solve for y and use the initial value",
                rf"\( y = K{_exp(rate, right)} \), and \( y(0) = K = {start} \).",
                rf"I used the initial value and got \( K = {start} \)",
            ),
        ),
        rf"\( y = {solution} \)",
        rf"Differentiate: the inner derivative is \( {combine([(rate * (n + 1), power)])} \), so \( y' = {combine([(a, power)])}\,y \). At \( x = 0 \) the value is {start}.",
        Slip(
            2,
            rf"I exponentiated to \( y = {_exp(rate, right)} + C \) and chose \( C = {start - 1} \)",
            r"The constant stands in the exponent: \( e^{F + C} = e^C e^F \). It becomes a factor, not a summand.",
            rf"\( y = {_exp(rate, right)} {signed(start - 1)} \)"
            if start != 1
            else rf"\( y = {_exp(rate, right)} + 0 \), which fits only by luck",
        ),
        {"a": a, "n": n, "start": start, "answer": (start, rate), "wrong": start - 1},
    )


def linear_first_order(rng: random.Random) -> Problem:
    a, level, start = nonzero(rng, -6, 6), nonzero(rng, -7, 7), rng.randrange(-9, 10)
    while start in (level, 0):
        start = rng.randrange(-9, 10)
    b = a * level
    k = start - level
    solution = f"{level} {'-' if k < 0 else '+'} {combine([(abs(k), _exp(-a))])}"
    return Problem(
        "linear first-order equations",
        rf"Solve \( {combine([(1, chr(121) + chr(39)), (a, 'y')])} = {b} \) with \( y(0) = {start} \).",
        (
            Step(
                "Integrating factor",
                rf"Multiply by \( {_exp(a)} \): \[ \left({_exp(a)}y\right)' = {b}{_exp(a)} \]",
                rf"I multiplied by \( {_exp(a)} \)",
            ),
            Step(
                "Integrate",
                rf"\[ {_exp(a)}y = {level}{_exp(a)} + C \quad\Longrightarrow\quad y = {level} + C{_exp(-a)} \]",
                rf"I integrated and got \( y = {level} + C{_exp(-a)} \)",
            ),
            Step("Initial value", rf"\( {level} + C = {start} \), so \( C = {k} \).", rf"I found \( C = {k} \)"),
        ),
        rf"\( y = {solution} \)",
        rf"The constant part satisfies \( {paren(a)} \cdot {paren(level)} = {b} \), the exponential part solves the homogeneous equation, and \( y(0) = {level} {signed(k)} = {start} \).",
        Slip(
            1,
            rf"I divided and wrote \( y = {level} + C \), so \( C = {k} \) and \( y = {start} \) for all \( x \)",
            rf"The constant of integration was added while the left side still carried the factor \( {_exp(a)} \). Dividing by it turns \( C \) into \( C{_exp(-a)} \).",
            rf"\( y = {start} \)",
        ),
        {"a": a, "b": b, "start": start, "answer": (level, k), "wrong": start},
    )


def second_order(rng: random.Random) -> Problem:
    r = nonzero(rng, -5, 5)
    s = nonzero(rng, -5, 5, r, -r)
    c1, c2 = nonzero(rng, -5, 5), nonzero(rng, -5, 5)
    b, c = -(r + s), r * s
    y0, y1 = c1 + c2, r * c1 + s * c2
    equation = combine([(1, "y''"), (b, "y'"), (c, "y")])

    def general(first: str, second: str) -> str:
        return f"{first}{_exp(r)} + {second}{_exp(s)}"

    return Problem(
        "second-order equations with constant coefficients",
        rf"Solve \( {equation} = 0 \) with \( y(0) = {y0} \) and \( y'(0) = {y1} \).",
        (
            Step(
                "Characteristic equation",
                rf"\[ {poly([1, b, c], 'r')} = 0 \quad\Longrightarrow\quad r = {r}\ \text{{or}}\ r = {s} \]",
                rf"I solved \( {poly([1, b, c], 'r')} = 0 \) and got {r} and {s}",
            ),
            Step(
                "General solution", rf"\[ y = {general('C_1', 'C_2')} \]", rf"I wrote \( y = {general('C_1', 'C_2')} \)"
            ),
            Step(
                "Initial values",
                rf"\( C_1 + C_2 = {y0} \) and \( {combine([(r, 'C_1'), (s, 'C_2')])} = {y1} \) give \( C_1 = {c1} \), \( C_2 = {c2} \).",
                rf"I solved for \( C_1 = {c1} \) and \( C_2 = {c2} \)",
            ),
        ),
        rf"\( y = {combine([(c1, _exp(r)), (c2, _exp(s))])} \)",
        rf"At 0 the value is \( {c1} {signed(c2)} = {y0} \) and the slope \( {paren(r)} \cdot {paren(c1)} + {paren(s)} \cdot {paren(c2)} = {y1} \). Both exponents solve the characteristic equation.",
        Slip(
            0,
            rf"I read the roots from the factors with the wrong sign and took \( r = {-r} \) and \( r = {-s} \)",
            rf"The polynomial factors as \( (r {signed(-r)})(r {signed(-s)}) \), and a factor is zero where \( r \) equals \( {r} \) or \( {s} \).",
            rf"the exponents \( {-r} \) and \( {-s} \) in the general solution",
        ),
        {"b": b, "c": c, "initial": (y0, y1), "answer": (r, s, c1, c2), "wrong": (-r, -s)},
    )


def repeated_or_complex(rng: random.Random) -> Problem:
    p, q = rng.randrange(-4, 5), rng.randrange(1, 7)
    b, c = -2 * p, p * p + q * q
    equation = combine([(1, "y''"), (b, "y'"), (c, "y")])
    front = "" if p == 0 else _exp(p)
    wave = f"{'' if q == 1 else q}x"
    inside = rf"C_1\cos {wave} + C_2\sin {wave}"
    body = rf"{front}\left({inside}\right)" if front else inside
    swapped = (
        rf"{_exp(q)}\left(C_1\cos {'' if abs(p) == 1 else abs(p)}x + C_2\sin {'' if abs(p) == 1 else abs(p)}x\right)"
    )
    roots = rf"{p} \pm {'' if q == 1 else q}i" if p else rf"\pm {'' if q == 1 else q}i"
    return (
        Problem(
            "oscillating solutions",
            rf"Find the general real solution of \( {equation} = 0 \).",
            (
                Step(
                    "Characteristic equation",
                    rf"\[ {poly([1, b, c], 'r')} = 0 \]",
                    rf"I set up \( {poly([1, b, c], 'r')} = 0 \)",
                ),
                Step(
                    "Solve it",
                    rf"The discriminant is \( {b * b} - {4 * c} = {b * b - 4 * c} < 0 \), so \( r = {roots} \).",
                    rf"I found \( r = {roots} \)",
                ),
                Step("Real form", rf"\[ y = {body} \]", "I wrote it with cosine and sine"),
            ),
            rf"\( y = {body} \)",
            rf"The two roots have the sum \( {2 * p} = -b \) and the product \( {p * p} + {q * q} = {c} \).",
            Slip(
                2,
                rf"I wrote \( y = {swapped} \)" if p else rf"I wrote \( y = C_1{_exp(q)} + C_2{_exp(-q)} \)",
                rf"The real part {p} of the roots belongs in the exponent, and the imaginary part {q} is the frequency."
                if p
                else "Purely imaginary roots give a steady oscillation; real exponentials would need real roots.",
                rf"\( y = {swapped} \)" if p else rf"\( y = C_1{_exp(q)} + C_2{_exp(-q)} \)",
            ),
            {"b": b, "c": c, "answer": (p, q), "wrong": (q, abs(p))},
        )
        if abs(p) != q
        else repeated_or_complex(rng)
    )


def heat_modes(rng: random.Random) -> Problem:
    k = rng.randrange(1, 6)
    m, n = sorted(rng.sample(range(1, 8), 2))
    a, b = nonzero(rng, -7, 9), nonzero(rng, -7, 9)

    def sine(number: int) -> str:
        return rf"\sin {'' if number == 1 else number}x"

    def mode(weight: int, number: int, power: int) -> str:
        return combine([(weight, rf"e^{{-{'' if power == 1 else power}t}}{sine(number)}")])

    plus = "-" if b < 0 else "+"
    solution = f"{mode(a, m, k * m * m)} {plus} {mode(abs(b), n, k * n * n)}"
    slip = f"{mode(a, m, k * m)} {plus} {mode(abs(b), n, k * n)}"
    return Problem(
        "modes of the heat equation",
        rf"Solve \( u_t = {combine([(k, 'u_{xx}')])} \) on \( 0 < x < \pi \) with \( u(0, t) = u(\pi, t) = 0 \) and \( u(x, 0) = {combine([(a, sine(m)), (b, sine(n))])} \).",
        (
            Step(
                "Separate the variables",
                rf"With \( u = X(x)T(t) \): \[ \frac{{T'}}{{{'' if k == 1 else k}T}} = \frac{{X''}}{{X}} = -\lambda \]",
                r"I tried \( u = X(x)T(t) \)",
            ),
            Step(
                "Use the boundary values",
                rf"They leave \( X_n = \sin nx \) and \( \lambda_n = n^2 \), so each mode decays like \( e^{{-{'' if k == 1 else k}n^2t}} \).",
                r"I got \( X_n = \sin nx \) with \( \lambda_n = n^2 \)",
            ),
            Step(
                "Match the initial values",
                rf"Only \( n = {m} \) and \( n = {n} \) occur, with the weights \( {a} \) and \( {b} \): \[ u = {solution} \]",
                rf"I kept the modes {m} and {n}",
            ),
        ),
        rf"\( u(x, t) = {solution} \)",
        rf"For the mode {n}: \( u_t \) brings the factor \( {-k * n * n} \), and \( {k}u_{{xx}} \) brings \( {k} \cdot (-{n * n}) = {-k * n * n} \). At \( t = 0 \) the initial values return.",
        Slip(
            1,
            rf"I let the modes decay like \( e^{{-{'' if k == 1 else k}nt}} \)",
            r"Two derivatives of \( \sin nx \) bring the factor \( -n^2 \), so the decay rate grows with the square of \( n \).",
            rf"\( u(x, t) = {slip} \)",
        ),
        {"k": k, "modes": ((m, a), (n, b)), "answer": (k * m * m, k * n * n), "wrong": (k * m, k * n)},
    )


def transport(rng: random.Random) -> Problem:
    c, a, b = nonzero(rng, -6, 6), nonzero(rng, -5, 5), nonzero(rng, -6, 6)
    t, x = rng.randrange(1, 5), rng.randrange(-5, 6)

    def start(z: int) -> int:
        return a * z * z + b * z

    moved = combine([(1, "x"), (-c, "t")])
    value, wrong = start(x - c * t), start(x + c * t)
    solution = f"{combine([(a, f'({moved})^2')])} {'-' if b < 0 else '+'} {combine([(abs(b), f'({moved})')])}"
    if value == wrong:
        return transport(rng)
    return Problem(
        "characteristics of the transport equation",
        rf"Solve \( {combine([(1, 'u_t'), (c, 'u_x')])} = 0 \) with \( u(x, 0) = {poly([a, b, 0])} \), and evaluate \( u({x}, {t}) \).",
        (
            Step(
                "Find the characteristics",
                rf"\( \frac{{dx}}{{dt}} = {c} \) gives the lines \( x = x_0 {signed(c)}t \).",
                rf"I found the characteristics \( x = x_0 {signed(c)}t \)",
            ),
            Step(
                "Carry the initial value along",
                rf"\( u \) is constant on each line, so \( u(x, t) = f(x_0) = f({moved}) \) with \( f(z) = {poly([a, b, 0], 'z')} \).",
                rf"I wrote \( u = f({moved}) \)",
            ),
            Step(
                "Evaluate",
                rf"\[ u({x}, {t}) = f({x - c * t}) = {a} \cdot {paren(x - c * t)}^2 {signed(b)} \cdot {paren(x - c * t)} = {value} \]",
                rf"I evaluated it at \( ({x}, {t}) \) and got {value}",
            ),
        ),
        rf"\( u = {solution} \), and \( u({x}, {t}) = {value} \)",
        rf"By the chain rule \( u_t = {-c}f' \) and \( u_x = f' \), so \( u_t {signed(c)}u_x = 0 \); for \( t = 0 \) the initial values come back.",
        Slip(
            1,
            rf"I wrote \( u = f({combine([(1, 'x'), (c, 't')])}) \)",
            rf"Solve \( x = x_0 {signed(c)}t \) for \( x_0 \): it is \( x_0 = {moved} \). The wave moves with the speed \( {c} \), so its argument lags behind.",
            rf"\( u({x}, {t}) = {wrong} \)",
        ),
        {"c": c, "f": (a, b), "at": (x, t), "answer": value, "wrong": wrong},
    )


def sine_series(rng: random.Random) -> Problem:
    a, linear = rng.randrange(1, 41), rng.random() < 0.5
    n = rng.randrange(1, 10)
    if not linear and n % 2 == 0:
        n += 1
    # f = a: b_n = 2a(1-(-1)^n)/(n pi); f = a x: b_n = 2a(-1)^{n+1}/n
    value = Fraction(2 * a * (-1) ** (n + 1), n) if linear else Fraction(4 * a, n)
    half = value / 2
    shown = (
        tex(value)
        if linear
        else rf"\frac{{{value.numerator}}}{{{'' if value.denominator == 1 else value.denominator}\pi}}"
    )
    wrong = (
        tex(half) if linear else rf"\frac{{{half.numerator}}}{{{'' if half.denominator == 1 else half.denominator}\pi}}"
    )
    f = combine([(a, "x")]) if linear else str(a)
    return Problem(
        "Fourier sine coefficients",
        rf"Expand \( f(x) = {f} \) on \( (0, \pi) \) in a sine series and find the coefficient \( b_{n} \).",
        (
            Step(
                "Formula",
                r"\[ b_n = \frac{2}{\pi}\int_0^{\pi} f(x)\sin nx\,dx \]",
                r"I used \( b_n = \frac{2}{\pi}\int_0^{\pi} f(x)\sin nx\,dx \)",
            ),
            Step(
                "Integrate",
                rf"By parts, \[ \int_0^\pi {combine([(a, 'x')])}\sin nx\,dx = -\frac{{{a}\pi\cos n\pi}}{{n}} = {combine([(a, chr(92) + 'pi')])}\frac{{(-1)^{{n+1}}}}{{n}} \]"
                if linear
                else rf"\[ \int_0^\pi {a}\sin nx\,dx = \frac{{{a}(1 - \cos n\pi)}}{{n}} \]",
                "I integrated by parts" if linear else rf"I integrated to \( \frac{{{a}(1 - \cos n\pi)}}{{n}} \)",
            ),
            Step(f"Insert n = {n}", rf"\[ b_{n} = {shown} \]", rf"I inserted \( n = {n} \) and got \( {shown} \)"),
        ),
        rf"\( b_{n} = {shown} \)",
        (
            rf"The sign alternates with \( n \), since \( f \) extends to an odd sawtooth, and the size \( \frac{{{2 * a}}}{{n}} \) falls slowly because of its jumps."
            if linear
            else "All even coefficients vanish, because the constant is symmetric about the middle of the interval, and the odd ones fall like one over n."
        ),
        Slip(
            0,
            r"I started from \( b_n = \frac{1}{\pi}\int_0^{\pi} f(x)\sin nx\,dx \)",
            r"On the half interval the squares of the sines integrate to \( \pi/2 \), so the factor in front is \( 2/\pi \).",
            rf"\( b_{n} = {wrong} \)",
        ),
        {"a": a, "linear": linear, "n": n, "answer": value, "wrong": half},
    )


def classify(rng: random.Random) -> Problem:
    a, c, half = nonzero(rng, -5, 6), rng.randrange(-5, 7), rng.randrange(-6, 7)
    b = rng.choice([2 * half, half])
    if b == 0 and c == 0:
        return classify(rng)
    disc = b * b - 4 * a * c
    kind = "hyperbolic" if disc > 0 else "elliptic" if disc < 0 else "parabolic"
    other = "elliptic" if kind != "elliptic" else "hyperbolic"
    model = {"hyperbolic": "wave", "elliptic": "Laplace", "parabolic": "heat"}[kind]
    operator = combine([(a, "u_{xx}"), (b, "u_{xy}"), (c, "u_{yy}")])
    rest = combine([(nonzero(rng, -9, 9), "u_x"), (nonzero(rng, -9, 9), "u")])
    return Problem(
        "the type of a second-order equation",
        rf"Classify \( {operator} {'' if rest.startswith('-') else '+ '}{rest} = 0 \) as elliptic, parabolic or hyperbolic.".replace(
            " -", " - "
        ).replace("-  ", "- "),
        (
            Step(
                "Keep the second-order part",
                rf"Only \( {operator} \) decides; lower terms play no part.",
                rf"I kept only \( {operator} \)",
            ),
            Step(
                "Read off the coefficients",
                rf"\( A = {a},\ B = {b},\ C = {c} \).",
                rf"I read off \( A = {a} \), \( B = {b} \), \( C = {c} \)",
            ),
            Step(
                "Discriminant",
                rf"\[ B^2 - 4AC = {b * b} - 4 \cdot {paren(a)} \cdot {paren(c)} = {disc} \]",
                rf"I computed \( B^2 - 4AC = {disc} \)",
            ),
        ),
        f"{kind}, like the {model} equation",
        rf"Along directions \( (\xi, \eta) \) the form \( {combine([(a, chr(92) + 'xi^2'), (b, chr(92) + 'xi' + chr(92) + 'eta'), (c, chr(92) + 'eta^2')])} \) has "
        + {
            "hyperbolic": "two real zero directions",
            "elliptic": "no real zero direction",
            "parabolic": "exactly one real zero direction",
        }[kind]
        + ", which matches the type.",
        Slip(
            2,
            rf"I saw \( B^2 - 4AC = {disc} \) and took that to mean {other}",
            "The names follow the conics: a positive discriminant is hyperbolic, a negative one elliptic, zero parabolic.",
            other,
        ),
        {"form": (a, b, c), "answer": kind, "wrong": other},
    )
