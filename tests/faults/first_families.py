"""Families that were written beside the change detector, by its author."""

from faults.simulated import Row, Simulated, fault, honest


@fault("the reward falls in all environments", sized=True)
def _(run: Simulated) -> None:
    run.lower_rewards()


@fault("the reward of one environment falls", sized=True, needs="envs")
def _(run: Simulated) -> None:
    run.lower_rewards(env=run.envs[0])


@fault("the reward of one rank falls", sized=True, needs="ranks")
def _(run: Simulated) -> None:
    run.lower_rewards(rank=0)


@fault("the reward sinks over some steps", sized=True, grows=True)
def _(run: Simulated) -> None:
    by = run.by_noise("reward")
    for row in run.from_begin():
        if row.parts["correct"] and run.dice.random() < run.grown(row) * by / 0.5:
            row.parts["correct"] = 0.0


@fault("responses get shorter", sized=True)
def _(run: Simulated) -> None:
    by = run.by_noise("tokens")
    for row in run.from_begin():
        row.tokens = max(int(row.tokens - by), 1)
        row.response = " ".join(row.response.split()[: row.tokens])


@fault("responses get longer", sized=True)
def _(run: Simulated) -> None:
    by = run.by_noise("tokens")
    for row in run.from_begin():
        row.response += "".join(f" {word}" for word in range(int(by)))
        row.tokens += int(by)


@fault("entropy falls", sized=True, needs="tokens")
def _(run: Simulated) -> None:
    by = run.by_noise("entropy")
    for row in run.from_begin():
        row.entropy = max(row.entropy - by, 0.01)


@fault("entropy rises", sized=True, needs="tokens")
def _(run: Simulated) -> None:
    by = run.by_noise("entropy")
    for row in run.from_begin():
        row.entropy += by


@fault("the reference is another one", needs="tokens")
def _(run: Simulated) -> None:
    for row in run.from_begin():
        row.kl += 0.3


@fault("the reference is the policy", needs="tokens")
def _(run: Simulated) -> None:
    for row in run.from_begin():
        row.kl = 0.0


@fault("sampler and trainer part", needs="tokens")
def _(run: Simulated) -> None:
    for row in run.from_begin():
        row.apart *= 6


@fault("sampler and trainer part by and by", grows=True, needs="tokens")
def _(run: Simulated) -> None:
    for row in run.from_begin():
        row.apart *= 1 + 10 * run.grown(row)


@fault("format is no longer paid")
def _(run: Simulated) -> None:
    for row in run.from_begin():
        row.parts["format"] = 0.0


@fault("rewards are multiplied")
def _(run: Simulated) -> None:
    for row in run.from_begin():
        row.reward = 3 * row.score


@fault("rewards are noise")
def _(run: Simulated) -> None:
    for row in run.from_begin():
        row.reward = row.score + run.dice.gauss(0, 1)


@fault("few prompts again and again")
def _(run: Simulated) -> None:
    few = [row.prompt for row in run.rows[: 2 * run.group_size : run.group_size]]
    for row in run.from_begin():
        row.prompt = few[len(row.group + row.prompt) % len(few)]


@fault("one response from a cache")
def _(run: Simulated) -> None:
    for row in run.from_begin():
        row.response = run.rows[len(row.response) % 3].response


@fault("half of the groups are lost")
def _(run: Simulated) -> None:
    lost = {
        row.group for row in run.rows if row.step >= run.begin and int(row.group.split("-")[1]) % 2
    }
    run.rows = [row for row in run.rows if row.group not in lost]


@fault("the stop reason is always length")
def _(run: Simulated) -> None:
    for row in run.from_begin():
        row.finish = "length"


@fault("a field of the harness changes")
def _(run: Simulated) -> None:
    for row in run.rows:
        row.extras["tool_seconds"] = abs(run.dice.gauss(1, 0.2)) * (
            4 if row.step >= run.begin else 1
        )


@honest("nothing happens")
def _(run: Simulated) -> None:
    pass


@honest("nothing happens, with token arrays", needs="tokens")
def _(run: Simulated) -> None:
    pass


@honest("groups of two")
def _(run: Simulated) -> None:
    run.rows = [row for at, row in enumerate(run.rows) if at % run.group_size < 2]


@honest("a curriculum whose level is logged")
def _(run: Simulated) -> None:
    for row in run.rows:
        row.extras["level"] = 1 + (row.step >= run.begin)
    run.lower_rewards(0.3)


@honest("a curriculum of longer prompts")
def _(run: Simulated) -> None:
    for row in run.from_begin():
        row.prompt += " and then" * 20
        row.extras["prompt_tokens"] = 60
    for row in run.rows:
        row.extras.setdefault("prompt_tokens", 20)
    run.lower_rewards(0.3)


@honest("a curriculum by and by")
def _(run: Simulated) -> None:
    length = max(run.steps - run.begin, 20)
    for row in run.from_begin():
        if row.parts["correct"] and run.dice.random() < 0.4 * (row.step - run.begin) / length:
            row.parts["correct"] = 0.0


@honest("the policy learns all at once")
def _(run: Simulated) -> None:
    for row in run.from_begin():
        if run.dice.random() < 0.5:
            row.parts["correct"] = 1.0


@honest("an environment is added", needs="envs")
def _(run: Simulated) -> None:
    run.rows = [row for row in run.rows if row.step >= run.begin or row.env != run.envs[-1]]


@honest("the mix of environments changes by and by", needs="envs")
def _(run: Simulated) -> None:
    for row in run.rows:
        row.rank = 0

    def stays(row: Row) -> bool:
        return (
            row.env != run.envs[0] or int(row.group.split("-")[1]) % 10 > 8 * row.step / run.steps
        )

    run.rows = [row for row in run.rows if stays(row)]


@honest("answers in Chinese")
def _(run: Simulated) -> None:
    for row in run.rows:
        row.response = "我们来算一下" * max(row.tokens // 6, 1)
        row.prompt = f"问题：{row.prompt}"


@honest("a level that wanders")
def _(run: Simulated) -> None:
    level = 0.0
    at = -1
    for row in run.rows:
        if row.step != at:
            at, level = row.step, 0.97 * level + run.dice.gauss(0, 0.03)
        if run.dice.random() < abs(level):
            row.parts["correct"] = float(level > 0)


@honest("lengths with heavy tails")
def _(run: Simulated) -> None:
    for row in run.rows:
        row.tokens = int(row.tokens * run.dice.paretovariate(2.5))
        row.response = " ".join(f"{word}{row.step}" for word in range(row.tokens))


@honest("a reward of few values that is mostly nought")
def _(run: Simulated) -> None:
    for row in run.rows:
        row.reward = float(run.dice.random() < 0.03)


@honest("KL grows with learning", needs="tokens")
def _(run: Simulated) -> None:
    for row in run.rows:
        row.kl *= 1 + 30 * row.step / run.steps


@honest("batches of other sizes")
def _(run: Simulated) -> None:
    keep = {step: run.dice.uniform(0.5, 1) for step in range(run.steps)}
    run.rows = [
        row
        for row in run.rows
        if int(row.group.split("-")[1]) < max(keep[row.step] * run.groups, 2)
    ]
