// Makes calls with the generated clients. The calls come on stdin, and each result is printed as one line of JSON.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"log"
	"os"
	"reflect"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"tensor-reshape.internal/protos/inference"
	pb "tensor-reshape.internal/protos/tensor_reshape/v1"
)

const maxResponseBytes = 64 << 20

type call struct {
	Service  string
	Method   string
	Streams  bool
	Holds    bool
	Seconds  float64
	Requests []json.RawMessage
}

type answer struct {
	Responses []json.RawMessage `json:"responses"`
}

type failure struct {
	Code     int               `json:"code"`
	Message  string            `json:"message"`
	Reason   string            `json:"reason"`
	Metadata map[string]string `json:"metadata"`
}

func main() {
	var opening struct{ Address string }
	lines := bufio.NewReader(os.Stdin)
	read(lines, &opening)
	connection, err := grpc.Dial(opening.Address, grpc.WithInsecure(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxResponseBytes)))
	check(err)
	clients := map[string]reflect.Value{
		"tensor_reshape.v1.ReshapeService": reflect.ValueOf(pb.NewReshapeServiceClient(connection)),
		"inference.GRPCInferenceService":   reflect.ValueOf(inference.NewGRPCInferenceServiceClient(connection)),
	}
	for asked := (call{}); read(lines, &asked); asked = (call{}) {
		responses, err := asked.make(clients[asked.Service].MethodByName(asked.Method))
		if err == nil {
			print(answer{responses})
		} else {
			print(describe(err))
		}
	}
}

func (asked call) make(method reflect.Value) ([]json.RawMessage, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(asked.Seconds*float64(time.Second)))
	defer cancel()
	if asked.Streams {
		results := method.Call([]reflect.Value{reflect.ValueOf(ctx)})
		if err := toError(results[1]); err != nil {
			return nil, err
		}
		return asked.exchange(results[0])
	}
	request := parse(asked.Requests[0], method.Type().In(1))
	results := method.Call([]reflect.Value{reflect.ValueOf(ctx), request})
	if err := toError(results[1]); err != nil {
		return nil, err
	}
	return []json.RawMessage{format(results[0])}, nil
}

// Sends and receives at the same time, because the server stops reading from a client that does not read.
func (asked call) exchange(stream reflect.Value) ([]json.RawMessage, error) {
	send, receive := stream.MethodByName("Send"), stream.MethodByName("Recv")
	go func() {
		for _, raw := range asked.Requests {
			if toError(send.Call([]reflect.Value{parse(raw, send.Type().In(0))})[0]) != nil {
				return // Recv returns the error
			}
		}
		if !asked.Holds {
			stream.MethodByName("CloseSend").Call(nil)
		}
	}()
	responses := []json.RawMessage{}
	for {
		results := receive.Call(nil)
		if err := toError(results[1]); err == io.EOF {
			return responses, nil
		} else if err != nil {
			return nil, err
		}
		responses = append(responses, format(results[0]))
	}
}

func describe(err error) failure {
	described := failure{Code: int(status.Code(err)), Message: status.Convert(err).Message()}
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			described.Reason, described.Metadata = info.Reason, info.Metadata
		}
	}
	return described
}

func toError(value reflect.Value) error {
	err, _ := value.Interface().(error)
	return err
}

func parse(raw json.RawMessage, kind reflect.Type) reflect.Value {
	message := reflect.New(kind.Elem())
	check(protojson.Unmarshal(raw, message.Interface().(proto.Message)))
	return message
}

func format(message reflect.Value) json.RawMessage {
	raw, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(message.Interface().(proto.Message))
	check(err)
	return raw
}

func read(lines *bufio.Reader, into interface{}) bool {
	line, err := lines.ReadBytes('\n')
	if err == io.EOF {
		return false
	}
	check(err)
	check(json.Unmarshal(line, into))
	return true
}

func print(value interface{}) {
	check(json.NewEncoder(os.Stdout).Encode(value))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
