"""Runs at certain times: what is written for cron, systemd and Slurm, which do the waiting."""
