package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

const (
	jsonType     = "application/json"
	metadataType = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
	protobufType = "application/vnd.kubernetes.protobuf"
	// What is replaced, by texts of the same lengths: so an encoded pod stays one.
	nameMark = "name-0000000"
	uidMark  = "ffffffff-ffff-4fff-8fff-fffff0000000"
	nodeMark = "node-0000000"
	itemTag  = 2<<3 | 2 // PodList.items, length-delimited
)

// shape is an encoded pod.
type shape []byte

// shapes encodes the two recorded pods both ways; it says the version of the first, too.
func shapes(content []byte) (map[string][2]shape, string, error) {
	var list corev1.PodList
	if err := json.Unmarshal(content, &list); err != nil {
		return nil, "", err
	}
	if len(list.Items) != 2 {
		return nil, "", fmt.Errorf("%d pods are recorded, not 2", len(list.Items))
	}
	found := map[string][2]shape{}
	for i := range list.Items {
		pod := &list.Items[i]
		pod.Name, pod.UID, pod.Spec.NodeName = nameMark, types.UID(uidMark), nodeMark
		inJSON, err := json.Marshal(pod)
		if err != nil {
			return nil, "", err
		}
		inMetadata, err := json.Marshal(metav1.PartialObjectMetadata{ObjectMeta: pod.ObjectMeta})
		if err != nil {
			return nil, "", err
		}
		inProtobuf, err := pod.Marshal()
		if err != nil {
			return nil, "", err
		}
		for kind, encoded := range map[string][]byte{jsonType: inJSON, metadataType: inMetadata, protobufType: inProtobuf} {
			both := found[kind]
			both[i] = encoded
			found[kind] = both
		}
	}
	return found, list.Items[0].ResourceVersion, nil
}

func (s shape) pod(number, node int) []byte {
	made := bytes.ReplaceAll(s, []byte(nameMark), fmt.Appendf(nil, "name-%07d", number))
	made = bytes.ReplaceAll(made, []byte(uidMark), fmt.Appendf(nil, "ffffffff-ffff-4fff-8fff-fffff%07d", number))
	return bytes.ReplaceAll(made, []byte(nodeMark), fmt.Appendf(nil, "node-%07d", node))
}

func protobufPage(pods [][]byte, version, next string) []byte {
	list := corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: version, Continue: next}}
	raw, err := list.Marshal()
	if err != nil {
		panic(err)
	}
	for _, pod := range pods {
		raw = binary.AppendUvarint(append(raw, itemTag), uint64(len(pod)))
		raw = append(raw, pod...)
	}
	wrapped := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Raw: raw}
	encoded, err := wrapped.Marshal()
	if err != nil {
		panic(err)
	}
	return append([]byte{'k', '8', 's', 0}, encoded...)
}
