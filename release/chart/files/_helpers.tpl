{{- define "sluice.image" -}}
{{- with .Values.image -}}
{{- if .digest }}{{ printf "%s@%s" .repository .digest }}{{ else }}{{ printf "%s:%s" .repository (.tag | default $.Chart.AppVersion) }}{{ end -}}
{{- end -}}
{{- end -}}

{{- define "sluice.schedulerImage" -}}
{{- with .Values.schedulerImage }}{{ printf "%s:%s" .repository .tag | quote }}{{ end -}}
{{- end -}}

{{- /* A setting as the server reads it from its environment. */ -}}
{{- define "sluice.setting" -}}
{{- if kindIs "slice" . }}{{ join "," . | quote }}{{ else if kindIs "float64" . }}{{ int64 . | toString | quote }}{{ else }}{{ toString . | quote }}{{ end -}}
{{- end -}}

{{- /* Names as a list of CEL has them. */ -}}
{{- define "sluice.quoted" -}}
{{- $names := list -}}
{{- range . }}{{ $names = append $names (printf "'%s'" .) }}{{ end -}}
{{- join ", " $names -}}
{{- end -}}

{{- /* Peers of a NetworkPolicy, from ranges of addresses. */ -}}
{{- define "sluice.ipBlocks" -}}
{{- range . }}
- ipBlock:
    cidr: {{ . | quote }}
{{- end }}
{{- end -}}

{{- /* The number of an IPv4 address. */ -}}
{{- define "sluice.ipv4" -}}
{{- $number := 0 -}}
{{- range splitList "." . }}{{ $number = add (mul $number 256) (int .) }}{{ end -}}
{{- $number -}}
{{- end -}}

{{- /* "yes" if the IPv4 address is in the range: (list "10.96.0.42" "10.96.0.0/12"). */ -}}
{{- define "sluice.inRange" -}}
{{- $address := index . 0 -}}
{{- $range := splitList "/" (index . 1) -}}
{{- $size := 1 -}}
{{- range until (int (sub 32 (int (index $range 1)))) }}{{ $size = mul $size 2 }}{{ end -}}
{{- $first := int64 (include "sluice.ipv4" (index $range 0)) -}}
{{- $number := int64 (include "sluice.ipv4" $address) -}}
{{- if and (ge $number $first) (lt $number (add $first $size)) }}yes{{ end -}}
{{- end -}}
