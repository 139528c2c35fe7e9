"""Certificates: the authority, what it issues, and where both are kept. Read in this order:

| module         | what is in it                                                                     |
|----------------|-----------------------------------------------------------------------------------|
| `authority`    | an authority: creates, stores and loads it, issues certificates; the errors       |
| `renewal`      | the server's certificate in its folder, and the thread that keeps all current     |
| `secret_store` | the authority in a Secret, one for all replicas                                   |
| `ca_bundle`    | the authority's certificate in our webhook configurations                         |
"""
