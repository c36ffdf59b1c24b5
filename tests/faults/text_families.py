"""Families of what texts and a line's further numbers are like, by the author of their series."""

from faults.simulated import Simulated, fault, honest


@fault("the template of prompts changes")
def _(run: Simulated) -> None:
    for row in run.rows:
        is_new = row.step >= run.begin
        row.prompt = f"User: {row.prompt}" if is_new else f"<|user|>{row.prompt}<|assistant|>"


@fault("a phrase takes over", grows=True)
def _(run: Simulated) -> None:
    for row in run.from_begin():
        if run.dice.random() < run.grown(row):
            row.response = f"Certainly! {row.response}"


@fault("responses break off")
def _(run: Simulated) -> None:
    for row in run.rows:
        is_cut = row.step >= run.begin and run.dice.random() < 0.4
        row.response += "" if is_cut else "."


@fault("scoring takes longer and longer", grows=True)
def _(run: Simulated) -> None:
    for row in run.rows:
        late = 3 * run.grown(row) if row.step >= run.begin else 0.0
        row.extras["timing"] = {"scoring_ms": abs(run.dice.gauss(400, 100)) * (1 + late)}


@fault("weights get older and older")
def _(run: Simulated) -> None:
    for row in run.rows:
        row.extras["trainer"] = {"lag": max(run.dice.randrange(3), (row.step - run.begin) // 2)}


@fault("one machine gives no reward")
def _(run: Simulated) -> None:
    for row in run.rows:
        node = int(row.group.split("-")[1]) % 2
        row.extras["meta"] = {"node": node}
        if node and row.step >= run.begin:
            row.parts = dict.fromkeys(row.parts, 0.0)


@fault("rewards belong to other rollouts")
def _(run: Simulated) -> None:
    later = [*run.from_begin()]
    for row in run.rows:
        row.extras["quality"] = row.parts["correct"] + run.dice.gauss(0, 0.3)
    rewards = [row.score for row in later]
    run.dice.shuffle(rewards)
    for row, reward in zip(later, rewards, strict=True):
        row.reward = reward


@honest("prompts of a few templates")
def _(run: Simulated) -> None:
    for row in run.rows:
        kind = run.dice.choice(("Answer:", "Please solve this.", "<|user|>", "Q:"))
        row.prompt = f"{kind} {row.prompt}"


@honest("a stop word is learnt by and by")
def _(run: Simulated) -> None:
    for row in run.rows:
        if run.dice.random() < row.step / run.steps:
            row.response += " Done."


@honest("times with long tails")
def _(run: Simulated) -> None:
    for row in run.rows:
        row.extras["timing"] = {
            "total_s": run.dice.lognormvariate(1, 1),
            "wait_s": run.dice.paretovariate(1.5),
        }


@honest("rollouts of many machines")
def _(run: Simulated) -> None:
    for row in run.rows:
        row.extras["meta"] = {"node": run.dice.randrange(8), "queue": run.dice.randrange(40)}


@honest("weights of a bounded age")
def _(run: Simulated) -> None:
    for row in run.rows:
        row.version = max(row.step - run.dice.randrange(5), 0)


@honest("a learning rate that warms up and decays")
def _(run: Simulated) -> None:
    for row in run.rows:
        rate = min((row.step + 1) / 10, 1.0) * (1 - row.step / run.steps)
        row.extras["lr"] = 1e-6 * rate


@honest("prompts of two epochs")
def _(run: Simulated) -> None:
    half = run.steps // 2
    prompts = [row.prompt for row in run.rows if row.step < half]
    later = [row for row in run.rows if row.step >= half]
    for row, prompt in zip(later, prompts, strict=False):
        row.prompt = prompt


@honest("few groups of a step are read")
def _(run: Simulated) -> None:
    run.rows = [row for row in run.rows if int(row.group.split("-")[1]) < 2]
