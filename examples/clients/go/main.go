// Reshapes six numbers, then prints the reason of a rejected request. Run it with: go run . localhost:50051
package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"log"
	"math"
	"os"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	pb "tensor-reshape.internal/protos/tensor_reshape/v1"
)

const maxResponseBytes = 64 << 20 // the default of grpc-go is 4 MiB

func main() {
	connection, err := grpc.Dial(os.Args[1], grpc.WithInsecure(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxResponseBytes)))
	if err != nil {
		log.Fatal(err)
	}
	defer connection.Close()
	client := pb.NewReshapeServiceClient(connection)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	data := &pb.Tensor{DataType: pb.DataType_DATA_TYPE_F32, Dims: []int64{2, 3}, Data: encode(1, 2, 3, 4, 5, 6)}
	shape := &pb.TargetShape{Items: []int64{3, -1}}
	request := &pb.StaticReshapeRequest{Shape: shape, SpecialZero: proto.Bool(false), Data: data}
	answer, err := client.StaticReshape(ctx, request)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(answer.Output.Dims, decode(answer.Output.Data)) // [3 2] [1 2 3 4 5 6]

	shape.Items = []int64{4, -1}
	_, err = client.StaticReshape(ctx, request)
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			fmt.Println(status.Code(err), info.Reason) // InvalidArgument NOT_DIVISIBLE
		}
	}
}

func encode(elements ...float32) []byte {
	raw := make([]byte, 4*len(elements))
	for i, element := range elements {
		binary.LittleEndian.PutUint32(raw[4*i:], math.Float32bits(element))
	}
	return raw
}

func decode(raw []byte) []float32 {
	elements := make([]float32, len(raw)/4)
	for i := range elements {
		elements[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
	}
	return elements
}
