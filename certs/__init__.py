"""Certificates: the authority, what it issues, and where both are kept. Read in this order:

| module             | what is in it                                                                      |
|--------------------|------------------------------------------------------------------------------------|
| `authority`        | an authority: creates, stores and loads it, issues certificates; the errors        |
| `rotation`         | how the authority is replaced: the rule, pure, with all that may go wrong          |
| `secret_store`     | the authority in a Secret, one for all replicas; its bundle in a ConfigMap         |
| `ca_bundle`        | the bundle in our webhook configurations                                           |
| `shared_authority` | one replica's part in keeping it: in which order all of these are read and written |
| `serving`          | the certificate that we serve: issued into a folder, or files that somebody else   |
|                    | wrote                                                                              |
| `renewal`          | the thread that keeps all current                                                  |
"""
