#!/bin/bash
# Train on several nodes under SLURM:  sbatch scripts/slurm.sh --config configs/gpt_mini.yaml --run_name NAME ...
# One task a GPU. SIGUSR1 comes 90 s before the time is over: the run writes last.ckpt and queues
# this job again, which goes on from there.
#SBATCH --job-name=pretrain
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=4
#SBATCH --time=12:00:00
#SBATCH --signal=SIGUSR1@90
#SBATCH --requeue
#SBATCH --open-mode=append

set -euo pipefail
srun .venv/bin/python -m pretrain fit \
  --trainer.num_nodes "$SLURM_NNODES" --trainer.devices "$SLURM_NTASKS_PER_NODE" \
  --trainer.strategy ddp --ckpt_path last "$@"
