"""What somebody outside is told of queues, once each. Pure; read `news` first.

| module       | what it has                                                    |
|--------------|----------------------------------------------------------------|
| `news`       | what there is to tell of a queue, and with which id            |
| `windows`    | the same of its change windows                                 |
| `cursor`     | what was told already, and how it is stored                    |
| `message`    | the JSON of several notices: their order, each queue's share   |
| `plain_text` | a text with nothing in it that a chat takes for more than text |
| `refusals`   | what becomes of a message that is not taken                    |
"""
