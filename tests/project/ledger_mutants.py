"""A mutation for each row of docs/fidelity.md that claims to agree: what the code would be if the row were wrong."""

from __future__ import annotations

from typing import NamedTuple


class Mutant(NamedTuple):
    """Replace `old`, which stands once in `file`, by `new`."""

    file: str
    old: str
    new: str


_PLANS = "packages/beam_generate/plans.py"
_DIALOGUE = "packages/beam_generate/dialogue.py"
_QUESTIONS = "packages/beam_generate/questions.py"
_PEOPLE = "packages/beam_generate/people.py"
_SEEDS = "packages/beam_generate/seeds.py"
_WRITING = "packages/beam_generate/probes/writing.py"
_JUDGE = "beamlib/scoring/judge.py"
_LIGHT = "beamlib/memory/light.py"
_PAD = "beamlib/memory/scratchpad.py"
_MODELS = "params/models.yaml"
_PAPER = "params/paper.yaml"
_BASE = "params/base.yaml"

MUTANTS = {
    1: Mutant(_PAPER, "\nmodels: params/models.yaml ", '\nmodels: "" '),
    4: Mutant(_MODELS, "    temperature: 0.1\n    input_price: 0.40", "    temperature: 0.7\n    input_price: 0.40"),
    8: Mutant(_BASE, "\noutput_tokens: 0 ", "\noutput_tokens: 512 "),
    9: Mutant("beamlib/data/conversations.py", "return iter(self.messages)", "return iter(self.messages[1:])"),
    10: Mutant(
        "beamlib/llm/chat_turns.py",
        'for role, text in (*turns, (last["role"], last["content"])):',
        'for role, text in ((last["role"], last["content"]), *turns):',
    ),
    11: Mutant(
        "beamlib/scoring/protocols.py",
        "return _score_order(judgement, lambda order: order.tau if math.isnan(order.tau) else max(0.0, order.tau))",
        "return rubric_mean(judgement)",
    ),
    12: Mutant("packages/beam_generate/probes/drafts.py", "PER_ABILITY = 2", "PER_ABILITY = 1"),
    13: Mutant(
        "beamlib/data/published/table2_benchmark_comparison.csv",
        "MSC,Casual,~1K,Event Ordering,no",
        "MSC,Casual,~1K,Event Ordering,yes",
    ),
    16: Mutant("params/1m.yaml", "size: 1M", "size: 500K"),
    18: Mutant(_SEEDS, 'in table("table5").itertuples():', 'in table("table5").iloc[1:].itertuples():'),
    21: Mutant(
        _SEEDS,
        "return Seed(category, title, known.theme, tuple(known.subtopics))",
        "return Seed(category, title, known.theme)",
    ),
    23: Mutant(_PLANS, "NARRATIVES = (15, 20)", "NARRATIVES = (12, 20)"),
    24: Mutant(
        _MODELS,
        "narratives (appendix B, Listing 23)\n    model: meta-llama/Llama-3.3-70B-Instruct-Turbo",
        "narratives (appendix B, Listing 23)\n    model: gpt-4.1-mini",
    ),
    25: Mutant(_PEOPLE, 'f"    • Profession: {profile.profession}",', ""),
    26: Mutant(_PEOPLE, "for trait in profile.traits)", "for trait in profile.traits[:5])"),
    27: Mutant(_PEOPLE, "age + 18 <= other.age <= age + 40", "age + 8 <= other.age <= age + 40"),
    28: Mutant(
        _PLANS,
        "plan_text.show_timeline(subseeds[index].timeline),",
        "plan_text.show_day(subseeds[index].timeline.start),",
    ),
    29: Mutant(
        _SEEDS,
        "settings.subplans, settings.bullets_per_subplan,",
        "settings.questions_per_batch, settings.bullets_per_subplan,",
    ),
    33: Mutant(
        _PLANS, "else [SubSeed(story.topic, story.timeline)]", "else 2 * [SubSeed(story.topic, story.timeline)]"
    ),
    34: Mutant(_PLANS, 'return Prompt(f"plan_{story.style}", variables', 'return Prompt("plan_general", variables'),
    35: Mutant(
        _PLANS,
        'variables["relationships"] = render_relationships(story.core)',
        'variables["relationships"] = render_relationships(())',
    ),
    36: Mutant(_PLANS, "for index, subseed in enumerate(subseeds):", "for index, subseed in enumerate(subseeds[:9]):"),
    37: Mutant(_PLANS, "        seeds[0] = story.topic", "        seeds[0] = seeds[1]"),
    38: Mutant(
        _PLANS,
        "plan_text.render_plan(plans[-1].subplans) if plans",
        "plan_text.render_plan(plans[0].subplans) if plans",
    ),
    39: Mutant(_PLANS, 'story.timeline),\n        "count": str(count)', 'story.timeline),\n        "count": "9"'),
    40: Mutant(_PLANS, 'f"Plan {number}: {text}" for number, text', 'f"Plan {number}: " for number, text'),
    41: Mutant(_PLANS, "render_relationships(story.newcomers[index])", "render_relationships(story.newcomers[0])"),
    42: Mutant(_PLANS, "in_order = all(one.end < other.start for one, other in pairwise(fitted))", "in_order = True"),
    43: Mutant(_PLANS, '"introduce": "no" if plans else "yes"', '"introduce": "yes"'),
    46: Mutant(
        _MODELS,
        "(section 2.2.1, Listing 27)\n    model: gpt-4.1\n",
        "(section 2.2.1, Listing 27)\n    model: gpt-4.1-mini\n",
    ),
    47: Mutant(
        _QUESTIONS,
        "size = len(bullets) // groups + (number < len(bullets) % groups)",
        "size = -(-len(bullets) // groups)",
    ),
    48: Mutant(_QUESTIONS, '"earlier_groups": bullet_lines(group.earlier)', '"earlier_groups": bullet_lines(())'),
    51: Mutant("params/500k.yaml", "questions_per_batch: [4, 3, 4]", "questions_per_batch: [4, 4, 4]"),
    53: Mutant(
        _QUESTIONS, 'return Prompt(f"questions_{self.style}", variables', 'return Prompt("questions_general", variables'
    ),
    54: Mutant(
        "prompts/questions_math.md",
        "Sometimes done, with a result or a full solution to be checked and\n  corrected; some of these hold a slip. ",
        "",
    ),
    55: Mutant(
        _MODELS,
        "(section 2.2.2)\n    model: meta-llama/Llama-3.3-70B-Instruct-Turbo",
        "(section 2.2.2)\n    model: gpt-4.1-mini",
    ),
    56: Mutant(
        "packages/beam_generate/authors.py",
        'own = self.question_output_tokens if role == "asker" else 0',
        "own = 0",
    ),
    57: Mutant(
        "packages/beam_generate/folder.py",
        'first["index"] = index_of(subplan.number, turn.bullet)',
        'first["index"] = index_of(subplan.number, None)',
    ),
    59: Mutant(
        _DIALOGUE,
        'memory = {"summary": window.summary, "history": window.text()}',
        'memory = {"summary": window.summary, "history": ""}',
    ),
    62: Mutant(
        _DIALOGUE, 'variables = {"summary": self.summary, "exchanges"', 'variables = {"summary": "", "exchanges"'
    ),
    64: Mutant(
        _DIALOGUE,
        'memory = {"summary": window.summary, "history": window.text(leave_out=1), "answer": answer}',
        'memory = {"summary": window.summary, "history": "", "answer": answer}',
    ),
    65: Mutant(
        _DIALOGUE, '"profile": self.profile, "bullets": self.bullets}', '"profile": self.profile, "bullets": ""}'
    ),
    66: Mutant(
        _DIALOGUE,
        'self._react("answer_ai_question", self.limits.replies, messages)',
        'self._react("answer_ai_question", self.limits.replies + 1, messages)',
    ),
    67: Mutant(_DIALOGUE, 'topic = {"topic": self.shared["topic"]} if', 'topic = {"topic": ""} if'),
    68: Mutant(
        _DIALOGUE,
        '"earlier_batches": earlier_subplans(plan, number, EARLIER),',
        '"earlier_batches": earlier_subplans(plan, 1, EARLIER),',
    ),
    69: Mutant(
        _DIALOGUE,
        'self._react("followup_question", self.limits.followups, messages)',
        'self._react("followup_question", self.limits.followups + 1, messages)',
    ),
    71: Mutant(
        _WRITING,
        'Prompt(f"candidates_{ability}", {"plan": window.text,',
        'Prompt(f"candidates_{ability}", {"plan": "",',
    ),
    72: Mutant(
        _MODELS, "rubrics (section 2.3)\n    model: gpt-4.1-mini", "rubrics (section 2.3)\n    model: gpt-4.1-nano"
    ),
    73: Mutant(
        "packages/beam_generate/probes/drafts.py",
        "return self._turns.get(ref, [])",
        "return next(iter(self._turns.values()), [])",
    ),
    75: Mutant(
        _WRITING, '{"bullets": candidate.bullets, "turns": shown,', '{"bullets": candidate.bullets, "turns": "",'
    ),
    76: Mutant(_WRITING, 'Prompt("probe_abstention", {"plan": window.text,', 'Prompt("probe_abstention", {"plan": "",'),
    81: Mutant(
        "packages/beam_generate/probes/making.py",
        "for _ in range(PER_ABILITY):\n        for ability, pool",
        "for _ in range(PER_ABILITY + 1):\n        for ability, pool",
    ),
    84: Mutant(_JUDGE, '"nugget": nugget, "answer": answer}', '"nugget": item.gold.rubric[0], "answer": answer}'),
    85: Mutant(
        "beamlib/scoring/protocols.py",
        "else QuestionScore(sum(scores) / len(scores))",
        "else QuestionScore(sum(map(int, scores)) / len(scores))",
    ),
    86: Mutant(_JUDGE, '{"question": item.question if self.question_in_prompt else "",', '{"question": "",'),
    89: Mutant(_JUDGE, "if await self._is_same(text, index):", "if text == self._gold.rubric[index]:"),
    90: Mutant(_JUDGE, 'if gold.ability != "event_ordering":', 'if gold.ability == "abstention":'),
    97: Mutant(
        _LIGHT,
        "*(newest if settings.use_working else [])]\n            cuts",
        "*(newest if not settings.use_working else [])]\n            cuts",
    ),
    98: Mutant(
        "beamlib/memory/extraction.py",
        "return tuple(read_keys(reply) or (pair.user.content,) for pair, reply in pairs)",
        "return tuple((pair.user.content,) for pair, reply in pairs)",
    ),
    99: Mutant(
        _MODELS,
        "(sections 3.1, 3.2)\n  model: Qwen/Qwen2.5-32B-Instruct-AWQ",
        "(sections 3.1, 3.2)\n  model: gpt-4.1-nano",
    ),
    102: Mutant(
        "beamlib/memory/episodic.py",
        "Document(texts, texts, pair.assistant.content,",
        "Document((pair.user.content,), texts, pair.assistant.content,",
    ),
    103: Mutant(_PAPER, "encoder: BAAI/bge-small-en-v1.5", "encoder: BAAI/bge-large-en-v1.5"),
    104: Mutant(
        "beamlib/retrieval/dense.py",
        "np.maximum.at(result, self._owner_of[keys[0][reached]], similarities[0][reached])",
        "result[self._owner_of[keys[0][reached]]] = similarities[0][reached]",
    ),
    105: Mutant(_PAPER, "\nretriever: dense ", "\nretriever: bm25 "),
    107: Mutant("beamlib/memory/budget.py", "        if size > longest:", "        if size > longest // 20:"),
    109: Mutant(
        "beamlib/memory/extraction.py",
        '{"history": history, "pair": text}',
        '{"history": "", "pair": text}',
    ),
    110: Mutant(
        _PAD,
        "in zip(conversation.pairs, notes, strict=True):",
        "in zip(conversation.pairs[::-1], notes[::-1], strict=True):",
    ),
    111: Mutant(_BASE, "scratchpad_threshold: 30000", "scratchpad_threshold: 60000"),
    114: Mutant(
        _MODELS,
        "15,000 tokens (section 3.2)\n  model: gpt-4.1-nano",
        "15,000 tokens (section 3.2)\n  model: gpt-4.1-mini",
    ),
    115: Mutant(
        _LIGHT,
        "passages, cuts = passages + notes, cuts + Cuts(chunks_dropped=dropped)",
        "cuts = cuts + Cuts(chunks_dropped=dropped)",
    ),
    116: Mutant(_PAD, "np.flatnonzero(distances > threshold)", "np.flatnonzero(distances >= threshold)"),
    118: Mutant(_PAD, '{"question": question, "chunk": chunk.text}', '{"question": "", "chunk": chunk.text}'),
    119: Mutant(_LIGHT, "in pairs[max(0, len(pairs) - count) :]]", "in pairs[:count]]"),
    121: Mutant(
        "beamlib/evaluate/answering.py",
        'variables = {"question": question, "context": context}',
        'variables = {"question": question, "context": ""}',
    ),
    123: Mutant(
        "beamlib/evaluate/arms.py",
        'kind.joins == "always" and not kind.ceiling),',
        'kind.joins == "always" and not kind.ceiling and not kind.whole),',
    ),
    124: Mutant(
        "beamlib/memory/full_context.py",
        "start = min(newest_that_fit(sizes, self._tokens), max(len(pairs) - 1, 0))",
        "start = max(len(pairs) - 1, 0)",
    ),
    126: Mutant(
        _MODELS,
        "context_window: 1047576        # paper, section 4.1: 1M",
        "context_window: 131072",
    ),
    127: Mutant(_MODELS, "context_window: 131072     # paper, section 4.1, long", "context_window: 32768     # long"),
    129: Mutant(
        "beamlib/memory/budget.py",
        "    while start > 0 and sizes[start - 1] <= left:",
        "    while start > 0 and sizes[start - 1] <= left // 2:",
    ),
    130: Mutant(
        "beamlib/memory/rag.py",
        "fit_pairs(passages, self._tokens, self._counter)",
        "fit_pairs(passages[::-1], self._tokens, self._counter)",
    ),
    132: Mutant(
        "beamlib/evaluate/arms.py",
        'return Arm.model_validate({"memory": name, **used, **changes})',
        'return Arm.model_validate({"memory": name, **used, **({"retriever": "bm25"} if name == "rag" else {})})',
    ),
    133: Mutant(
        "packages/beam_run/assembly.py",
        "[(method, entry) for method, entry in methods if method], several)",
        '[(method, entry) for method, entry in methods if method == "LIGHT"], several)',
    ),
    134: Mutant("beamlib/scoring/scores.py", ".mean(axis=-2)\n    return values", ".max(axis=-2)\n    return values"),
    135: Mutant(
        "beamlib/evaluate/arms.py",
        "*(light(without=part) for part in COMPONENTS)",
        "*(light(without=part) for part in COMPONENTS[:-1])",
    ),
    136: Mutant(_BASE, "budgets: [5, 10, 15, 20]", "budgets: [5, 10, 20]"),
    137: Mutant(_PAPER, "retrievers: [dense, splade]", "retrievers: [dense, bm25]"),
    138: Mutant(_BASE, '\nbackbone: "" ', "\nbackbone: gpt-4.1-nano "),
    141: Mutant(
        "packages/beam_claims/appendices.py",
        '_ARMS = {None: "LIGHT", "scratchpad": "LIGHT without scratchpad"}',
        '_ARMS = {None: "LIGHT", "retrieval": "LIGHT without scratchpad"}',
    ),
    147: Mutant(_LIGHT, "Encoders(self.index_encoder or self.encoder,", "Encoders(self.encoder,"),
    148: Mutant("beamlib/retrieval/dense.py", '    if kind == "flat":\n        return', "    if kind:\n        return"),
    149: Mutant(
        "packages/beam_memories/by_name/readagent.py",
        "passages[number], left = opened, left - more",
        "left = left - more",
    ),
}
"""By the number of the row."""
