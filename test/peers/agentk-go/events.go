package main

import (
	"encoding/json"
	"fmt"
	"os"
	"sync"
)

// Every event is one JSON line on stdout with at least the key "event"; tests subscribe to them.
var stdout = struct {
	sync.Mutex
	*json.Encoder
}{Encoder: json.NewEncoder(os.Stdout)}

type fields map[string]any

func emit(event string, more fields) {
	line := fields{"event": event}
	for name, value := range more {
		line[name] = value
	}
	stdout.Lock()
	defer stdout.Unlock()
	_ = stdout.Encode(line)
}

// violation tells loudly that the server broke the protocol.
func violation(where string, err error) {
	emit("invalid-response", fields{"where": where, "message": err.Error()})
	fmt.Fprintf(os.Stderr, "PROTOCOL VIOLATION by the server in %s: %v\n", where, err)
}
