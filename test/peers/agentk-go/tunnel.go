package main

import (
	"context"
	"fmt"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

const connectMethod = "/gitlab.agent.reverse_tunnel.rpc.ReverseTunnel/Connect"

var bidi = &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}

// tunnel is one Connect stream (doc/reference/tunnel-protocol.md 3.2).
type tunnel struct {
	*tunnels
	opened func()
	method string // empty until a call came
	stream grpc.ClientStream
	state  int
	fault  fault
}

// run returns how the stream ended; nil is OK.
func (t *tunnel) run() error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stopListening := context.AfterFunc(t.leaving, cancel)
	defer stopListening()
	var err error
	if t.stream, err = t.kas.NewStream(ctx, bidi, connectMethod, grpc.WaitForReady(true)); err != nil {
		return err
	}
	if err = t.stream.SendMsg(t.options.descriptor()); err != nil && err != io.EOF {
		return err
	}
	emit("tunnel-opened", nil)
	t.opened()
	info, err := t.receive()
	if err != nil || info == nil {
		return err
	}
	if !stopListening() {
		return status.Error(codes.Canceled, "leaving")
	}
	t.method = info.method
	t.becameActive()
	return t.serve(ctx, info)
}

// receive gives the next valid message, or nil at the end of the stream with OK.
func (t *tunnel) receive() (*connectResponse, error) {
	var bytes []byte
	err := t.stream.RecvMsg(&bytes)
	next := -1
	var response *connectResponse
	if err == nil {
		if response, err = decodeConnectResponse(bytes); err != nil {
			violation("ReverseTunnel.Connect", err)
			return nil, err
		}
		next = response.kind
	} else if err != io.EOF {
		return nil, err
	}
	if err = connectResponseOrder.check(t.state, next); err != nil {
		violation("ReverseTunnel.Connect", err)
		return nil, err
	}
	t.state = next
	return response, nil
}

// serve carries one call between kas and the server in this process.
func (t *tunnel) serve(ctx context.Context, info *connectResponse) error {
	callCtx, cancelCall := context.WithCancel(metadata.NewOutgoingContext(ctx, info.meta))
	defer cancelCall()
	call, err := t.api.NewStream(callCtx, bidi, info.method, grpc.CallContentSubtype("proto"))
	faults := make(chan fault, 1)
	ended := make(chan error, 1)
	go func() {
		err := t.copyToCall(call, faults)
		if err != nil {
			cancelCall()
		}
		ended <- err
	}()
	if err != nil {
		return t.finish(errorMessage(err), ended)
	}
	select {
	case t.fault = <-faults:
	case err := <-ended:
		ended <- err
	}
	return t.copyFromCall(call, ended)
}

func (t *tunnel) copyToCall(call grpc.ClientStream, faults chan<- fault) error {
	first := true
	for {
		response, err := t.receive()
		switch {
		case err != nil:
			return err
		case response == nil:
			return nil
		case call == nil: // refused at once: only the end of the stream is awaited
		case response.kind == closeSend:
			_ = call.CloseSend()
		default:
			if first {
				faults <- t.options.faultFor(response.data)
				first = false
			}
			_ = call.SendMsg(response.data) // its error is the call's end, seen by copyFromCall
		}
	}
}

func (t *tunnel) copyFromCall(call grpc.ClientStream, ended chan error) error {
	header, err := call.Header()
	if t.fault == failBeforeHeader {
		err = status.Error(codes.Unavailable, "fault: failed before the header")
	}
	if err != nil {
		return t.finish(errorMessage(err), ended)
	}
	if t.fault == wrongOrder {
		return t.finish(dataMessage([]byte("too early")), ended)
	}
	_ = t.stream.SendMsg(headerMessage(header)) // a broken tunnel is told by ended
	for count := 1; ; count++ {
		var message []byte
		if err = call.RecvMsg(&message); err != nil {
			break
		}
		if t.fault == hugeMessage && count == 2 {
			message = make([]byte, 4*1024*1024+1)
		}
		if err := t.stream.SendMsg(dataMessage(message)); err != nil {
			break
		}
		if count < 2 {
			continue // the HTTP header; what follows is the body
		}
		switch t.fault {
		case errorMidResponse:
			return t.finishAfterTrailer(call, status.Error(codes.Unavailable, "fault: failed in the middle"), ended)
		case endMidResponse:
			return t.finish(nil, ended)
		}
	}
	if err == io.EOF {
		err = nil
	}
	return t.finishAfterTrailer(call, err, ended)
}

func (t *tunnel) finishAfterTrailer(call grpc.ClientStream, err error, ended chan error) error {
	if t.fault == noTrailer {
		return t.finish(nil, ended)
	}
	last := trailerMessage(call.Trailer())
	if err == nil {
		return t.finish(last, ended)
	}
	if t.fault != errorWithoutTrailer {
		_ = t.stream.SendMsg(last)
	}
	return t.finish(errorMessage(err), ended)
}

// finish sends the last message, half-closes and waits for kas to end the stream.
func (t *tunnel) finish(last []byte, ended <-chan error) error {
	if last != nil {
		_ = t.stream.SendMsg(last)
	}
	_ = t.stream.CloseSend()
	err := <-ended
	if t.fault != noFault {
		emit("fault-ended", fields{"fault": string(t.fault), "code": status.Code(err).String(), "message": fmt.Sprint(err)})
	}
	return err
}
