"""Runs at certain times: what is written for cron, systemd, Slurm and Kubernetes, which do the waiting."""
