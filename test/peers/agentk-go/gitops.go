package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
)

const getObjectsMethod = "/gitlab.agent.gitops.rpc.Gitops/GetObjectsToSynchronize"

// defaultGlob stands for a project without paths, in all releases.
const defaultGlob = "**/*.{yaml,yml,json}"

// gitopsSources are what an agent follows: a worker for each manifest project of its configuration, which begins anew
// when its entry changes (doc/reference/tunnel-protocol.md 1.5, 1.10).
type gitopsSources struct {
	options *options
	kas     *grpc.ClientConn
	// by the entry, as it came
	running map[string]context.CancelFunc
}

// gitopsSource is ManifestProjectCF, as far as a request needs it.
type gitopsSource struct {
	project string
	paths   [][]byte // PathCF
	ref     []byte   // GitRefCF
}

// apply takes GitopsCF of a configuration.
func (s *gitopsSources) apply(ctx context.Context, gitops []byte) error {
	wanted := map[string]*gitopsSource{}
	err := readMessage(gitops, func(number protowire.Number, bytes []byte, _ uint64) error {
		if number != 1 {
			return nil
		}
		source, err := s.options.readGitopsSource(bytes)
		wanted[string(bytes)] = source
		return err
	})
	if err != nil {
		return err
	}
	for entry, stop := range s.running {
		if wanted[entry] == nil {
			stop()
			delete(s.running, entry)
		}
	}
	for entry, source := range wanted {
		if s.running[entry] == nil {
			own, stop := context.WithCancel(ctx)
			s.running[entry] = stop
			go s.watch(own, source)
		}
	}
	return nil
}

// isBefore16 says that the agent knows no refs: it follows the default branch alone.
func (o *options) isBefore16() bool {
	return strings.HasPrefix(o.version, "v13.") || strings.HasPrefix(o.version, "v14.") || strings.HasPrefix(o.version, "v15.")
}

func (o *options) readGitopsSource(entry []byte) (*gitopsSource, error) {
	source := &gitopsSource{}
	err := readMessage(entry, func(number protowire.Number, bytes []byte, _ uint64) (err error) {
		switch number {
		case 1:
			source.project, err = text(bytes)
		case 5:
			source.paths = append(source.paths, bytes)
		case 12:
			if !o.isBefore16() {
				source.ref = bytes
			}
		}
		return err
	})
	if err == nil && source.project == "" {
		if o.isBefore16() { // the key was required
			err = invalid("invalid ManifestProjectCF.Id: value length must be at least 1 bytes")
		}
		source.project = o.ownProject
	}
	if len(source.paths) == 0 {
		source.paths = [][]byte{appendText(nil, 1, defaultGlob)}
	}
	return source, err
}

// watch asks for one commit after the other, each by a call of its own.
func (s *gitopsSources) watch(ctx context.Context, source *gitopsSource) {
	wait := s.options.slowBackoff()
	lastCommit := ""
	for ctx.Err() == nil {
		set, err := s.synchronize(ctx, source, lastCommit)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			failed := fields{"project": source.project, "code": status.Code(err).String(), "message": status.Convert(err).Message()}
			emit("gitops-failed", failed)
			if !sleep(ctx, wait.next()) {
				return
			}
			continue
		}
		if set.commit != "" { // else the server had nothing to say
			lastCommit = set.commit
			set.emit(source.project)
		}
	}
}

func (s *gitopsSources) synchronize(ctx context.Context, source *gitopsSource, lastCommit string) (*objectSet, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := s.kas.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, getObjectsMethod, grpc.WaitForReady(true))
	if err != nil {
		return nil, err
	}
	request := appendText(appendText(nil, 1, source.project), 2, lastCommit)
	for _, path := range source.paths {
		request = appendMessage(request, 3, path)
	}
	if source.ref != nil {
		request = appendMessage(request, 4, source.ref)
	}
	if err = stream.SendMsg(request); err != nil && err != io.EOF {
		return nil, err
	}
	_ = stream.CloseSend()
	emit("gitops-asked", fields{"project": source.project, "commit": lastCommit})
	set := &objectSet{}
	for {
		var message []byte
		if err = stream.RecvMsg(&message); err == io.EOF {
			err = objectsOrder.check(set.state, -1)
			set.report(err)
			return set, err
		} else if err != nil {
			return nil, err
		}
		if err = set.add(message); err != nil {
			set.report(err)
			return nil, err
		}
	}
}

// objectsOrder: header, objects, trailer, or nothing at all.
var objectsOrder = order{0: {1, -1}, 1: {2, 3}, 2: {2, 3}, 3: {-1}}

type objectSet struct {
	state     int
	commit    string
	projectID uint64
	sources   []objectSource
	largest   int
	// field numbers that a stock agent does not know, which it skips
	unknown int
}

type objectSource struct {
	name string
	data []byte
}

func (s *objectSet) report(err error) {
	if err != nil {
		violation("Gitops.GetObjectsToSynchronize", err)
	}
}

func (s *objectSet) add(message []byte) error {
	kind := 0
	var body []byte
	err := readMessage(message, func(number protowire.Number, bytes []byte, _ uint64) error {
		if number <= 3 {
			kind, body = int(number), bytes
		}
		return nil
	})
	if err != nil {
		return invalid("%v", err)
	}
	if err = objectsOrder.check(s.state, kind); err != nil {
		return err
	}
	s.state = kind
	switch kind {
	case 1:
		return s.addHeader(body)
	case 2:
		return s.addObject(body)
	}
	return nil
}

func (s *objectSet) addHeader(header []byte) error {
	err := readMessage(header, func(number protowire.Number, bytes []byte, varint uint64) (err error) {
		switch number {
		case 1:
			s.commit, err = text(bytes)
		case 2:
			s.projectID = varint
		default:
			s.unknown++
		}
		return err
	})
	if err == nil && s.commit == "" {
		err = invalid("invalid ObjectsToSynchronizeResponse_Header.CommitId: value length must be at least 1 bytes")
	}
	return err
}

// addObject puts pieces of one file together: they follow one another with the same name.
func (s *objectSet) addObject(object []byte) error {
	var piece objectSource
	err := readMessage(object, func(number protowire.Number, bytes []byte, _ uint64) (err error) {
		switch number {
		case 1:
			piece.name, err = text(bytes)
		case 2:
			piece.data = bytes
		default:
			s.unknown++
		}
		return err
	})
	if err != nil {
		return invalid("%v", err)
	}
	if piece.name == "" {
		return invalid("invalid ObjectsToSynchronizeResponse_Object.Source: value length must be at least 1 bytes")
	}
	s.largest = max(s.largest, len(piece.data))
	if last := len(s.sources) - 1; last >= 0 && s.sources[last].name == piece.name {
		s.sources[last].data = append(s.sources[last].data, piece.data...)
	} else {
		s.sources = append(s.sources, piece)
	}
	return nil
}

func (s *objectSet) emit(project string) {
	files := []fields{}
	for _, source := range s.sources {
		sum := sha256.Sum256(source.data)
		files = append(files, fields{"source": source.name, "bytes": len(source.data), "sha256": hex.EncodeToString(sum[:])})
	}
	emit("gitops-objects", fields{"project": project, "commit": s.commit, "projectId": s.projectID, "files": files,
		"largest": s.largest, "unknownFields": s.unknown})
}
