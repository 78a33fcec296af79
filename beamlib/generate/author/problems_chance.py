"""Problems on counting, probability and expectation."""

# ruff: noqa: E501 -- a formula is easier to check on one line

from __future__ import annotations

import random
from fractions import Fraction
from math import comb, factorial, perm

from beamlib.generate.author.problems_base import Problem, Slip, Step, decimal, tex


def committee(rng: random.Random) -> Problem:
    men, women = rng.randrange(4, 10), rng.randrange(4, 10)
    i, j = rng.randrange(1, 4), rng.randrange(2, 4)
    first, second = comb(men, i), comb(women, j)
    value, wrong = first * second, first + second
    one, two = rng.choice(
        [("teachers", "students"), ("violinists", "cellists"), ("engineers", "designers"), ("seniors", "juniors")]
    )
    return Problem(
        "counting selections",
        f"A group has {men} {one} and {women} {two}. In how many ways can a team of {i} {one[:-1] if i == 1 else one} and {j} {two} be chosen?",
        (
            Step(
                f"Choose the {one}",
                rf"\[ \binom{{{men}}}{{{i}}} = {first} \]",
                rf"I counted \( \binom{{{men}}}{{{i}}} = {first} \) ways for the {one}",
            ),
            Step(
                f"Choose the {two}",
                rf"\[ \binom{{{women}}}{{{j}}} = {second} \]",
                rf"I counted \( \binom{{{women}}}{{{j}}} = {second} \) ways for the {two}",
            ),
            Step(
                "Combine",
                rf"Each choice of {one} goes with each choice of {two}, so the numbers are multiplied: \[ {first} \cdot {second} = {value} \]",
                f"I multiplied the two and got {value}",
            ),
        ),
        rf"\( {value} \) teams",
        rf"In factorials: \( \frac{{{men}!}}{{{i}!\,{men - i}!}} \cdot \frac{{{women}!}}{{{j}!\,{women - j}!}} = {value} \).",
        Slip(
            2,
            rf"I combined them as \( {first} + {second} = {wrong} \)",
            "Adding would be right if only one of the two groups were chosen from. Both choices are made, so the product rule applies.",
            rf"\( {wrong} \) teams",
        ),
        {"groups": ((men, i), (women, j)), "answer": value, "wrong": wrong},
    )


def _strings(rng: random.Random, word: str) -> Problem:
    n = len(word)
    k = rng.randrange(2, n)
    letters = sorted(set(word))
    m = len(letters)
    k = min(k, m - 1)
    value, wrong = perm(m, k), comb(m, k)
    product = r" \cdot ".join(str(m - t) for t in range(k))
    return Problem(
        "arrangements without repetition",
        f"How many strings of {k} different letters can be formed from the {m} distinct letters of the word {word}?",
        (
            Step(
                "Count the choices place by place",
                f"The first place has {m} choices, and each further place has one fewer.",
                f"I saw {m} choices for the first place",
            ),
            Step(
                "Multiply",
                rf"\[ {product} = {value} \]",
                rf"I multiplied \( {product} \)",
            ),
        ),
        rf"\( {value} \) strings",
        rf"The formula \( \frac{{{m}!}}{{({m} - {k})!}} \) gives {value} as well.",
        Slip(
            1,
            rf"I used \( \binom{{{m}}}{{{k}}} = {wrong} \)",
            "A binomial coefficient counts sets, where the order does not matter. Here AB and BA are different strings, so order counts.",
            rf"\( {wrong} \) strings",
        ),
        {"m": m, "k": k, "kind": "strings", "answer": value, "wrong": wrong},
    )


def anagrams(rng: random.Random) -> Problem:
    word = rng.choice(
        ["LEVEL", "BANANA", "PEPPER", "COFFEE", "LETTER", "SUCCESS", "BALLOON", "COMMITTEE", "ALGEBRA", "STREET", "TENNIS",
         "CHEESE", "VECTOR", "PARABOLA", "INTEGRAL", "BINOMIAL", "ELLIPSE", "FORMULA", "TANGENT", "MATRIX", "SERIES", "ADDEND"]
    )  # fmt: skip
    counts = [word.count(letter) for letter in sorted(set(word)) if word.count(letter) > 1]
    n = len(word)
    bottom = 1
    for count in counts:
        bottom *= factorial(count)
    value = factorial(n) // bottom
    fixed = word[0]
    rest = word[1:]
    under = 1
    for letter in sorted(set(rest)):
        under *= factorial(rest.count(letter))
    begin = factorial(n - 1) // under
    if bottom == 1 or rng.random() < 0.5:
        return _strings(rng, word)
    product = r" \cdot ".join(f"{count}!" for count in counts)
    return Problem(
        "arrangements with repeated letters",
        f"How many different arrangements do the letters of {word} have, and how many of them begin with {fixed}?",
        (
            Step(
                "Count as if all letters differed",
                rf"\[ {n}! = {factorial(n)} \]",
                rf"I started with \( {n}! = {factorial(n)} \)",
            ),
            Step(
                "Divide by the swaps of equal letters",
                rf"\[ \frac{{{n}!}}{{{product}}} = {value} \]",
                rf"I divided by \( {product} \) and got {value}",
            ),
            Step(
                f"Fix {fixed} in front",
                f"The remaining {n - 1} letters ({', '.join(sorted(rest))}) can be arranged in {begin} ways.",
                f"I fixed {fixed} and got {begin}",
            ),
        ),
        rf"\( {value} \) arrangements, \( {begin} \) of them beginning with {fixed}",
        f"Of all arrangements, the share that begins with {fixed} must be {word.count(fixed)} out of {n}: \\( {value} \\cdot {tex(Fraction(word.count(fixed), n))} = {begin} \\).",
        Slip(
            1,
            rf"I left it at \( {n}! = {factorial(n)} \), without dividing by anything",
            "Exchanging two equal letters gives the same word, so every arrangement was counted several times.",
            rf"\( {factorial(n)} \) arrangements",
        ),
        {"word": word, "kind": "word", "answer": (value, begin), "wrong": factorial(n)},
    )


def bayes(rng: random.Random) -> Problem:
    prior, hit, false = rng.choice([1, 2, 4, 5, 8, 10, 20]), rng.randrange(80, 100), rng.randrange(2, 20)
    p, s, f = Fraction(prior, 100), Fraction(hit, 100), Fraction(false, 100)
    total = p * s + (1 - p) * f
    value = p * s / total
    if value == s:
        return bayes(rng)
    setting = rng.choice(
        [("parts in a factory are faulty", "A sensor flags", "faulty", "sound"),
         ("e-mails are spam", "A filter marks", "spam", "wanted"),
         ("seeds are infected", "A scan reports", "infected", "healthy")]
    )  # fmt: skip
    what, verb, bad, good = setting
    noun = {"faulty": "part", "spam": "e-mail", "infected": "seed"}[bad]
    return Problem(
        "conditional probability and Bayes' theorem",
        f"Of all {what.split(' are ')[0]}, {prior}% are {bad}. {verb} {hit}% of the {bad} ones, but also {false}% of the {good} ones. How likely is it "
        f"that a flagged {noun} really is {bad}?",
        (
            Step(
                "Name the probabilities",
                rf"\( P(B) = {decimal(p, 4)} \), \( P(F \mid B) = {decimal(s, 4)} \), \( P(F \mid \overline{{B}}) = {decimal(f, 4)} \), with B for {bad} and F for flagged.",
                rf"I wrote \( P(B) = {decimal(p, 4)} \), \( P(F \mid B) = {decimal(s, 4)} \) and \( P(F \mid \overline{{B}}) = {decimal(f, 4)} \)",
            ),
            Step(
                "Total probability of a flag",
                rf"\[ P(F) = {decimal(p, 4)} \cdot {decimal(s, 4)} + {decimal(1 - p, 4)} \cdot {decimal(f, 4)} = {decimal(total, 4)} \]",
                rf"I found \( P(F) = {decimal(total, 4)} \)",
            ),
            Step(
                "Bayes' theorem",
                rf"\[ P(B \mid F) = \frac{{{decimal(p * s, 4)}}}{{{decimal(total, 4)}}} = {tex(value)} \approx {decimal(value, 3)} \]",
                rf"I divided and got \( {tex(value)} \)",
            ),
        ),
        rf"\( P(B \mid F) = {tex(value)} \approx {decimal(value, 3)} \)",
        f"In 10,000 cases there are {prior * 100} {bad} and {10000 - prior * 100} {good} ones. {prior * hit} of the first and {(100 - prior) * false} of the "
        rf"second are flagged, and \( \frac{{{prior * hit}}}{{{prior * hit + (100 - prior) * false}}} = {tex(value)} \).",
        Slip(
            2,
            rf"I took \( P(B \mid F) = P(F \mid B) = {decimal(s, 4)} \), because the flag is so reliable",
            rf"The two conditional probabilities are different questions. Only {prior}% are {bad}, so many flags come from the {good} majority.",
            rf"\( {decimal(s, 4)} \)",
        ),
        {"p": p, "s": s, "f": f, "answer": value, "wrong": s},
    )


def without_replacement(rng: random.Random) -> Problem:
    red, blue = rng.randrange(3, 12), rng.randrange(3, 12)
    n = red + blue
    value = 1 - Fraction(blue * (blue - 1), n * (n - 1))
    wrong = 1 - Fraction(blue * blue, n * n)
    one, other = rng.sample(["red", "blue", "green", "white", "black", "yellow"], 2)
    return Problem(
        "drawing without replacement",
        f"A bag holds {red} {one} and {blue} {other} marbles. Two are drawn without replacement. What is the probability of at least one {one} marble?",
        (
            Step(
                "Use the complement",
                rf"\[ P(\text{{at least one {one}}}) = 1 - P(\text{{both {other}}}) \]",
                f"I went for the complement, both marbles {other}",
            ),
            Step(
                "Multiply along the branch",
                rf"\[ P(\text{{both {other}}}) = \frac{{{blue}}}{{{n}}} \cdot \frac{{{blue - 1}}}{{{n - 1}}} = {tex(1 - value)} \]",
                rf"I multiplied \( \frac{{{blue}}}{{{n}}} \cdot \frac{{{blue - 1}}}{{{n - 1}}} \)",
            ),
            Step(
                "Subtract",
                rf"\[ 1 - {tex(1 - value)} = {tex(value)} \approx {decimal(value, 3)} \]",
                rf"I subtracted from 1 and got \( {tex(value)} \)",
            ),
        ),
        rf"\( {tex(value)} \approx {decimal(value, 3)} \)",
        rf"Counting pairs instead: \( 1 - \binom{{{blue}}}{{2}} / \binom{{{n}}}{{2}} = 1 - \frac{{{comb(blue, 2)}}}{{{comb(n, 2)}}} = {tex(value)} \).",
        Slip(
            1,
            rf"I multiplied \( \frac{{{blue}}}{{{n}}} \cdot \frac{{{blue}}}{{{n}}} \)",
            f"After one {other} marble is gone, only {blue - 1} of the {n - 1} marbles left are {other}. Your product describes drawing with replacement.",
            rf"\( {tex(wrong)} \)",
        ),
        {"red": red, "blue": blue, "answer": value, "wrong": wrong},
    )


def binomial(rng: random.Random) -> Problem:
    n, k = rng.randrange(4, 9), 0
    k = rng.randrange(1, n)
    p = rng.choice(
        [Fraction(1, 2), Fraction(1, 3), Fraction(2, 3), Fraction(1, 4), Fraction(3, 4), Fraction(1, 5), Fraction(1, 6)]
    )
    value = comb(n, k) * p**k * (1 - p) ** (n - k)
    wrong = p**k * (1 - p) ** (n - k)
    return Problem(
        "binomial probabilities",
        rf"A trial succeeds with probability \( {tex(p)} \). It is repeated {n} times independently. Find the probability of exactly {k} success{'' if k == 1 else 'es'}.",
        (
            Step(
                "Recognise the model",
                rf"The number of successes is binomial with \( n = {n} \) and \( p = {tex(p)} \).",
                rf"I set \( n = {n} \), \( p = {tex(p)} \)",
            ),
            Step(
                "Count the orders",
                rf"\[ \binom{{{n}}}{{{k}}} = {comb(n, k)} \]",
                rf"I counted \( \binom{{{n}}}{{{k}}} = {comb(n, k)} \) orders",
            ),
            Step(
                "Multiply",
                rf"\[ P(X = {k}) = {comb(n, k)} \cdot \left({tex(p)}\right)^{{{k}}} \cdot \left({tex(1 - p)}\right)^{{{n - k}}} = {tex(value)} \]",
                rf"I multiplied everything to \( {tex(value)} \)",
            ),
        ),
        rf"\( {tex(value)} \approx {decimal(value, 6)} \)",
        rf"One success fewer has the probability \( {tex(comb(n, k - 1) * p ** (k - 1) * (1 - p) ** (n - k + 1))} \), and the ratio of the two is "
        rf"\( \frac{{{n - k + 1}}}{{{k}}} \cdot \frac{{p}}{{1 - p}} = {tex(Fraction(n - k + 1, k) * p / (1 - p))} \), as the binomial law demands.",
        Slip(
            1,
            rf"I multiplied \( \left({tex(p)}\right)^{{{k}}} \) by \( \left({tex(1 - p)}\right)^{{{n - k}}} \) and stopped there",
            f"That is the probability of one particular order of successes and failures. There are {comb(n, k)} such orders.",
            rf"\( {tex(wrong)} \)",
        ),
        {"n": n, "k": k, "p": p, "answer": value, "wrong": wrong},
    )


def expectation(rng: random.Random) -> Problem:
    prizes = sorted(rng.sample(range(2, 30), 2))
    weights = [rng.randrange(3, 8), rng.randrange(1, 3)]
    sides = rng.choice([12, 16, 20])
    stake = rng.randrange(2, 8)
    mean = sum(Fraction(w * v, sides) for w, v in zip(weights, prizes, strict=True))
    value = mean - stake
    wrong = Fraction(sum(prizes), 3) - stake
    kind = "favourable" if value > 0 else "unfavourable" if value < 0 else "fair"
    return Problem(
        "expected value",
        f"A wheel has {sides} equal fields: {weights[0]} pay ${prizes[0]}, {weights[1]} pay{'s' if weights[1] == 1 else ''} ${prizes[1]}, the others nothing. "
        f"One spin costs ${stake}. What is the expected net gain?",
        (
            Step(
                "List the probabilities",
                rf"\( P({prizes[0]}) = {tex(Fraction(weights[0], sides))} \), \( P({prizes[1]}) = {tex(Fraction(weights[1], sides))} \), and 0 otherwise.",
                rf"I set \( P({prizes[0]}) = {tex(Fraction(weights[0], sides))} \) and \( P({prizes[1]}) = {tex(Fraction(weights[1], sides))} \)",
            ),
            Step(
                "Weight the payouts",
                rf"\[ E = {prizes[0]} \cdot {tex(Fraction(weights[0], sides))} + {prizes[1]} \cdot {tex(Fraction(weights[1], sides))} = {tex(mean)} \]",
                rf"I got an expected payout of \( {tex(mean)} \)",
            ),
            Step(
                "Subtract the stake",
                rf"\[ {tex(mean)} - {stake} = {tex(value)} \]",
                f"I subtracted the {stake} dollars",
            ),
        ),
        rf"\( {tex(value)} \) dollars per spin, so the game is {kind} for the player",
        f"In {sides} spins where each field comes up once, the payout is {sum(w * v for w, v in zip(weights, prizes, strict=True))} dollars and the stakes are {sides * stake} dollars. The difference per spin is "
        rf"\( {tex(value)} \).",
        Slip(
            1,
            rf"I averaged the three outcomes, \( \frac{{{prizes[0]} + {prizes[1]} + 0}}{{3}} \), as the expected payout",
            "A plain average treats the three outcomes as equally likely. Each has to be weighted with its own probability.",
            rf"\( {tex(wrong)} \) dollars per spin",
        ),
        {"prizes": prizes, "weights": weights, "sides": sides, "stake": stake, "answer": value, "wrong": wrong},
    )
