package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
)

const (
	kubernetesAPIService = "gitlab.agent.kubernetes_api.rpc.KubernetesApi"
	chunkBytes           = 32 * 1024
)

// kubernetesAPI serves MakeRequest inside this process (doc/reference/tunnel-protocol.md 1.4).
type kubernetesAPI struct {
	options   *options
	transport *http.Transport
}

// serve starts the server in this process and gives a connection to it.
func (k *kubernetesAPI) serve() (*grpc.ClientConn, error) {
	listener := bufconn.Listen(256 * 1024)
	server := grpc.NewServer()
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: kubernetesAPIService,
		HandlerType: (*any)(nil),
		Streams: []grpc.StreamDesc{{
			StreamName: "MakeRequest", ServerStreams: true, ClientStreams: true,
			Handler: func(_ any, stream grpc.ServerStream) error { return k.makeRequest(stream) },
		}},
	}, k)
	go func() { _ = server.Serve(listener) }()
	return grpc.Dial("passthrough:pipe",
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return listener.Dial() }),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
}

// call is one HTTP request and its answer.
type call struct {
	*kubernetesAPI
	grpc.ServerStream
	state             int
	received, sent    int64
	request           *httpRequest
	body              *io.PipeWriter
	upgraded          chan io.WriteCloser // closed without a value if the answer is no upgrade
	sentStatus        int
	impersonatedUsing string
}

func (k *kubernetesAPI) makeRequest(stream grpc.ServerStream) error {
	c := &call{kubernetesAPI: k, ServerStream: stream, upgraded: make(chan io.WriteCloser, 1)}
	err := c.run()
	more := fields{"code": status.Code(err).String(), "message": status.Convert(err).Message(), "status": c.sentStatus,
		"received": c.received, "sent": c.sent, "impersonation": c.impersonatedUsing}
	if c.request != nil {
		more["method"], more["path"] = c.request.method, c.request.path
	}
	emit("call", more)
	return err
}

func (c *call) run() error {
	first, err := c.receive()
	if err != nil {
		return err
	}
	c.request = first
	c.noteHeaderNames()
	switch c.options.requestFault(first) {
	case hang:
		<-c.Context().Done()
		return status.FromContextError(c.Context().Err()).Err()
	case badHTTPOrder:
		return c.SendMsg(httpDataMessage(httpData, []byte("too early")))
	case emptyHTTPMessage:
		return c.SendMsg([]byte{})
	}
	ctx, cancel := context.WithCancelCause(c.Context())
	defer cancel(nil)
	var reader *io.PipeReader
	reader, c.body = io.Pipe()
	inbound := make(chan error, 1)
	go func() {
		err := c.copyInbound()
		if err != nil {
			_ = c.body.CloseWithError(err)
			cancel(err)
		}
		inbound <- err
	}()
	err = c.outbound(ctx, reader)
	if cause := context.Cause(ctx); cause != nil && c.Context().Err() == nil {
		return cause // the request was bad: that is what to tell
	}
	if err == nil && c.sentStatus != http.StatusSwitchingProtocols {
		err = <-inbound // an upgraded connection is over once the API server ends it
	}
	return err
}

// receive gives the next message in order, or nil at the half-close.
func (c *call) receive() (*httpRequest, error) {
	var bytes []byte
	err := c.RecvMsg(&bytes)
	next := -1
	var request *httpRequest
	if err == nil {
		if request, err = decodeHTTPRequest(bytes); err != nil {
			violation("KubernetesApi.MakeRequest", err)
			return nil, err
		}
		next = request.kind
	} else if err != io.EOF {
		return nil, err
	}
	if err = httpOrder.check(c.state, next); err != nil {
		violation("KubernetesApi.MakeRequest", err)
		return nil, err
	}
	c.state = next
	return request, nil
}

// copyInbound carries the request's body, then bytes of the upgraded connection.
func (c *call) copyInbound() error {
	var connection io.WriteCloser
	for {
		message, err := c.receive()
		if err != nil {
			return err
		}
		if message == nil {
			if connection == nil {
				connection = c.waitForUpgrade()
			}
			if connection != nil {
				return connection.Close()
			}
			return nil
		}
		c.received += int64(len(message.data))
		switch message.kind {
		case httpData:
			if length := c.request.contentLength; length != nil && *length == 0 {
				return status.Error(codes.Internal, "unexpected HttpRequest_Data message received")
			}
			_, _ = c.body.Write(message.data) // fails if the API server answered early: the rest is dropped
		case httpTrailer:
			_ = c.body.Close()
		case httpUpgradeData:
			if connection == nil {
				connection = c.waitForUpgrade()
			}
			if connection == nil {
				return status.Error(codes.Internal, "unexpected HttpRequest_UpgradeData message for non-upgraded request")
			}
			if _, err = connection.Write(message.data); err != nil {
				return unavailable(err)
			}
		}
	}
}

func (c *call) waitForUpgrade() io.WriteCloser {
	select {
	case connection := <-c.upgraded:
		return connection
	case <-c.Context().Done():
		return nil
	}
}

// noteHeaderNames tells of names that are not in Go's form: a stock agent looks them up by exact key
// (doc/reference/tunnel-protocol.md 0.3).
func (c *call) noteHeaderNames() {
	for name := range c.request.header {
		if textproto.CanonicalMIMEHeaderKey(name) != name {
			violation("KubernetesApi.MakeRequest", fmt.Errorf("header name %q is not in canonical form", name))
		}
	}
	for _, name := range []string{"Host", "Transfer-Encoding", "Keep-Alive", "Te", "Trailer"} {
		if _, present := c.request.header[name]; present {
			violation("KubernetesApi.MakeRequest", fmt.Errorf("header %q must not be passed on", name))
		}
	}
}

func (o *options) requestFault(request *httpRequest) fault {
	if values := request.header[faultHeader]; len(values) > 0 {
		return fault(values[0])
	}
	return o.fault
}

// unavailable is how a stock agent tells of trouble with the API server (doc/reference/tunnel-protocol.md 1.4).
func unavailable(err error) error {
	code := codes.Unavailable
	switch {
	case strings.Contains(err.Error(), context.Canceled.Error()):
		code = codes.Canceled
	case strings.Contains(err.Error(), context.DeadlineExceeded.Error()):
		code = codes.DeadlineExceeded
	}
	return status.Errorf(code, "gRPC -> HTTP: %v", err)
}
