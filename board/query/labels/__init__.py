"""Labels of people as columns of a run's rollouts, matched by what the rollouts say; samples and shares.

An entry of a label file names its rollout by step and a hash of id, prompt, response, length and reward.
So labels are found again when the index is made anew or the log is moved; where a resumed training wrote
a step again, those of the rollouts that are gone match nothing.
"""
