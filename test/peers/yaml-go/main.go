// Reads files of manifests as kubectl does, and says what is in them.
//
// Input: a path in each line. Output: a line of JSON for each: {"objects": [...]}, or {"error": "..."}.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
)

type answer struct {
	Objects []json.RawMessage `json:"objects"`
	Error   string            `json:"error,omitempty"`
}

func main() {
	paths := bufio.NewScanner(os.Stdin)
	paths.Buffer(nil, 1<<20)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for paths.Scan() {
		objects, err := read(paths.Text())
		line := answer{Objects: objects}
		if err != nil {
			line = answer{Error: err.Error()}
		}
		encoded, err := json.Marshal(line)
		if err != nil {
			panic(err)
		}
		out.Write(append(encoded, '\n'))
	}
	if err := paths.Err(); err != nil {
		panic(err)
	}
}

// read is cli-runtime's StreamVisitor.Visit.
func read(path string) ([]json.RawMessage, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	objects := []json.RawMessage{}
	decoder := yaml.NewYAMLOrJSONDecoder(file, 4096)
	for {
		document := runtime.RawExtension{}
		if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
			return objects, nil
		} else if err != nil {
			return nil, err
		}
		raw := bytes.TrimSpace(document.Raw)
		if len(raw) == 0 || bytes.Equal(raw, []byte("null")) {
			continue
		}
		inside, err := flat(raw)
		if err != nil {
			return nil, err
		}
		objects = append(objects, inside...)
	}
}

// flat is cli-runtime's FlattenListVisitor, but for the order of lists in lists.
func flat(raw []byte) ([]json.RawMessage, error) {
	object, _, err := unstructured.UnstructuredJSONScheme.Decode(raw, nil, nil)
	if err != nil {
		return nil, err
	}
	objects := []json.RawMessage{}
	var add func(runtime.Object) error
	add = func(object runtime.Object) error {
		if list, ok := object.(runtime.Unstructured); ok && list.IsList() {
			return list.EachListItem(add)
		}
		encoded, err := json.Marshal(object.(*unstructured.Unstructured).Object)
		objects = append(objects, encoded)
		return err
	}
	return objects, add(object)
}
