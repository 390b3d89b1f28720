"""
A pipeline, from Python
=======================

**Problem.** The same as a file, which a colleague, a scheduler or a cluster can run, with a report at the end.
"""

import tempfile

import matplotlib.pyplot as plt

import dssl

spec = {"name": "moons", "data": {"source": "two_moons", "test": {"count": 500}}, "labels": {"per_class": 2}}
with tempfile.TemporaryDirectory() as folder:
    print(dssl.plan(spec, workspace=folder))
    result = dssl.run(spec, workspace=folder)
    print(result)

# %%
# **Picture.** Errors on 500 points that no model has seen.

errors = {"model": result.metrics["error"], **{name: each["error"] for name, each in result.baselines.items()
                                               if "error" in each}}
figure, axis = plt.subplots(figsize=(6, 2.2))
bars = axis.barh(list(errors)[::-1], [100 * error for error in errors.values()][::-1])
axis.bar_label(bars, fmt="%.1f %%")
axis.set(xlabel="error in percent", xlim=(0, 1.2 * 100 * max(errors.values())))
figure.tight_layout()

# %%
# **Pitfall.** On a cluster the workspace must be a folder that all workers can open, or a bucket.
