"""`make chart`: the Helm chart, made from `manifests`, which stay the only place where an object is written.

Read in this order:

| module      | what is in it                                                                              |
|-------------|--------------------------------------------------------------------------------------------|
| `values`    | the table of values: name, help, schema, and where each stands in the manifests            |
| `kustomize` | the manifests as `kubectl kustomize` builds them, alone and with each optional folder       |
| `variants`  | merges these builds into one tree whose parts have conditions                               |
| `template`  | writes such a tree as the text of a Helm template                                           |
| `chart`     | the whole chart: templates, values.yaml, values.schema.json, Chart.yaml, and its archive     |
| `files`     | what is written by hand, since it is in no manifest: the checks of values, and NOTES.txt     |

The manifests are the source, and the chart is made from them: `kubectl apply -k`, `make up` and the tests
read plain YAML, which a template is not. What only Helm has, its checks and notes, is written by hand.

Promises
- With default values the chart renders the objects of `kubectl kustomize manifests`. The definitions have one
  annotation more, `helm.sh/resource-policy: keep`.
- A default that stands in the manifests is read from there.
- The same commit gives the same bytes.
"""
