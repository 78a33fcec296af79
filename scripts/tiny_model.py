"""Make a tiny random Qwen2 model for a real server to serve: `.venv-vllm/bin/python scripts/tiny_model.py FOLDER`.

Its weights are random, so what it says is noise; its tokenizer, chat template, config and file layout are those of a
real one. Takes seconds and about 2 MB. The same seed gives the same files.
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

START, END, PAD = "<|im_start|>", "<|im_end|>", "<|endoftext|>"
CHATML = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SYLLABLES = [consonant + vowel for consonant in "bdfgklmnprstv" for vowel in ("a", "e", "i", "o", "u")]


def made_up_sentences(seed: int, count: int = 4_000) -> list[str]:
    """Sentences of invented words, some far more frequent than others, with numbers between them."""
    chance = random.Random(seed)
    words = ["".join(chance.choices(SYLLABLES, k=chance.randint(1, 4))) for _ in range(1_500)]
    weights = [1 / rank for rank in range(1, len(words) + 1)]
    sentences = []
    for _ in range(count):
        chosen = chance.choices(words, weights, k=chance.randint(4, 14))
        chosen.insert(chance.randrange(len(chosen)), str(chance.randint(1, 2_000)))
        sentences.append(" ".join(chosen).capitalize() + chance.choice(".?!"))
    return sentences


def make_tokenizer(vocabulary: int, seed: int) -> PreTrainedTokenizerFast:
    """A byte-level BPE, so that any text can be encoded, with the ChatML template."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[PAD, START, END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(made_up_sentences(seed), trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=END, pad_token=PAD, chat_template=CHATML)


def make_model(vocabulary: int, end: int, pad: int, positions: int, seed: int) -> Qwen2ForCausalLM:
    """Two layers of random weights. vLLM's attention on a CPU wants heads of 32 or more."""
    torch.manual_seed(seed)
    config = Qwen2Config(
        vocab_size=vocabulary,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=64,
        max_position_embeddings=positions,
        initializer_range=0.3,
        tie_word_embeddings=False,  # tied, a random model says its last token again and again
        bos_token_id=pad,
        eos_token_id=end,
        pad_token_id=pad,
        dtype="float32",
    )
    return Qwen2ForCausalLM(config)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where the model goes; made if it is not there")
    parser.add_argument("--vocabulary", type=int, default=2_000)
    parser.add_argument("--positions", type=int, default=32_768, help="longest sequence in tokens")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    tokenizer = make_tokenizer(given.vocabulary, given.seed)
    model = make_model(len(tokenizer), tokenizer.eos_token_id, tokenizer.pad_token_id, given.positions, given.seed)
    model.save_pretrained(given.folder)
    tokenizer.save_pretrained(given.folder)
    print(f"{given.folder}: {model.num_parameters():,} parameters, vocabulary {len(tokenizer):,}, seed {given.seed}")


if __name__ == "__main__":
    main()
