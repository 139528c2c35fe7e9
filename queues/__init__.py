"""The rules of queues: functions of values.

No I/O, no clock, no Flask, no kubernetes: what is decided here is decided the same
way by the extender, the webhooks, the controller and the plugin. Start reading at
`states`, then `tree`, then `verdict`.
"""
