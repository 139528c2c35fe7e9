"""`kubectl queue policy`: which scheduling policies there are, what they mean, and which of them counts.

Read in this order: `config_map` (reads the policies of the cluster), `manifest_check` (what is wrong in a
file), `explainer` (which policy counts for a queue or a pod, and what each part of it does). What a policy
means is in `queues.policies`. `commands.policy` prints the answers.
"""
