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

{{- /* The number that a quantity stands for, "64Mi" for 67108864. */ -}}
{{- define "sluice.amount" -}}
{{- $units := dict "n" 1e-9 "u" 1e-6 "m" 1e-3 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "P" 1e15 "E" 1e18 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 "Pi" 1125899906842624 "Ei" 1152921504606846976 -}}
{{- $number := regexFind "^[0-9.]+([eE][+-]?[0-9]+)?" (toString .) -}}
{{- mulf (float64 $number) (get $units (trimPrefix $number (toString .)) | default 1) -}}
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

{{- /* "yes" if this is a range of addresses: 10.0.0.0/24, fd00::/64. */ -}}
{{- define "sluice.isRange" -}}
{{- $byte := "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])" -}}
{{- $ipv4 := printf "^(%s\\.){3}%s/(3[0-2]|[12]?[0-9])$" $byte $byte -}}
{{- $ipv6 := "^[0-9a-fA-F]{0,4}(:[0-9a-fA-F]{0,4}){2,7}/(12[0-8]|1[01][0-9]|[1-9]?[0-9])$" -}}
{{- $gaps := len (regexFindAll "::+" . -1) -}}
{{- $whole := regexMatch "^[0-9a-fA-F]+(:[0-9a-fA-F]+){7}/" . -}}
{{- if regexMatch $ipv4 . -}}yes
{{- else if and (regexMatch $ipv6 .) (not (contains ":::" .)) (or $whole (eq $gaps 1)) -}}yes{{ end -}}
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
