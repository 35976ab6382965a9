package main

import (
	"fmt"

	"google.golang.org/grpc/encoding"
)

// rawCodec passes messages as bytes. It replaces the codec "proto", so that the content type stays application/grpc.
type rawCodec struct{}

func init() { encoding.RegisterCodec(rawCodec{}) }

func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(message any) ([]byte, error) {
	if bytes, ok := message.([]byte); ok {
		return bytes, nil
	}
	return nil, fmt.Errorf("raw codec: cannot send a %T", message)
}

func (rawCodec) Unmarshal(bytes []byte, message any) error {
	target, ok := message.(*[]byte)
	if !ok {
		return fmt.Errorf("raw codec: cannot receive into a %T", message)
	}
	*target = append([]byte(nil), bytes...)
	return nil
}
