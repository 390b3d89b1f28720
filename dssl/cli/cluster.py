"""`dssl cluster certs`: TLS certificates for a Dask cluster of several machines."""

from __future__ import annotations

import json
import shlex
import socket
from pathlib import Path

import click

from .options import json_option

PORT = 8786  # of Dask's schedulers


@click.group("cluster")
def cluster_command() -> None:
    """Prepare a Dask cluster that you start yourself: `dssl cluster certs FOLDER`."""


@cluster_command.command("certs")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option("--host", "hosts", multiple=True, metavar="NAME",
              help="Name or address of the machine of the scheduler, and further names of scheduler and workers; may "
                   "be repeated. Default: this machine.")
@click.option("--days", default=365, show_default=True, type=click.IntRange(min=1),
              help="Number of days for which the certificates are valid. The authority that signs them is valid for "
                   "ten years.")
@json_option
def certs_command(folder: Path, hosts: tuple[str, ...], days: int, as_json: bool) -> None:
    """Write the TLS certificates of a Dask cluster into FOLDER, and print the description for `--on`.

    FOLDER then contains a certificate authority (ca.pem), and a certificate and a key each for scheduler, workers and
    clients. If you call the command again, the same authority signs new certificates. Only you can read the keys. Give
    each machine ca.pem and the two files of its role. No other machine needs ca-key.pem.
    """
    from ..base.yaml import yaml_text
    from ..runtime.certificates import make_certificates

    names = hosts or (socket.gethostname(),)
    made = make_certificates(folder, names, days)
    target = folder.resolve()
    host = f"[{names[0]}]" if ":" in names[0] else names[0]
    address = f"tls://{host}:{PORT}"
    description = {"kind": "address", "address": address, "tls": {
        "ca_file": str(target / "ca.pem"), "cert": str(target / "client.pem"), "key": str(target / "client-key.pem")}}
    scheduler = ["dask", "scheduler", "--protocol", "tls://", "--port", str(PORT), *_files(target, "scheduler")]
    worker = ["dask", "worker", address, "--nthreads", "1", *_files(target, "worker")]
    if as_json:
        click.echo(json.dumps({"folder": str(target), "new_authority": made, "description": description,
                               "scheduler": scheduler, "worker": worker}, indent=1))
        return
    click.echo(f"# {shlex.join(scheduler)}\n# {shlex.join(worker)}\n"
               + yaml_text(description), nl=False)


def _files(target: Path, role: str) -> list[str]:
    return ["--tls-ca-file", str(target / "ca.pem"), "--tls-cert", str(target / f"{role}.pem"),
            "--tls-key", str(target / f"{role}-key.pem")]
