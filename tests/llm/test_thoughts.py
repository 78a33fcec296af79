"""Thoughts and invented turns are told from answers by the shape of marks; answers that speak of marks stay whole."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from beamlib.llm.model import ModelError
from beamlib.llm.thoughts import CleanReply, clean_reply

ANSWERS = ("It was in May.", "```python\nx = 2\n```", '{"score": 1.0, "reason": "both are there"}', "- tea\n- rye")
THOUGHT = "It might be June 3 or May 9; I am not sure that it was said."

FAMILIES = {
    "DeepSeek-R1, Qwen3, QwQ, Phi-4-reasoning, GLM, Step, Olmo": "<think>\n{t}\n</think>\n\n{a}",
    "the opening mark stands in the prompt": "{t}\n</think>\n\n{a}",
    "the same in one line": "{t}</think>{a}",
    "nothing was thought": "<think>\n\n</think>\n\n{a}",
    "gpt-oss": "<|channel|>analysis<|message|>{t}<|end|><|start|>assistant<|channel|>final<|message|>{a}<|return|>",
    "gpt-oss with a preamble": (
        "<|channel|>analysis<|message|>{t}<|end|><|start|>assistant<|channel|>commentary<|message|>{t}<|end|>"
        "<|start|>assistant<|channel|>final<|message|>{a}"
    ),
    "gpt-oss, bound to JSON": (
        "<|channel|>analysis<|message|>{t}<|end|><|start|>assistant<|channel|>final <|constrain|>json<|message|>{a}"
    ),
    "gpt-oss, its first header in the prompt": "{t}<|end|><|start|>assistant<|channel|>final<|message|>{a}",
    "gpt-oss without special tokens": "analysisWe need it. {t}assistantfinal{a}",
    "Apriel": "{t}\n[BEGIN FINAL RESPONSE]\n{a}\n[END FINAL RESPONSE]\n<|end|>",
    "Apriel, its first line in the reply": "Here are my reasoning steps:\n{t}\n[BEGIN FINAL RESPONSE]\n{a}",
    "Gemma 4": "<|channel>thought\n{t}<channel|>{a}",
    "Gemma 4 without thoughts": "<|channel>thought\n<channel|>{a}<turn|>",
    "MedGemma": "<unused94>thought\n{t}<unused95>{a}",
    "Granite": "Here is my thought process:\n{t}\n\nHere is my response:\n{a}",
    "Granite, short": "Here's my thought process:\n\n{t}\n\nHere's my response:\n\n{a}",
    "Cohere": "<|START_THINKING|>{t}<|END_THINKING|><|START_RESPONSE|>{a}<|END_RESPONSE|>",
    "Cohere, text": "<|START_THINKING|>{t}<|END_THINKING|><|START_TEXT|>{a}<|END_TEXT|>",
    "Kimi": "◁think▷{t}◁/think▷{a}",
    "MiniMax": "<mm:think>{t}</mm:think>\n{a}",
    "Magistral": "[THINK]{t}[/THINK]{a}",
    "EXAONE": "<thought>\n{t}\n</thought>\n\n{a}[|endofturn|]",
    "Hermes": "<REASONING_SCRATCHPAD>{t}</REASONING_SCRATCHPAD>\n{a}",
    "Hermes, inner": "<INNER_MONOLOGUE>\n{t}\n</INNER_MONOLOGUE>\n{a}",
    "open-webui": (
        '<details type="reasoning" done="true" duration="3">\n<summary>Thought for 3 seconds</summary>\n> {t}\n'
        "</details>\n{a}"
    ),
    "a summary alone": "<details>\n<summary>Thinking…</summary>\n{t}\n</details>\n\n{a}",
    "Seed-OSS": "<seed:think>{t}</seed:think>{a}<seed:eos>",
    "Hunyuan": "<think>\n{t}\n</think>\n<answer>\n{a}\n</answer>",
    "Ernie": "<think>\n{t}\n</think>\n\n<response>\n{a}\n</response>\n",
    "the closing mark was forgotten": "<think>\n{t}\n<answer>{a}</answer>",
    "Apertus": "<|inner_prefix|>{t}<|inner_suffix|>{a}<|assistant_end|>",
    "LongCat": "<longcat_think>{t}</longcat_think>\n{a}",
    "K2": "<think_fast>{t}</think_fast>{a}",
    "Claude": "<antThinking>{t}</antThinking>\n{a}",
    "Marco-o1": "<Thought>{t}</Thought>\n<Output>\n{a}\n</Output>",
    "Sky-T1": "<|begin_of_thought|>{t}<|end_of_thought|><|begin_of_solution|>{a}<|end_of_solution|>",
    "s1": "<|im_start|>think\n{t}\n<|im_start|>answer\n{a}",
    "Solar": "<|think|>{t}<|end|><|begin|>assistant<|content|>{a}<|end|>",
    "Nova, Llama with instructions": "<thinking>{t}</thinking>{a}",
    "analysis": "<analysis>{t}</analysis>\n{a}",
    "reasoning": "<reasoning>{t}</reasoning>\n{a}",
    "with attributes": '<thinking duration="4">{t}</thinking>\n{a}',
    "twice": "<think>{t}</think>\n<think>{t}</think>{a}",
    "within one another": "<think>{t} <think> {t}</think> {t}</think>{a}",
    "with a fence that stays open": "<think>\n```python\n{t}\n</think>\n\n{a}",
    "a fence": "```thinking\n{t}\n```\n\n{a}",
    "braces": "{{think}}{t}{{/think}}\n{a}",
    "parentheses": "(thinking)\n{t}\n(/thinking)\n{a}",
    "doubled brackets": "<<think>>{t}<</think>>\n{a}",
    "a summary with type": "<details open>\n<summary><b>Reasoning</b></summary>\n{t}\n</details>\n{a}",
    "rationale": "<rationale>{t}</rationale>\n{a}",
    "words alone": "My thought process:\n{t}\n\nMy answer:\n{a}",
    "after a word": "Sure.\n<think>{t}</think>\n{a}",
    "MiniMax, whole": "<think>{t}</think>\n\n{a}[e~[",
    "HyperCLOVA": "<|im_start|>assistant/think\n{t}<|im_end|>\n<|im_start|>assistant\n{a}<|im_end|>",
    "a turn of thoughts": (
        "<|start_header_id|>thinking<|end_header_id|>\n\n{t}<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n{a}"
    ),
    "K2 Horizon": "<ifm|think_fast>\n{t}\n</ifm|think_fast>\n{a}",
    "PLaMo": "<|plamo:begin_think:plamo|>{t}<|plamo:end_think:plamo|>{a}<|plamo:tag|>",
    "Solar Open 2, its opening mark in the prompt": "{t}<|think:end|>{a}",
    "Hunyuan 3": "<think:6124c78e>{t}</think:6124c78e>{a}",
    "Kimi K3": (
        "{t}<|close|>think<|sep|>\n<|open|>response<|sep|>{a}<|close|>response<|sep|><|close|>message<|sep|><|end_of_msg|>"
    ),
    "Inkling": (
        "<|content_thinking|>{t}<|end_message|><|message_model|><|content_text|>{a}<|end_message|>"
        "<|content_model_end_sampling|>"
    ),
    "messages to oneself": " to=self<|message|>{t}<|eom|><|start|>assistant to=user<|message|>{a}<|eot|>",
    "openPangu": "[unused16]{t}[unused17]{a}[unused10]",
    "Nemotron": "<think>\n{t}</think>\n\n{a}<SPECIAL_12>",
    "Keye": "<analysis>It is hard. /think</analysis><think>{t}</think><answer>{a}</answer>",
    "KAT": "<judge>\n{t}\n</judge>\n\n<think_on>\n<think>\n{t}\n</think>\n\n<answer>\n{a}\n</answer>",
    "KAT without thoughts": "<judge>\n{t}\n</judge>\n\n<think_off>\n<answer>\n{a}\n</answer>",
    "Phi-4, nothing thought": "<nothink>{a}",
    "a tag without content": "<think/>\n{a}",
    "GRPO": "<start_working_out>{t}<end_working_out><SOLUTION>{a}</SOLUTION>",
    "a draft": "<draft>{t}</draft>\n<final>{a}</final>",
    "Poe": "*Thinking...*\n\n> {t}\n> {t}\n\n{a}",
    "Ollama's terminal": "Thinking...\n{t}\n...done thinking.\n\n{a}",
    "a container": ":::thinking\n{t}\n:::\n\n{a}",
    "escaped": "&lt;think&gt;\n{t}\n&lt;/think&gt;\n{a}",
    "wide brackets": "＜think＞{t}＜/think＞{a}",
    "a comment": "<!-- thinking: {t} -->\n{a}",
    "signs": "@@think@@{t}@@/think@@{a}",
    "lines": "---think---\n{t}\n---/think---\n{a}",
    "LaTeX": "\\begin{{thinking}}{t}\\end{{thinking}}\n{a}",
    "headings": "**Thinking**\n\n{t}\n\n**Answer**\n\n{a}",
    "headings between lines": "=== Thinking ===\n{t}\n=== Answer ===\n{a}",
    "headings with signs": "🤔 Thinking...\n{t}\n\n💡 Answer:\n{a}",
    "words in brackets": "[BEGIN THINKING]{t}[END THINKING]{a}",
    "a quoted heading": "> 💭 **Reasoning**\n>\n> {t}\n\n{a}",
    "tags around both": "<output>\n<reasoning>{t}</reasoning>\n<final>{a}</final>\n</output>",
    "a longer name of the answer": "<think>{t}</think><final_answer>{a}</final_answer>",
    "ReAct": "Thought: {t}\nFinal Answer: {a}",
    "after the header of the turn": "<|im_start|>assistant\n<think>{t}</think>\n{a}<|im_end|>",
}

STEMS = (
    "think",
    "thinking",
    "thought",
    "reasoning",
    "analysis",
    "scratchpad",
    "reflection",
    "deliberation",
    "monologue",
)
NAMES = st.builds(
    lambda before, stem, after, case: case(before + stem + after),
    st.sampled_from(["", "my_", "x1:", "deep-", "model.", "inner_"]),
    st.sampled_from(STEMS),
    st.sampled_from(["", "_2", "_block", "-trace"]),
    st.sampled_from([str, str.upper, str.title]),
)
STYLES = st.sampled_from(
    [
        ("<{}>", "</{}>"), ("[{}]", "[/{}]"), ("<|{}|>", "<|/{}|>"), ("<|{}_start|>", "<|{}_end|>"), ("◁{}▷", "◁/{}▷"),
        ("<|begin_of_{}|>", "<|end_of_{}|>"), ("<|START_{}|>", "<|END_{}|>"), ("<｜{}｜>", "<｜/{}｜>"),
        ("⟨{}⟩", "⟨/{}⟩"),
        ("<|{}>", "<{}|>"), ("<{}_begin>", "<{}_end>"), ("【{}】", "【/{}】"), ('<{} id="7">', "</{}>"),
    ]
)  # fmt: skip
PLAIN = st.text(st.characters(exclude_categories=["Cs"], exclude_characters='<[◁⟨〈《【«‹`"“#'), max_size=60).map(
    lambda text: re.sub(r"(?i)here|analysis|thought|think|reasoning", "", text)
)


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("family", FAMILIES)
def test_no_thought_of_a_known_family_stays(family: str, answer: str) -> None:
    clean = clean_reply(FAMILIES[family].format(t=THOUGHT, a=answer))
    assert (clean.text.strip().removeprefix("Sure.\n"), clean.unfinished) == (answer, False)


def test_the_answer_of_an_object_with_thoughts_is_its_answer() -> None:
    assert clean_reply(f'{{"thinking": "{THOUGHT}", "answer": "May."}}').text == "May."
    for whole in (
        '{"reason": "it is said", "score": 1.0}',
        '{"answer": "May.", "date": "thought"}',
        '{"thoughts": ["x"]}',
    ):
        assert clean_reply(whole) == CleanReply(whole)


@given(NAMES, STYLES, PLAIN, PLAIN)
@example("think", ("◁{}▷", "◁/{}▷"), "(A", "")
def test_no_thought_of_a_family_that_nobody_listed_stays(
    name: str, style: tuple[str, str], thought: str, answer: str
) -> None:
    opening, closing = (mark.format(name) for mark in style)
    answer = f"It was {answer}".strip()
    assert clean_reply(f"{opening}So {thought}.{closing}\n{answer}") == CleanReply(answer)
    assert clean_reply(f"So {thought}.\n{closing}\n\n{answer}") == CleanReply(answer)
    assert clean_reply(f"So {thought}.{closing}\n{answer}") == CleanReply(answer)
    if opening[0] != "[" or name.isupper():
        assert clean_reply(f"{opening}\nSo {thought}") == CleanReply("", unfinished=True)


@given(st.text(), st.text())
def test_marks_that_were_learnt_are_removed_literally(thought: str, answer: str) -> None:
    learnt = [("~~hm", "hm~~"), ("", "=> ")]
    thought, answer = (re.sub(r"[~=]", "", text) for text in (thought, "It was " + answer))
    assert clean_reply(f"~~hm{thought}hm~~{answer}", learnt) == clean_reply(answer)
    assert clean_reply(f"{thought}=> {answer}", learnt) == clean_reply(answer)
    assert clean_reply(f"~~hm{thought}", learnt) == CleanReply("", unfinished=True)


@pytest.mark.parametrize(
    "start",
    ["<think>", "[THINK]", "<|channel|>analysis<|message|>", "<|channel>thought\n", "<unused94>thought\n", "<mm:think>",
     "Here is my thought process:\n", "analysisWe", '<details type="reasoning">\n', "<|START_THINKING|>", "thought\n"],
)  # fmt: skip
def test_thoughts_without_an_end_are_no_answer(start: str) -> None:
    assert clean_reply(start + THOUGHT) == CleanReply("", unfinished=True)


WHOLE = [
    "The <think> tag is used by R1 models to wrap their reasoning.",
    "R1 writes its reasoning between <think> and </think> tags.",
    "<think> and </think> are the tags that R1 uses.",
    "<think></think> tags wrap what a model thinks.",
    "Use `<think>` and `</think>` for it.",
    'It uses "<think>" to open and "</think>" to close.',
    "It closes with </think>, as I said.",
    "```xml\n<think>\nreasoning\n</think>\nanswer\n```\nThat is the output.",
    "Models emit <think>...</think> blocks before the answer.",
    "R1's format: <think>reasoning process here</think><answer>answer here</answer>",
    "```python\nre.sub(r'<think>.*?</think>', '', text)\n```",
    're.sub(r"<think>.*?</think>", "", text)',
    'text.split("</think>")[-1]',
    '{"score": 1.0, "reason": "uses <think> and </think> correctly"}',
    'Verdict: {"score": 1.0, "reason": "it ends with </think>"}',
    "- <think>: opens\n- </think>: closes",
    "</think> is the closing tag.",
    "[THINK] and [/THINK] are used by Magistral.",
    "[Thoughts](http://example.org) is a link, and [analysis of May] a heading.",
    "A reply of R1 looks like this:\n\n<think>\nreasoning\n</think>\nanswer\n\nStrip it with a regex.",
    "The tags are:\n<think>\n</think>\nThey wrap thoughts.",
    "> <think>\n> hm\n> </think>\n> May",
    "1. <think>\n2. </think>",
    "Close it with </think>",
    "It (thinking) went on, {reason} and (thought) about it. [analysis] of [[thought]].",
    "Here is the thought process behind the design:\n1. tea",
    "Here's a thinking process that you can use:\n1. tea",
    "My reasoning: it was cheap.\nSo I took it.",
    "```thoughts are free```",
    "It stopped. (finish_reason)\nThen it went on.\n<stop_reason>\nDone.\n{end_reason}\nAll.",
    "<FirstResponder>\nis a class, as is\n<operational>\nfor some.",
    "items.map(|x| x + 1); run(|x|); {|y| y}",
    "Llama 3 uses <|eot_id|> to end turns.",
    "Llama ends turns with <|eot_id|>.",
    "| <|eot_id|> | end of turn |\n| <|im_end|> | end |",
    "The tokens <|im_start|> and <|im_end|> delimit messages.",
    "```\n<|im_start|>user\nHello<|im_end|>\n```",
    "He <s>did</s> does not.",
    "Here are my thoughts on it:\n1. Tea",
    "Here is my reasoning:\n1. a\nSo 5.",
    "**Analysis:** it\n\n**Final answer:** May",
    "Thinking about it, it was in May.",
    "Thought leaders say so; the reason is that I think it.",
    '<div class="analysis">hi</div>\nSo',
    "const x = <AnalysisPanel data={y} />;",
    "Array<string> and Map<Thought, Reason> in one line.",
    "<details>\n<summary>The code</summary>\nx\n</details>\nMore.",
    "<p>It was in May, as you said in a letter.</p>\n<p>And in June.</p>",
    "<strong>It was in May, as you said.</strong> Then it rained.",
    "<note><to>Ann and Bob and Carl</to></note>\nis the file.",
    "<items>\n- tea and rye and oats and salt\n- rye\n</items>\nThat is all.",
    "<UserCard>Hi there</UserCard> renders it.",
    "**Thinking** about it, you said May. You wanted to stop thinking, and **then** it rained.",
    "Thinking of you: a card.\nThe answer was no.",
    "Use &lt;think&gt; and &lt;/think&gt; for it.",
    "### Reasoning\nIt was cheap.\n\n### Conclusion\nBuy it.",
    "Array<string|number>, a <b|c> and think|thought in one line.",
    "Write to=self, then to=user, as the header says.",
    "The <nothink> tag and [unused16] are tokens of Phi.",
]


@pytest.mark.parametrize("answer", WHOLE)
def test_an_answer_that_speaks_of_marks_stays_whole(answer: str) -> None:
    assert clean_reply(answer) == CleanReply(answer)
    assert clean_reply(f"<think>\n{THOUGHT}\n</think>\n\n{answer}") == CleanReply(answer)


@given(PLAIN, st.sampled_from(["think", "mm:think", "thinking", "reasoning"]), PLAIN)
def test_a_mark_in_code_stays(before: str, name: str, after: str) -> None:
    answer = f"So {before} `<{name}>` and `</{name}>` {after}."
    assert clean_reply(answer) == CleanReply(answer)
    answer = f"So {before}\n```\n<{name}>\n{after}\n</{name}>\n```\n"
    assert clean_reply(answer) == CleanReply(answer)


@given(PLAIN)
def test_an_answer_without_marks_is_not_touched(answer: str) -> None:
    assert clean_reply(answer) == CleanReply(answer)


RUNAWAY = [
    "<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nAnd when did I say so?",
    "<|im_end|>\n<|im_start|>user\nAnd when did I say so?<|im_end|>\n<|im_start|>assistant\nIn June.",
    "<end_of_turn>\n<start_of_turn>user\nAnd when did I say so?",
    "</s><s>[INST] And when did I say so? [/INST] In June.",
    "\n[INST] And when? [/INST] In June.",
    "\n<|user|>\nAnd when did I say so?",
    "[|endofturn|]\n[|user|]And when did I say so?",
    "<turn|>\n<|turn>user\nAnd when?",
    "<｜end▁of▁sentence｜><｜User｜>And when?",
    "<|END_OF_TURN_TOKEN|><|START_OF_TURN_TOKEN|><|USER_TOKEN|>And when?",
    "<|endoftext|>Human: And when did I say so?",
    "<|eom_id|>\n\nAnd then?",
    "[e~[\n]~b]user\nAnd when?",
    "<|end_of_text|>\n<|start_of_role|>user<|end_of_role|>And when?",
    "<|return|><|start|>user<|message|>And when?",
    "<|role_end|><|role_start|>user\nAnd when?",
]


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("rest", RUNAWAY)
def test_a_reply_ends_at_its_end_of_turn(rest: str, answer: str) -> None:
    clean = clean_reply(answer + rest)
    assert (clean.text.strip(), clean.ran_on) == (answer, True)
    clean = clean_reply(f"<think>{THOUGHT}</think>\n{answer}{rest}")
    assert (clean.text.strip(), clean.ran_on) == (answer, True)


@pytest.mark.parametrize(
    "end", ["</s>", "<|im_end|>", "<|end_of_text|>", "<|eot_id|>", "\n<|im_end|>\n", "[END_OF_TEXT]", "<eos>"]
)
def test_a_token_at_the_very_end_is_left_out(end: str) -> None:
    assert clean_reply(f"It was in May.{end}").text.strip() == "It was in May."
    assert not clean_reply(f"It was in May.{end}").ran_on


def test_a_box_around_the_answer_is_opened() -> None:
    assert clean_reply("It is <|begin_of_box|>42<|end_of_box|>.") == CleanReply("It is 42.")


@pytest.mark.parametrize(
    "reply",
    [
        "<|channel|>final<|message|>It <|start|> was in May.", "It was<|unheard_of|>in May.", "<|think|>a" * 600,
        *(f"<{name}>{THOUGHT}</{name}>\nMay." for name in ("mulling", "internal", "Draft_1", "x:work", "pensée")),
        f"<start_x>{THOUGHT}<end_x>May.",
    ],
)  # fmt: skip
def test_what_cannot_be_told_is_unreadable(reply: str) -> None:
    with pytest.raises(ModelError, match=r"cannot be told|more than 500 marks"):
        clean_reply(reply)


@pytest.mark.parametrize(
    "atom",
    [
        "<",
        "<think>",
        "</think>",
        "[",
        "<|",
        "<|a|>",
        "```\n",
        '"',
        "`",
        "<a ",
        "think\n",
        "<|channel|>",
        "\n<think>",
        " ",
        "a ",
    ],
)
@pytest.mark.parametrize("head", ["", "<think>", "<mull>", "<think>a</think>", "sure ", '{"a": "'])
def test_marks_without_sense_take_time_in_proportion(atom: str, head: str) -> None:
    began = time.process_time()
    for length in (400, 200_000):
        try:
            clean_reply(head + atom * (length // len(atom)) + "x")
        except ModelError as error:
            assert "told" in str(error) or "marks" in str(error)
    assert time.process_time() - began < 2
